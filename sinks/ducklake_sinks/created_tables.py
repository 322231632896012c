"""The options of tables that a sink has created: set after the commit that created them. Runs on the driver."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from ducklake_core import Lake
from ducklake_core.errors import DuckLakeError, ObjectNotFound, TransientError
from ducklake_core.model import LedgerEntry
from ducklake_core.observe import Recorder
from ducklake_core.spec.names import join_table_name
from ducklake_sinks.events import TableOptionsNotSet
from ducklake_sinks.memory import TableMemory
from ducklake_sinks.options import SinkOptions
from ducklake_sinks.routes import route_key


@dataclass(frozen=True, slots=True)
class CreatedTables:
    """Gives new tables what the sink's options say of them."""

    lake: Lake
    options: SinkOptions
    known: TableMemory
    recorder: Recorder

    def configure(self, created: AbstractSet[str], *, is_repeated: bool) -> None:
        """Set the options of tables that a commit has created.

        A batch that Spark repeats does so again, if this fails: `is_repeated`. Rows without a number must not be
        repeated, for they are committed: the sink's next commit does it for them.
        """
        names = created | self.known.unconfigured
        self.known.unconfigured.clear()
        for name in sorted(names):
            try:
                self._configure(name)
            except DuckLakeError as error:
                if is_repeated and name in created:
                    raise
                self.recorder.record(TableOptionsNotSet(name, error))
                if isinstance(error, TransientError):
                    self.known.unconfigured.add(name)

    def finish_interrupted_setup(self, committed: LedgerEntry) -> None:
        """Do what a run that died right after a commit did not live to do for the tables that it created."""
        if committed.snapshot_id is None:
            return
        try:
            before, after = (self.lake.tables(at=committed.snapshot_id - n) for n in (1, 0))
        except ObjectNotFound:  # expired, so it was long ago
            return
        old = {table.version.table_id for table in before}
        now = {table.version.table_id for table in self.lake.tables()}
        for version in (table.version for table in after):
            if version.table_id in now - old:
                self._set_options(join_table_name(version.schema_name, version.name))

    def _configure(self, table: str) -> None:
        self._set_options(table)
        self.known.ids[route_key(table)] = self.lake.table(table).version.table_id

    def _set_options(self, table: str) -> None:
        """Give a table its options, those that it lacks; the limit of inlined rows holds for other writers, too."""
        wanted = {"data_inlining_row_limit": self.options.inline_rows, **(self.options.table_options or {})}
        known = self.lake.options(table=table)
        for name, value in wanted.items():
            if name.lower() not in known:
                self.lake.set_option(name, value, table=table)
