"""Rows of the catalog by name: what each query of `catalog/queries.py` and `file_queries.py` asks for. Pure.

A field is a column of the format, or what a query calls one of a second table. Every one may be null whose type says
so, and some others in a catalog that is broken; those who read them refuse that.
"""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from ducklake_core.model import ColumnId, DataFileId, DeleteFileId, SchemaId, SnapshotId, TableId

# ---- the lake


class MetadataRow(NamedTuple):
    """Of `ducklake_metadata`."""

    key: str
    value: str
    scope: str | None
    scope_id: int | None


class VersionRow(NamedTuple):
    """The value of the lake's `version` in `ducklake_metadata`."""

    value: str


class SnapshotRow(NamedTuple):
    """Of `ducklake_snapshot`."""

    snapshot_id: SnapshotId
    snapshot_time: datetime
    schema_version: int
    next_catalog_id: int
    next_file_id: int


class ToldSnapshotRow(NamedTuple):
    """A snapshot with what it tells of itself; nulls where it has no such row."""

    snapshot_id: SnapshotId
    snapshot_time: datetime
    schema_version: int
    next_catalog_id: int
    next_file_id: int
    changes_made: str | None
    author: str | None
    commit_message: str | None
    commit_extra_info: str | None


class ChangesRow(NamedTuple):
    """What one snapshot changed; null where it has no such row."""

    snapshot_id: SnapshotId
    changes_made: str | None


class ChangesTextRow(NamedTuple):
    """What some snapshots changed."""

    changes_made: str


class HistoryRow(NamedTuple):
    """A snapshot as a change feed needs it."""

    snapshot_id: SnapshotId
    snapshot_time: datetime
    schema_version: int
    next_file_id: int
    changes_made: str | None


# ---- definitions


class SchemaRow(NamedTuple):
    """Of `ducklake_schema`."""

    schema_id: SchemaId
    schema_uuid: UUID
    schema_name: str
    path: str | None
    path_is_relative: bool | None


class ViewRow(NamedTuple):
    """Of `ducklake_view`."""

    schema_id: SchemaId
    view_name: str


class TableRow(NamedTuple):
    """A table, and the schema it is in."""

    table_id: TableId
    table_uuid: UUID
    begin_snapshot: SnapshotId
    schema_id: SchemaId
    table_name: str
    path: str | None
    path_is_relative: bool | None
    schema_name: str
    schema_path: str | None
    schema_path_is_relative: bool | None


class ColumnRow(NamedTuple):
    """Of `ducklake_column`."""

    column_id: ColumnId
    begin_snapshot: SnapshotId
    end_snapshot: SnapshotId | None
    column_order: int | None
    column_name: str | None
    column_type: str | None
    initial_default: str | None
    default_value: str | None
    nulls_allowed: bool | None
    parent_column: ColumnId | None
    default_value_type: str | None


class ColumnTagRow(NamedTuple):
    """Of `ducklake_column_tag`."""

    column_id: ColumnId
    begin_snapshot: SnapshotId
    end_snapshot: SnapshotId | None
    key: str
    value: str | None


class TagRow(NamedTuple):
    """Of `ducklake_tag`."""

    begin_snapshot: SnapshotId
    end_snapshot: SnapshotId | None
    key: str
    value: str | None


class PartitionInfoRow(NamedTuple):
    """Of `ducklake_partition_info`."""

    partition_id: int
    begin_snapshot: SnapshotId
    end_snapshot: SnapshotId | None


class PartitionColumnRow(NamedTuple):
    """Of `ducklake_partition_column`."""

    partition_id: int
    partition_key_index: int
    column_id: ColumnId
    transform: str


class SortInfoRow(NamedTuple):
    """Of `ducklake_sort_info`."""

    sort_id: int
    begin_snapshot: SnapshotId
    end_snapshot: SnapshotId | None


class SortExpressionRow(NamedTuple):
    """Of `ducklake_sort_expression`."""

    sort_id: int
    sort_key_index: int
    expression: str
    sort_direction: str
    null_order: str


class InlinedTableRow(NamedTuple):
    """Of `ducklake_inlined_data_tables`."""

    table_name: str
    schema_version: int


class SchemaVersionRow(NamedTuple):
    """Of `ducklake_schema_versions`."""

    begin_snapshot: SnapshotId
    schema_version: int


# ---- files


class DataFileRow(NamedTuple):
    """A data file with one of its delete files; nulls where it has none."""

    data_file_id: DataFileId
    begin_snapshot: SnapshotId | None
    end_snapshot: SnapshotId | None
    path: str | None
    path_is_relative: bool | None
    record_count: int | None
    file_size_bytes: int
    row_id_start: int | None
    partition_id: int | None
    encryption_key: str | None
    mapping_id: int | None
    partial_max: SnapshotId | None
    delete_file_id: DeleteFileId | None
    delete_path: str
    delete_path_is_relative: bool | None
    delete_format: str | None
    delete_begin: SnapshotId
    delete_count: int
    delete_key: str | None


class PartitionValueRow(NamedTuple):
    """Of `ducklake_file_partition_value`."""

    data_file_id: DataFileId
    partition_key_index: int
    partition_value: str | None


class FileColumnStatsRow(NamedTuple):
    """Of `ducklake_file_column_stats`."""

    data_file_id: DataFileId
    column_id: ColumnId
    column_size_bytes: int | None
    value_count: int | None
    null_count: int | None
    min_value: str | None
    max_value: str | None
    contains_nan: bool | None
    extra_stats: str | None


class NameMappingRow(NamedTuple):
    """Of `ducklake_name_mapping`."""

    mapping_id: int
    column_id: int  # the mapping's own number of the field
    source_name: str
    target_field_id: ColumnId
    parent_column: int | None
    is_partition: bool | None


class DeletedPositionRow(NamedTuple):
    """Of a table of inlined deletes: which row is deleted."""

    file_id: DataFileId
    row_id: int  # a position in the file, despite the name


class InlinedDeleteRow(NamedTuple):
    """Of a table of inlined deletes: which row is deleted, and since when."""

    file_id: DataFileId
    row_id: int  # a position in the file, despite the name
    begin_snapshot: SnapshotId


# ---- statistics and totals


class TableStatsRow(NamedTuple):
    """The statistics of a table beside those of one of its columns; nulls where no column has any."""

    record_count: int | None
    next_row_id: int | None
    file_size_bytes: int | None
    column_id: ColumnId | None
    contains_null: bool | None
    contains_nan: bool | None
    min_value: str | None
    max_value: str | None
    extra_stats: str | None


class FileTotalsRow(NamedTuple):
    """All files of a table."""

    record_count: int
    next_row_id: int
    file_size_bytes: int


class InlinedTotalsRow(NamedTuple):
    """All row versions of an inlined table."""

    row_count: int
    next_row_id: int


class InlinedStateRow(NamedTuple):
    """What an inlined table holds, and since when."""

    row_count: int
    size_bytes: int
    ended_rows: int
    oldest: datetime | None


# ---- totals of all tables


class CountRow(NamedTuple):
    """How many there are."""

    row_count: int


class RegisteredTableRow(NamedTuple):
    """Of `ducklake_inlined_data_tables`, with the table that the rows are of."""

    table_id: TableId
    table_name: str


class TableFilesRow(NamedTuple):
    """The live data files of a table."""

    table_id: TableId
    files: int
    small_files: int
    record_count: int
    file_size_bytes: int


class TableDeleteFilesRow(NamedTuple):
    """The live delete files of a table."""

    table_id: TableId
    delete_files: int
    delete_count: int


class TableInlinedRow(NamedTuple):
    """What one of the inlined tables of a table holds, and since when.

    `live_rows`: of inlined rows those that have not ended; of inlined deletes those that are of live files.
    """

    row_count: int
    size_bytes: int
    ended_rows: int
    oldest: datetime | None
    live_rows: int
    table_id: TableId
    is_deletes: int


class ObjectNameRow(NamedTuple):
    """A name that a schema, table or view has or had; of a schema `schema_name` is null."""

    object_id: int
    schema_name: str | None
    object_name: str


class TableIdRow(NamedTuple):
    """A table."""

    table_id: TableId
