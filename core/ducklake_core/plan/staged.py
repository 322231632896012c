"""What a transaction wants to commit, as values: made before the commit, free of snapshot ids.

Ids that the commit gives out (schemas, tables, partitionings, sort orders) are negative here.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ducklake_core.model import (
    ColumnId,
    DataFileId,
    Epoch,
    NewDataFile,
    NewDeleteFile,
    ReplacedFile,
    SchemaVersion,
    Snapshot,
    SnapshotId,
    TableVersion,
)
from ducklake_core.plan.compaction import Compaction
from ducklake_core.plan.flush import Flush
from ducklake_core.plan.inlined_rows import InlinedRows

_set = object.__setattr__  # of a frozen value, while it is made


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
class RewrittenBounds:
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
    moved: Flush | Compaction | None = None  # rows that are written elsewhere; none of them changes

    # What it is follows from the above: worked out once, since every attempt asks again and again.
    has_file_deletes: bool = field(init=False, repr=False, compare=False)
    has_inlined_deletes: bool = field(init=False, repr=False, compare=False)
    has_deletes: bool = field(init=False, repr=False, compare=False)
    is_append_only: bool = field(init=False, repr=False, compare=False)
    is_empty: bool = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        of_files = bool(self.delete_files or self.ended_files or (isinstance(self.moved, Flush) and self.moved.deletes))
        of_inlined = bool(self.inlined_ends or self.inlined_file_deletes)
        is_append_only = not of_files and not of_inlined and self.moved is None
        _set(self, "has_file_deletes", of_files)
        _set(self, "has_inlined_deletes", of_inlined)
        _set(self, "has_deletes", of_files or of_inlined)
        _set(self, "is_append_only", is_append_only)
        _set(self, "is_empty", is_append_only and not self.inlined and not self.files)


@dataclass(frozen=True, slots=True)
class StagedTable:
    """One table: as the base has it (None: created here), as it shall be (None: dropped here), and its data.

    `inlines`: the effective row limit is above zero and every column can be inlined. `rests_on_rows`: what is staged
    follows from which rows the base has, and from which it has not, as in an upsert: rows that others add, change or
    delete make it invalid. `newest`: as it shall be, or was.
    """

    before: TableVersion | None
    after: TableVersion | None
    writes: TableWrites = TableWrites()
    inlines: bool = False
    rewritten_bounds: tuple[RewrittenBounds, ...] = ()
    rests_on_rows: bool = False
    newest: TableVersion = field(init=False, repr=False, compare=False)
    changes_definition: bool = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        _set(self, "newest", self.after or self.before)  # one of the two is always set
        _set(self, "changes_definition", self.before is not self.after and self.before != self.after)

    @property
    def was_checked_against_rows(self) -> bool:
        """Tell whether the new definition was checked against the rows of the base: more of them would break it."""
        if self.before is None or self.after is None:
            return False
        old = {c.column_id: c.nulls_allowed for c in self.before.columns}
        return bool(self.rewritten_bounds) or any(
            not c.nulls_allowed and old.get(c.column_id) for c in self.after.columns
        )


@dataclass(frozen=True, slots=True)
class CommitInfo:
    """What people can read about a snapshot."""

    author: str | None = None
    message: str | None = None
    extra_info: str | None = None


@dataclass(frozen=True, slots=True)
class Staged:
    """Everything one snapshot shall change. `finished_for`: the id that its delete files name.

    `names_snapshot`: some do name one: those that replace older ones, and so hold what several snapshots deleted.
    `is_append_only`: all it does is add rows, whatever the tables hold: only a change of a definition can conflict.
    `changes_rows_only`: it adds, changes or deletes rows; nothing is defined, and no row is moved.
    """

    base: Snapshot
    tables: tuple[StagedTable, ...] = ()
    created_schemas: tuple[SchemaVersion, ...] = ()
    dropped_schemas: tuple[SchemaVersion, ...] = ()
    info: CommitInfo = CommitInfo()
    epoch: Epoch | None = None
    finished_for: SnapshotId | None = None
    names_snapshot: bool = field(init=False, repr=False, compare=False)
    inlined: tuple[InlinedRows, ...] = field(init=False, repr=False, compare=False)
    changes_definitions: bool = field(init=False, repr=False, compare=False)
    is_append_only: bool = field(init=False, repr=False, compare=False)
    changes_rows_only: bool = field(init=False, repr=False, compare=False)
    is_empty: bool = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        schemas = self.created_schemas or self.dropped_schemas
        changes_definitions = bool(schemas) or any(t.changes_definition for t in self.tables)
        replaced = [deletes.replaced for table in self.tables for deletes in table.writes.delete_files]
        _set(self, "names_snapshot", any(replaced))
        _set(self, "inlined", tuple([rows for table in self.tables for rows in table.writes.inlined]))
        _set(self, "changes_definitions", changes_definitions)
        only_adds = all(t.writes.is_append_only and not t.rests_on_rows for t in self.tables)
        moves = any(t.writes.moved is not None for t in self.tables)
        _set(self, "is_append_only", not changes_definitions and only_adds)
        _set(self, "changes_rows_only", not changes_definitions and not moves)
        _set(self, "is_empty", not changes_definitions and all(t.writes.is_empty for t in self.tables))
