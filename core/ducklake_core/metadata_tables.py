"""What is in a lake as typed tables: snapshots, tables, columns, files and all that our own tables hold. No Spark.

Each is made from what `Lake` tells at the head, in a few queries; those of files ask once for each table.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ducklake_core.catalog.file_reader import read_data_files
from ducklake_core.errors import InvalidInput
from ducklake_core.model import Column, DataFile, TableVersion
from ducklake_core.read.listing import ask_catalog
from ducklake_core.read.table import Table
from ducklake_core.spec.changes import parse_changes
from ducklake_core.spec.names import join_table_name, nearest_name
from ducklake_core.spec.paths import hive_keys
from ducklake_core.spec.types import arrow_schema, build_columns, type_text

if TYPE_CHECKING:
    from ducklake_core.lake import Lake

Rows = Iterator[Sequence[Any]]  # Any: values of the columns, in their order
_MAX_RUNS = 1000  # all that are kept


@dataclass(frozen=True, slots=True)
class MetadataTable:
    """One of these tables: its columns with their types, and what reads its rows; `tables` are those to tell of."""

    types: Mapping[str, str]
    rows: Callable[[Lake, Sequence[Table]], Rows]

    @property
    def columns(self) -> tuple[Column, ...]:
        return build_columns(self.types)


def find_metadata(name: str) -> MetadataTable:
    """Return one of these tables by its name; raise InvalidInput for a name that there is not."""
    found = METADATA.get(name.strip().lower())
    if found is None:
        near = nearest_name(name, METADATA)
        hint = f"did you mean '{near}'?" if near else f"there are {', '.join(METADATA)}"
        raise InvalidInput(f"there is no metadata '{name}': {hint}", name=name)
    return found


def read_metadata(lake: Lake, name: str, table: str | None = None) -> pa.Table:
    """Return what there is now; `table`: of one table alone, where rows are of tables."""
    found = find_metadata(name)
    tables = lake.tables() if table is None else [lake.table(table)]
    rows = list(found.rows(lake, tables))
    if table is not None and "table_name" in found.types:
        place, wanted = list(found.types).index("table_name"), _name(tables[0].version)
        rows = [row for row in rows if row[place] == wanted]
    schema = arrow_schema(found.columns)
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    arrays = [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


def _name(table: TableVersion) -> str:
    return join_table_name(table.schema_name, table.name)


# ------------------------------------------------------------------------------------------ of the catalog


def _snapshots(lake: Lake, _: Sequence[Table]) -> Rows:
    for one in lake.snapshots():
        told = one.changes, one.author, one.message, one.extra_info
        yield one.snapshot_id, one.snapshot_time, one.schema_version, *told


def _changes_made(lake: Lake, _: Sequence[Table]) -> Rows:
    names = lake.object_names()
    for snapshot in lake.snapshots():
        for change in parse_changes(snapshot.changes):
            parts = [part for part in (change.schema_name, change.name) if part is not None]
            created = join_table_name(*parts) if len(parts) > 1 else next(iter(parts), None)
            name = created if change.object_id is None else names.get(change.object_id)
            yield snapshot.snapshot_id, snapshot.snapshot_time, change.kind.value, name, change.object_id


def _tables(lake: Lake, tables: Sequence[Table]) -> Rows:
    wanted = {table.version.table_id: table.version for table in tables}
    for one in lake.totals().tables:
        if one.table_id in wanted:
            version = wanted[one.table_id]
            counts = one.rows, one.files, one.small_files, one.file_bytes, one.delete_files, one.deleted_rows
            told = str(one.table_uuid), version.directory, version.comment, version.begin_snapshot
            yield one.name, one.table_id, *counts, one.inlined.rows, one.inlined.size_bytes, *told


def _columns(_: Lake, tables: Sequence[Table]) -> Rows:
    for table in tables:
        for place, column in enumerate(table.version.columns):
            told = type_text(column), column.nulls_allowed, column.default_value, column.comment
            yield _name(table.version), place, column.name, column.column_id, *told


def _options(lake: Lake, tables: Sequence[Table]) -> Rows:
    definitions = lake.definitions()
    names = {table.version.table_id: _name(table.version) for table in tables}
    schemas = {schema.schema_id: schema.name for schema in definitions.schemas()}
    for (scope, scope_id), options in definitions.options.items():
        of_table = names.get(scope_id) if scope == "table" and scope_id is not None else None  # type: ignore[call-overload]
        of_schema = schemas.get(scope_id) if scope == "schema" else None  # type: ignore[call-overload]
        for key, value in options.items():
            yield scope or "lake", of_schema, of_table, key, value


def _inlined(lake: Lake, _: Sequence[Table]) -> Rows:
    for one in lake.totals().tables:
        state = one.inlined
        yield one.name, state.rows, state.ended_rows, state.file_deletes, state.size_bytes, state.oldest


def _consumers(lake: Lake, _: Sequence[Table]) -> Rows:
    totals = lake.totals()
    names = {table.table_uuid: table.name for table in totals.tables}
    for one in lake.consumers():
        lag = totals.head.snapshot_id - one.snapshot_id
        yield one.name, names.get(one.table_uuid), one.snapshot_id, lag, one.updated_at, one.expires_at


def _streams(lake: Lake, _: Sequence[Table]) -> Rows:
    for one in lake.ledger_entries():
        yield one.stream, one.batch_id, one.snapshot_id, one.row_count, one.committed_at, one.query_id, one.run_id


def _maintenance(lake: Lake, _: Sequence[Table]) -> Rows:
    for one in lake.maintenance_runs(_MAX_RUNS):
        counts = one.files_before, one.files_after, one.bytes_before, one.bytes_after, one.row_count, one.snapshots
        yield one.run_id, one.operation, one.table_name, one.started_at, one.seconds, one.outcome, *counts, one.detail


# ------------------------------------------------------------------------------------------ of data files


def _data_files(lake: Lake, table: Table) -> list[DataFile]:
    at = table.snapshot.snapshot_id
    return ask_catalog(
        lake.database,
        table.version,
        lambda session, known: read_data_files(session, known, at, with_partition_values=True),
    )


def _partition(table: TableVersion, file: DataFile) -> list[tuple[str, str | None]]:
    """Return the keys and values of a file's partition; keys of a partitioning of before are their numbers."""
    keys: Sequence[str] = ()
    if table.partitioning is not None and table.partitioning.partition_id == file.partition_id:
        keys = hive_keys(table.partitioning.keys, table.columns)
    named = sorted(file.partition_values.items())
    return [(keys[index] if index < len(keys) else str(index), value) for index, value in named]


def _files(lake: Lake, tables: Sequence[Table]) -> Rows:
    for table in tables:
        for file in _data_files(lake, table):
            deleted = sum(one.delete_count for one in file.delete_files) + len(file.inlined_deletes)
            counts = file.record_count, deleted, file.file_size_bytes
            told = file.begin_snapshot, file.row_id_start, _partition(table.version, file), file.mapping is not None
            yield _name(table.version), file.data_file_id, file.path, *counts, *told


def _partitions(lake: Lake, tables: Sequence[Table]) -> Rows:
    for table in tables:
        found: defaultdict[tuple[tuple[str, str | None], ...], list[DataFile]] = defaultdict(list)
        for file in _data_files(lake, table):
            found[tuple(_partition(table.version, file))].append(file)
        for partition, files in found.items():
            rows, size_bytes = sum(f.record_count for f in files), sum(f.file_size_bytes for f in files)
            yield _name(table.version), list(partition), len(files), rows, size_bytes


def _deletes(lake: Lake, tables: Sequence[Table]) -> Rows:
    for table in tables:
        name = _name(table.version)
        for file in _data_files(lake, table):
            for one in file.delete_files:
                yield name, file.data_file_id, one.path, one.format, one.delete_count, one.begin_snapshot
            if file.inlined_deletes:
                yield name, file.data_file_id, None, "inlined", len(file.inlined_deletes), None


_TEXTS = "map(varchar, varchar)"
_COUNTS_OF_TABLES = ("row_count", "file_count", "small_file_count", "file_size_bytes", "delete_file_count")
_COUNTS_OF_RUNS = ("files_before", "files_after", "bytes_before", "bytes_after", "row_count", "snapshots")

METADATA: Mapping[str, MetadataTable] = {
    "snapshots": MetadataTable(
        {
            "snapshot_id": "int64",
            "snapshot_time": "timestamptz",
            "schema_version": "int64",
            **dict.fromkeys(("changes_made", "author", "commit_message", "commit_extra_info"), "varchar"),
        },
        _snapshots,
    ),
    "tables": MetadataTable(
        {
            "table_name": "varchar",
            "table_id": "int64",
            **dict.fromkeys((*_COUNTS_OF_TABLES, "deleted_rows", "inlined_rows", "inlined_bytes"), "int64"),
            **dict.fromkeys(("table_uuid", "path", "comment"), "varchar"),
            "begin_snapshot": "int64",
        },
        _tables,
    ),
    "columns": MetadataTable(
        {
            "table_name": "varchar",
            "column_index": "int64",
            "column_name": "varchar",
            "column_id": "int64",
            "column_type": "varchar",
            "nulls_allowed": "boolean",
            **dict.fromkeys(("default_value", "comment"), "varchar"),
        },
        _columns,
    ),
    "files": MetadataTable(
        {
            "table_name": "varchar",
            "data_file_id": "int64",
            "path": "varchar",
            **dict.fromkeys(("record_count", "deleted_rows", "file_size_bytes", "begin_snapshot"), "int64"),
            "row_id_start": "int64",
            "partition": _TEXTS,
            "has_name_mapping": "boolean",
        },
        _files,
    ),
    "partitions": MetadataTable(
        {
            "table_name": "varchar",
            "partition": _TEXTS,
            **dict.fromkeys(("file_count", "record_count", "file_size_bytes"), "int64"),
        },
        _partitions,
    ),
    "deletes": MetadataTable(
        {
            "table_name": "varchar",
            "data_file_id": "int64",
            **dict.fromkeys(("path", "format"), "varchar"),
            **dict.fromkeys(("delete_count", "begin_snapshot"), "int64"),
        },
        _deletes,
    ),
    "inlined": MetadataTable(
        {
            "table_name": "varchar",
            **dict.fromkeys(("row_versions", "ended_rows", "file_deletes", "size_bytes"), "int64"),
            "oldest": "timestamptz",
        },
        _inlined,
    ),
    "options": MetadataTable(
        dict.fromkeys(("scope", "schema_name", "table_name", "option_name", "option_value"), "varchar"), _options
    ),
    "consumers": MetadataTable(
        {
            **dict.fromkeys(("consumer", "table_name"), "varchar"),
            **dict.fromkeys(("snapshot_id", "lag_snapshots"), "int64"),
            **dict.fromkeys(("updated_at", "expires_at"), "timestamptz"),
        },
        _consumers,
    ),
    "streams": MetadataTable(
        {
            "stream": "varchar",
            **dict.fromkeys(("batch_id", "snapshot_id", "row_count"), "int64"),
            "committed_at": "timestamptz",
            **dict.fromkeys(("query_id", "run_id"), "varchar"),
        },
        _streams,
    ),
    "changes_made": MetadataTable(
        {
            "snapshot_id": "int64",
            "snapshot_time": "timestamptz",
            **dict.fromkeys(("change", "table_name"), "varchar"),
            "object_id": "int64",
        },
        _changes_made,
    ),
    "maintenance": MetadataTable(
        {
            **dict.fromkeys(("run_id", "operation", "table_name"), "varchar"),
            "started_at": "timestamptz",
            "seconds": "float64",
            "outcome": "varchar",
            **dict.fromkeys(_COUNTS_OF_RUNS, "int64"),
            "detail": "varchar",
        },
        _maintenance,
    ),
}
