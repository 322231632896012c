"""Rows are added to their tables, or applied by key; with `ReplaceMode`, those that a table has go. On the driver."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from ducklake_core import Transaction
from ducklake_core.errors import CommitConflict, InvalidInput, ObjectExists, UntoldValue
from ducklake_core.spec.utf8 import refuse_invalid_text
from ducklake_core.upsert.memory import UpsertMemory
from ducklake_core.upsert.report import UpsertReport
from ducklake_sinks.bad_changes import fitting_changes, told_changes
from ducklake_sinks.bad_rows import BAD_ROW_ERRORS, fitting_rows, without_records
from ducklake_sinks.change_rules import ChangeRules
from ducklake_sinks.dead_letters import RECORD_COLUMN, BadRow, bad_row_error, fitting_letters
from ducklake_sinks.destination import Destination
from ducklake_sinks.modes.mode import OnConflict
from ducklake_sinks.options import SinkOptions
from ducklake_sinks.part import Part, Quarantine
from ducklake_sinks.spark_tasks import SparkRunner
from ducklake_sinks.table_setup import TableSetup


class AppendMode:
    """Adds rows; bad ones are kept aside in the same transaction, or refused."""

    def __init__(self, setup: TableSetup, options: SinkOptions, quarantine: Quarantine) -> None:
        self._setup = setup
        self._options = options
        self._quarantine = quarantine
        self._has_files = False
        self._looks_for_rows = False
        self._dead_letters: list[Part] = []
        self._applied: list[tuple[str, UpsertReport]] = []
        self._runner: SparkRunner | None = None  # of the session that the changes are of
        self._memories: dict[int, UpsertMemory] = {}  # of parts that are changes: their rows are searched for once

    @property
    def dead_letters(self) -> Sequence[Part]:
        return self._dead_letters

    @property
    def applied(self) -> Sequence[tuple[str, UpsertReport]]:
        return self._applied

    @property
    def looks_for_rows(self) -> bool:
        return self._looks_for_rows

    def accept(self, destination: Destination) -> None:
        if destination.changes is not None:
            self._looks_for_rows = True
            self._runner = SparkRunner(destination.frame.sparkSession)

    def prepare(self, core: Transaction, parts: Sequence[Part]) -> None:
        self._dead_letters.clear()
        self._applied.clear()
        self._has_files = any(part.files for part in parts)
        for part in parts:
            if part.changes is None or not part.changes.deletes_all:  # keys alone say nothing of the table's columns
                self._setup.prepare(core, part.table, part.schema, with_records=part.has_records)

    def stage(self, core: Transaction, part: Part) -> None:
        if part.schema is None:
            self._dead_letters.append(part)
        if part.files:
            core.append_files(part.table, part.files, lent=True)  # the sink removes them, where the batch fails
        if part.rows is not None and part.changes is not None:
            self._apply(core, part, part.rows, part.changes)
        elif part.rows is not None:
            self._append(core, part, part.rows)

    def finish(self, core: Transaction) -> None: ...

    def on_conflict(self, error: CommitConflict) -> OnConflict:
        """Rows alone can always be staged anew. Files were made for tables as they were, and are never made again.

        They are staged anew after what only moves rows, as a flush or a merge does, and beside changes, which each
        commit to their table is in the way of; else a conflict is final.
        """
        can_rebuild = not self._has_files or error.rows_moved or self._looks_for_rows
        return OnConflict.REBUILD if can_rebuild else OnConflict.GIVE_UP

    def _append(self, core: Transaction, part: Part, rows: pa.Table) -> None:
        fill = self._options.merge_schema or part.schema is None
        if part.schema is None:
            rows = fitting_letters(rows, core.table_version(part.table).columns)
        elif self._quarantine.is_on:
            rows = self._without_bad_rows(core, part, rows, fill_missing=fill)
        limits = self._options.inline_rows, self._options.inline_bytes
        try:
            core.append(
                part.table,
                without_records(rows),
                fill_missing=fill,
                inline_rows=limits[0],
                inline_bytes=limits[1],
            )
        except BAD_ROW_ERRORS:
            self._refuse_by_record(core, part, fill_missing=fill)
            raise

    def _apply(self, core: Transaction, part: Part, rows: pa.Table, changes: ChangeRules) -> None:
        columns = core.table_version(part.table).columns
        if self._quarantine.is_on:
            rows, bad = fitting_changes(rows, columns, part.table, changes)
            recorded = part.recorded() if bad and part.recorded is not None else None
            if recorded is not None:
                rows, bad = fitting_changes(recorded, columns, part.table, changes)
            self._keep_aside(core, part.table, bad)
        else:
            refuse_invalid_text(without_records(rows), part.table)
        memory = self._memories.setdefault(id(part), self._new_memory())
        try:
            report = changes.apply(core, part.table, without_records(rows), self._options, memory)
        except UntoldValue as error:
            if not self._quarantine.is_on:
                raise
            self._apply_told(core, part, rows, changes, error)
        else:
            self._applied.append((part.table, report))

    def _new_memory(self) -> UpsertMemory:
        return UpsertMemory() if self._runner is None else UpsertMemory.searched_by(self._runner)

    def _apply_told(
        self, core: Transaction, part: Part, rows: pa.Table, changes: ChangeRules, error: UntoldValue
    ) -> None:
        """Apply changes without those that leave out a value that the table does not have, either."""
        recorded = None if RECORD_COLUMN in rows.column_names or part.recorded is None else part.recorded()
        if recorded is None:
            rows, bad = told_changes(rows, error)
            self._keep_aside(core, part.table, bad)
        self._apply(core, part, rows if recorded is None else recorded, changes)

    def _keep_aside(self, core: Transaction, table: str, bad: Sequence[BadRow]) -> None:
        if bad:
            letters = self._quarantine.keep(table, bad)
            self._setup.prepare(core, letters.table, None, with_records=letters.has_records)
            self.stage(core, letters)

    def _without_bad_rows(self, core: Transaction, part: Part, rows: pa.Table, *, fill_missing: bool) -> pa.Table:
        """Return the rows that the table can hold; the others are staged as dead letters."""
        columns = core.table_version(part.table).columns
        good, bad = fitting_rows(rows, columns, part.table, fill_missing=fill_missing, quarantines=True)
        recorded = part.recorded() if bad and part.recorded is not None else None
        if recorded is not None:  # the same rows once more, with what each was made from
            good, bad = fitting_rows(recorded, columns, part.table, fill_missing=fill_missing, quarantines=True)
        self._keep_aside(core, part.table, bad)
        return good

    def _refuse_by_record(self, core: Transaction, part: Part, *, fill_missing: bool) -> None:
        """Raise the error of the first bad row so that it names the record, where that can be known."""
        recorded = None if part.recorded is None else part.recorded()
        if recorded is not None:
            columns = core.table_version(part.table).columns
            _, bad = fitting_rows(recorded, columns, part.table, fill_missing=fill_missing, quarantines=True)
            if bad:
                raise bad_row_error(bad[0])


class CreateMode(AppendMode):
    """Adds rows to a table that is created for them, and to no other."""

    def __init__(self, setup: TableSetup, options: SinkOptions, quarantine: Quarantine, *, table: str) -> None:
        super().__init__(setup, options, quarantine)
        self._table = table

    def prepare(self, core: Transaction, parts: Sequence[Part]) -> None:
        if core.has_table(self._table):
            raise ObjectExists(f"table '{self._table}' exists already: nothing was written to it", name=self._table)
        super().prepare(core, parts)


class ReplaceMode(AppendMode):
    """Adds rows in the place of all that their table has, or of those that match `where`.

    `tables`: those that are replaced without a frame.
    """

    def __init__(
        self,
        setup: TableSetup,
        options: SinkOptions,
        quarantine: Quarantine,
        *,
        tables: Sequence[str] = (),
        where: str | None = None,
    ) -> None:
        super().__init__(setup, options, quarantine)
        self._replaced = [*tables]
        self._where = where
        self._looks_for_rows = True  # what another adds meanwhile is replaced as well

    def accept(self, destination: Destination) -> None:
        super().accept(destination)
        if destination.table is None:
            raise InvalidInput("a route has no rows to be replaced: name a table, as in sink.replace(df, table)")
        self._replaced.append(destination.table)

    def prepare(self, core: Transaction, parts: Sequence[Part]) -> None:
        super().prepare(core, parts)
        for name in self._replaced:
            if core.has_table(name):
                self._empty(core, name, parts)

    def _empty(self, core: Transaction, table: str, parts: Sequence[Part]) -> None:
        del parts
        core.delete_replaced(table, self._where)


class ReplacePartitionsMode(ReplaceMode):
    """Adds rows in the place of all that the partitions have which they are in."""

    def _empty(self, core: Transaction, table: str, parts: Sequence[Part]) -> None:
        for part in parts:
            if part.table == table:
                rows = None if part.rows is None else without_records(part.rows)
                core.delete_partitions(table, rows, part.files, fill_missing=self._options.merge_schema)
