"""Data files and delete files: those that wait for their commit, and those that the catalog has. Values only."""

from __future__ import annotations

from dataclasses import dataclass, field

from ducklake_core.model.ids import ColumnId, DataFileId, DeleteFileId, SnapshotId
from ducklake_core.model.stats import ColumnStats


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
    mapping: NameMapping | None = None  # of a file that somebody else wrote; a new one has a negative id


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
