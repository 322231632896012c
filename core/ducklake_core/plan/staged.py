"""What a transaction wants to commit, as values: made before the commit, free of snapshot ids.

Ids that the commit gives out (schemas, tables, partitionings, sort orders) are negative here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from ducklake_core.model import (
    Column,
    ColumnId,
    ColumnStats,
    DataFileId,
    Epoch,
    NewDataFile,
    NewDeleteFile,
    ReplacedFile,
    SchemaVersion,
    Snapshot,
    SnapshotId,
    TableStats,
    TableVersion,
)
from ducklake_core.plan.flush import Flush
from ducklake_core.plan.inlined_stats import Measured, measure_rows, stats_beyond
from ducklake_core.spec.small_rows import SmallRows, small_rows


@dataclass(frozen=True, eq=False)
class InlinedRows:
    """Rows for the newest inlined table, in the table's columns. `row_ids` None: fresh ids."""

    rows: pa.Table
    columns: tuple[Column, ...]
    row_ids: pa.Array | None = None

    @cached_property
    def small(self) -> SmallRows | None:
        """The values one by one; None when there are so many rows that kernels are faster."""
        return small_rows(self.rows, self.columns)

    @cached_property
    def _measured(self) -> Measured:
        return measure_rows(self.rows, self.columns, self.small)

    def measure(self) -> None:
        """Compute now what `stats` will need."""
        _ = self._measured

    def stats(self, known: TableStats | None) -> list[ColumnStats]:
        """Return the statistics of each leaf, of few rows only those that change what is known of the table."""
        return stats_beyond(known, self._measured)


@dataclass(frozen=True, slots=True)
class InlinedEnd:
    """Rows of one inlined table that end, by row id."""

    inlined_table: str
    row_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class InlinedFileDeletes:
    """Rows of one data file that end, few enough to be rows of the catalog."""

    data_file_id: DataFileId
    positions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ReplacedDeletes:
    """A new delete file of one data file, in the place of what it had, which begins where that began."""

    data_file_id: DataFileId
    new_file: NewDeleteFile
    begin: SnapshotId | None = None  # None: there was nothing, and it begins with the commit
    replaced: tuple[ReplacedFile, ...] = ()


@dataclass(frozen=True, slots=True)
class RestatedBounds:
    """A column whose bounds get new texts, because its type reads the old ones as other values; by data file."""

    column_id: ColumnId
    files: tuple[tuple[DataFileId, str | None, str | None], ...]


@dataclass(frozen=True, slots=True)
class TableWrites:
    """The data a transaction adds to and takes from one table."""

    inlined: tuple[InlinedRows, ...] = ()
    files: tuple[NewDataFile, ...] = ()
    inlined_ends: tuple[InlinedEnd, ...] = ()
    inlined_file_deletes: tuple[InlinedFileDeletes, ...] = ()
    delete_files: tuple[ReplacedDeletes, ...] = ()
    ended_files: tuple[DataFileId, ...] = ()
    flush: Flush | None = None

    @property
    def has_file_deletes(self) -> bool:
        return bool(self.delete_files or self.ended_files or (self.flush and self.flush.deletes))

    @property
    def has_inlined_deletes(self) -> bool:
        return bool(self.inlined_ends or self.inlined_file_deletes)

    @property
    def has_deletes(self) -> bool:
        return self.has_file_deletes or self.has_inlined_deletes

    @property
    def is_append_only(self) -> bool:
        return not self.has_deletes and self.flush is None

    @property
    def is_empty(self) -> bool:
        return not (self.inlined or self.files or self.has_deletes or self.flush)


@dataclass(frozen=True, slots=True)
class StagedTable:
    """One table: as the base has it (None: created here), as it shall be (None: dropped here), and its data.

    `inlines`: the effective row limit is above zero and every column can be inlined.
    """

    before: TableVersion | None
    after: TableVersion | None
    writes: TableWrites = TableWrites()
    inlines: bool = False
    restated: tuple[RestatedBounds, ...] = ()

    @property
    def was_checked_against_rows(self) -> bool:
        """Tell whether the new definition was checked against the rows of the base: more of them would break it."""
        if self.before is None or self.after is None:
            return False
        old = {c.column_id: c.nulls_allowed for c in self.before.columns}
        return bool(self.restated) or any(not c.nulls_allowed and old.get(c.column_id) for c in self.after.columns)

    @property
    def newest(self) -> TableVersion:
        table = self.after or self.before
        assert table is not None  # noqa: S101 # one of the two is always set
        return table

    @property
    def changes_definition(self) -> bool:
        return self.before is not self.after and self.before != self.after


@dataclass(frozen=True, slots=True)
class CommitInfo:
    """What people can read about a snapshot."""

    author: str | None = None
    message: str | None = None
    extra_info: str | None = None


@dataclass(frozen=True, slots=True)
class Staged:
    """Everything one snapshot shall change. `finished_for`: the id that its delete files name, where they name one."""

    base: Snapshot
    tables: tuple[StagedTable, ...] = ()
    created_schemas: tuple[SchemaVersion, ...] = ()
    dropped_schemas: tuple[SchemaVersion, ...] = ()
    info: CommitInfo = CommitInfo()
    epoch: Epoch | None = None
    finished_for: SnapshotId | None = None

    def fits(self, snapshot_id: SnapshotId) -> bool:
        """Tell whether its files can be those of a snapshot: delete files that replace older ones name their own."""
        names_one = any(deletes.replaced for t in self.tables for deletes in t.writes.delete_files)
        return not names_one or self.finished_for == snapshot_id

    @property
    def changes_definitions(self) -> bool:
        schemas = self.created_schemas or self.dropped_schemas
        return bool(schemas) or any(t.changes_definition for t in self.tables)

    @property
    def is_empty(self) -> bool:
        return not self.changes_definitions and all(t.writes.is_empty for t in self.tables)

    @property
    def inlined(self) -> Iterator[InlinedRows]:
        return (rows for table in self.tables for rows in table.writes.inlined)

    @property
    def is_append_only(self) -> bool:
        """Tell whether all it does is add rows: then only a change of a table's definition can conflict."""
        return not self.changes_definitions and all(t.writes.is_append_only for t in self.tables)
