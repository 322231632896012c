"""Frozen values: what a DuckLake holds. No I/O; runs everywhere.

Ids are distinct types so that two integers cannot be swapped. A snapshot range is `(start, end]`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import NewType
from uuid import UUID

from ducklake_core.spec.kinds import NESTED, Kind, kind_of
from ducklake_core.spec.names import fold

SnapshotId = NewType("SnapshotId", int)
SchemaId = NewType("SchemaId", int)
TableId = NewType("TableId", int)
ColumnId = NewType("ColumnId", int)
DataFileId = NewType("DataFileId", int)
DeleteFileId = NewType("DeleteFileId", int)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A row of `ducklake_snapshot` with its changes."""

    snapshot_id: SnapshotId
    snapshot_time: datetime
    schema_version: int
    next_catalog_id: int
    next_file_id: int
    changes: str | None = None
    author: str | None = None
    message: str | None = None
    extra_info: str | None = None


@dataclass(frozen=True, slots=True)
class SnapshotSpan:
    """The snapshots after `start`, up to and with `end`."""

    start: SnapshotId
    end: SnapshotId

    def __contains__(self, snapshot: int) -> bool:
        return self.start < snapshot <= self.end


@dataclass(frozen=True, slots=True)
class SchemaVersion:
    """A schema as one snapshot sees it. `schema_id` is negative until the commit numbers it."""

    schema_id: SchemaId
    schema_uuid: UUID
    name: str
    path: str
    path_is_relative: bool = True


@dataclass(frozen=True, slots=True)
class Column:
    """A node of a table's type tree: a column, a struct field, a list element, a map key or value.

    `type` is DuckLake's type text; `struct`, `list` and `map` have children (`element`; `key`, `value`).
    """

    column_id: ColumnId
    name: str
    type: str
    nulls_allowed: bool = True
    initial_default: str | None = None
    default_value: str | None = None  # None: no default (the catalog's text 'NULL')
    default_value_type: str = "literal"  # 'literal' or 'expression'
    children: tuple[Column, ...] = ()
    comment: str | None = None
    kind: Kind = field(init=False, repr=False, compare=False)  # of the type
    is_nested: bool = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "kind", kind_of(self.type))
        object.__setattr__(self, "is_nested", self.kind in NESTED)

    def walk(self) -> Iterator[Column]:
        """Yield this node, then its descendants, depth first."""
        yield self
        for child in self.children:
            yield from child.walk()

    def leaves(self) -> Iterator[Column]:
        """Yield the descendants that hold values: those with statistics."""
        return (node for node in self.walk() if not node.is_nested)

    def child(self, name: str) -> Column | None:
        """Find a child by name, regardless of case."""
        return next((c for c in self.children if fold(c.name) == fold(name)), None)


@dataclass(frozen=True, slots=True)
class PartitionKey:
    """One key of a partitioning: `transform` is identity, year, month, day, hour or bucket(N)."""

    column_id: ColumnId
    transform: str


@dataclass(frozen=True, slots=True)
class Partitioning:
    """A live partitioning of a table. `partition_id` is negative until the commit numbers it."""

    partition_id: int
    keys: tuple[PartitionKey, ...]


@dataclass(frozen=True, slots=True)
class SortKey:
    """One sort expression, in DuckDB's SQL."""

    expression: str
    descending: bool = False
    nulls_first: bool = False


@dataclass(frozen=True, slots=True)
class SortOrder:
    """A live sort order of a table. `sort_id` is negative until the commit numbers it."""

    sort_id: int
    keys: tuple[SortKey, ...]


@dataclass(frozen=True, slots=True)
class InlinedTable:
    """A registered table of inlined rows, and the columns (of that schema version) that it has.

    `stored_names`: what the database calls them, where that may differ; the reference leaves names unquoted, so that
    PostgreSQL has them in lower case. `partitioning`: how files of that schema version are partitioned.
    """

    name: str
    schema_version: int
    columns: tuple[Column, ...]
    stored_names: tuple[str, ...] = ()
    partitioning: Partitioning | None = None


@dataclass(frozen=True, slots=True)
class TableVersion:
    """A table as one snapshot sees it. `table_id` is negative until the commit numbers it."""

    table_id: TableId
    table_uuid: UUID
    schema_id: SchemaId
    schema_name: str
    name: str
    path: str
    path_is_relative: bool
    directory: str  # full path, with a trailing slash
    columns: tuple[Column, ...]
    next_column_id: int
    partitioning: Partitioning | None = None
    sort_order: SortOrder | None = None
    comment: str | None = None
    inlined_tables: tuple[InlinedTable, ...] = ()
    begin_snapshot: SnapshotId = SnapshotId(0)  # the one that created the table, whatever its name was
    qualified_name: str = field(init=False, repr=False, compare=False)
    newest_inlined_table: InlinedTable | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        newest = max(self.inlined_tables, key=lambda t: t.schema_version, default=None)
        object.__setattr__(self, "qualified_name", f"{self.schema_name}.{self.name}")
        object.__setattr__(self, "newest_inlined_table", newest)

    def column(self, name: str) -> Column | None:
        """Find a top-level column by name, regardless of case."""
        return next((c for c in self.columns if fold(c.name) == fold(name)), None)

    def nodes(self) -> dict[ColumnId, Column]:
        """Return every node of every column by its id."""
        return {node.column_id: node for column in self.columns for node in column.walk()}

    def with_columns(self, columns: tuple[Column, ...], next_column_id: int | None = None) -> TableVersion:
        return replace(self, columns=columns, next_column_id=next_column_id or self.next_column_id)


@dataclass(frozen=True, slots=True)
class ColumnStats:
    """Statistics of one leaf column over some rows, as texts of the catalog. None: unknown."""

    column_id: ColumnId
    value_count: int | None = None
    null_count: int | None = None
    min_value: str | None = None
    max_value: str | None = None
    contains_nan: bool | None = None
    size_bytes: int | None = None
    extra_stats: str | None = None


@dataclass(frozen=True, slots=True)
class TableColumnStats:
    """The bounding statistics of one leaf column over all rows a table ever had. None: unknown."""

    column_id: ColumnId
    contains_null: bool | None
    contains_nan: bool | None
    min_value: str | None
    max_value: str | None
    extra_stats: str | None = None


@dataclass(frozen=True, slots=True)
class TableStats:
    """A row of `ducklake_table_stats` and its columns' bounds. `record_count` is gross.

    `is_recovered`: the catalog lacks it although there are rows, so it was computed from what the catalog has.
    """

    record_count: int
    next_row_id: int
    file_size_bytes: int
    columns: dict[ColumnId, TableColumnStats] = field(default_factory=dict)
    is_recovered: bool = False


@dataclass(frozen=True, slots=True)
class NewDataFile:
    """A Parquet file that was written and waits for its commit. Crosses from executor to driver."""

    path: str
    path_is_relative: bool  # to the table's directory
    record_count: int
    file_size_bytes: int
    footer_size: int
    column_stats: tuple[ColumnStats, ...]
    partition_values: tuple[str | None, ...] | None = None  # one per key, or None when unpartitioned
    has_row_ids: bool = False  # carries `_ducklake_internal_row_id`
    encryption_key: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class NewDeleteFile:
    """A delete file that was written and waits for its commit."""

    path: str
    path_is_relative: bool  # to the table's directory
    delete_count: int
    file_size_bytes: int
    footer_size: int
    encryption_key: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class DeleteFile:
    """A live delete file of one data file."""

    delete_file_id: DeleteFileId
    data_file_id: DataFileId
    path: str  # full
    format: str
    begin_snapshot: SnapshotId
    delete_count: int
    encryption_key: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class ReplacedFile:
    """A delete file whose row leaves the catalog, and which is scheduled for deletion."""

    delete_file_id: DeleteFileId
    path: str  # relative to the lake's data path, or absolute
    path_is_relative: bool


@dataclass(frozen=True, slots=True)
class DataFile:
    """A registered data file with what a reader needs to know of it."""

    data_file_id: DataFileId
    path: str  # full
    begin_snapshot: SnapshotId
    record_count: int
    file_size_bytes: int
    row_id_start: int | None
    partial_max: SnapshotId | None = None
    mapping: NameMapping | None = None
    encryption_key: str | None = field(default=None, repr=False)
    partition_id: int | None = None
    delete_files: tuple[DeleteFile, ...] = ()  # one at most by the format, but flushes of the reference leave two
    inlined_deletes: tuple[int, ...] = ()  # positions in the file, sorted
    end_snapshot: SnapshotId | None = None
    partition_values: dict[int, str | None] = field(default_factory=dict)  # by key index


@dataclass(frozen=True, slots=True)
class RowSpan:
    """Some positions of a file that follow each other: `first` is one of them, `end` is not."""

    first: int
    end: int


@dataclass(frozen=True, slots=True)
class NameMapping:
    """How the columns of a file without field ids are found: by name, or from the hive path."""

    mapping_id: int
    entries: tuple[NameMappingEntry, ...]


@dataclass(frozen=True, slots=True)
class NameMappingEntry:
    """One field of such a file and the column it is, or a column whose value is in the file's path."""

    source_name: str
    target_field_id: ColumnId
    is_partition: bool = False
    children: tuple[NameMappingEntry, ...] = ()


@dataclass(frozen=True, slots=True)
class Epoch:
    """The idempotence key of one micro-batch, and who is committing it.

    `continues_run`: this run has committed an epoch of the stream before, so nobody else may have since.
    """

    stream: str
    batch_id: int
    query_id: str
    run_id: str
    continues_run: bool = False


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """The last epoch of a stream that was committed. `snapshot_id` None: it was empty."""

    stream: str
    query_id: str
    run_id: str
    batch_id: int
    snapshot_id: SnapshotId | None
    row_count: int
    committed_at: datetime


@dataclass(frozen=True, slots=True)
class Consumer:
    """A reader of a table's change feed, and the last snapshot that it has read."""

    name: str
    table_uuid: UUID
    snapshot_id: SnapshotId
    updated_at: datetime
    expires_at: datetime | None


@dataclass(frozen=True, slots=True)
class ColumnsVersion:
    """The columns that a table has had since a snapshot."""

    since: SnapshotId
    columns: tuple[Column, ...]


@dataclass(frozen=True, slots=True)
class InlinedState:
    """What a table has in the catalog instead of in files: what decides when to flush it.

    `rows` are row versions, `ended_rows` those of them that were deleted or updated, `file_deletes` the rows of data
    files that are deleted by catalog rows. `size_bytes` is an estimate. `oldest` is the time of the snapshot that made
    the oldest of all these; when that one has expired, of the first one after it that has not.
    """

    rows: int
    ended_rows: int
    file_deletes: int
    size_bytes: int
    oldest: datetime | None


@dataclass(frozen=True, slots=True)
class TableTotals:
    """How much a table has at the head: files, those of them that are small, deletes, and what is inlined.

    `rows` are those that a reader sees; `deleted_rows` are rows of live files that are deleted.
    """

    table_id: TableId
    table_uuid: UUID
    name: str
    rows: int
    files: int
    small_files: int
    file_bytes: int
    delete_files: int
    deleted_rows: int
    inlined: InlinedState


@dataclass(frozen=True, slots=True)
class LakeTotals:
    """How much a lake has: its snapshots that have not expired, and its tables by name."""

    head: Snapshot
    oldest: Snapshot
    snapshots: int
    tables: tuple[TableTotals, ...]


@dataclass(frozen=True, slots=True)
class FlushResult:
    """What a flush did. `rows` are row versions; `file_deletes` rows of data files whose deletes are in files now.

    `size_bytes` is that of all new files, `dropped_tables` are tables of inlined rows of older columns that were empty.
    """

    snapshots: tuple[Snapshot, ...] = ()
    rows: int = 0
    file_deletes: int = 0
    data_files: int = 0
    delete_files: int = 0
    size_bytes: int = 0
    dropped_tables: tuple[str, ...] = ()
