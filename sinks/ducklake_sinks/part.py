"""What a batch adds to one table. Made and used on the driver."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from ducklake_core import Transaction
from ducklake_core.files.storage import Storage
from ducklake_core.files.written import WrittenFiles
from ducklake_core.model import NewDataFile
from ducklake_sinks.change_rules import ChangeRules
from ducklake_sinks.dead_letters import BadRow, BatchInfo, bad_row_error, dead_letters
from ducklake_sinks.frame_schema import FrameSchema
from ducklake_sinks.native_files import native_directories
from ducklake_sinks.task_writer import Message, Target


@dataclass(frozen=True, slots=True)
class Part:
    """Rows on the driver, files that wait for their commit, or both, for one table.

    `schema` None: dead letters, whose schema is ours. `size_bytes`: of all rows, as Arrow has them. `is_native`:
    Spark's own writer has made the files. `recorded`: reads the rows again, with the record of each (None: it cannot).
    `changes`: the rows are changes, applied by these rules.
    """

    table: str
    schema: FrameSchema | None
    rows: pa.Table | None = None
    files: tuple[NewDataFile, ...] = ()
    directory: str = ""  # of the table, for the files
    size_bytes: int = 0
    is_native: bool = False
    recorded: Callable[[], pa.Table | None] | None = field(default=None, compare=False)
    changes: ChangeRules | None = None
    made_for: Target | None = None  # the table as another process had it, which had the files written

    @property
    def row_count(self) -> int:
        rows: int = 0 if self.rows is None else self.rows.num_rows
        return rows + sum(file.record_count for file in self.files)

    @property
    def has_records(self) -> bool:
        """Tell whether these are dead letters of which some know their record."""
        return self.schema is None and self.rows is not None and self.rows.column("offset").null_count < len(self.rows)

    def written(self, storage: Storage) -> WrittenFiles:
        """Return the files, to be removed when the batch will not be committed."""
        return WrittenFiles(storage, self._paths())

    def _paths(self) -> set[str]:
        """Return the files' paths; of those that have a directory to themselves, that."""
        if self.is_native:
            return native_directories(self.directory, self.files)
        return {self.directory + file.path for file in self.files}


def target_of(core: Transaction, table: str) -> Target:
    """Return a table as a transaction has it."""
    version = core.table_version(table)
    is_new = version.table_id < 0
    return Target(table, core.file_layout(table), None if is_new else version.table_uuid)


def part_of(target: Target, schema: FrameSchema | None, messages: Sequence[Message]) -> Part:
    """Return what tasks have made for one table."""
    rows = [found for message in messages if (found := message.read_rows()) is not None]
    files = tuple(file for message in messages for file in message.files)
    size_bytes = sum(message.size_bytes for message in messages)
    found = pa.concat_tables(rows) if rows else None
    return Part(target.name, schema, found, files, target.layout.directory, size_bytes, made_for=target)


@dataclass(frozen=True, slots=True)
class Quarantine:
    """What becomes of a batch's bad rows: they are kept in `table`; where that is None, the first one is refused."""

    table: str | None
    batch: BatchInfo

    @property
    def is_on(self) -> bool:
        return self.table is not None

    def keep(self, meant_for: str | None, bad: Sequence[BadRow]) -> Part:
        """Return the dead letters of some bad rows, and for which table those were meant; else raise."""
        if self.table is None:
            raise bad_row_error(bad[0])
        return Part(self.table, None, dead_letters(self.batch, meant_for, bad))
