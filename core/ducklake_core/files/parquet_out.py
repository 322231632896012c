"""Parquet out: Arrow rows become data files with field ids on every node, and the facts their commit needs.

Runs on driver and executors; needs no catalog. What the files hold is decided in `parquet_form`, `arrange` and
`statistics`; this module writes. A file is visible to nobody until a commit names it; after a failure none is left.
"""

from __future__ import annotations

import base64
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow.parquet import encryption

from ducklake_core.errors import SchemaMismatch, UnsupportedType
from ducklake_core.files.arrange import PartitionValues, sort_rows, split_by_partition
from ducklake_core.files.parquet_form import find_unwritable, parquet_field, to_parquet_form
from ducklake_core.files.paths import hive_directory, hive_keys, new_data_file_name
from ducklake_core.files.statistics import Bounds, bounds_of, column_stats, merge_bounds, paths_without_nan
from ducklake_core.files.storage import Storage
from ducklake_core.files.write_options import WriteOptions
from ducklake_core.model import Column, NewDataFile, Partitioning, SortOrder
from ducklake_core.spec.types import FIELD_ID, ROW_ID_FIELD, ROW_ID_NAME, SNAPSHOT_ID_FIELD, SNAPSHOT_ID_NAME


@dataclass(frozen=True, slots=True)
class FileLayout:
    """How the rows of one table are laid out in files. Small and frozen: it travels to executors."""

    directory: str  # the table's, with a trailing slash
    columns: tuple[Column, ...]
    partitioning: Partitioning | None = None
    sort_order: SortOrder | None = None
    options: WriteOptions = field(default_factory=WriteOptions)


def write_data_files(
    storage: Storage,
    layout: FileLayout,
    table: pa.Table,
    *,
    row_ids: pa.Array | None = None,
    snapshot_ids: pa.Array | None = None,
    new_name: Callable[[], str] = new_data_file_name,
) -> tuple[NewDataFile, ...]:
    """Write rows into as many files as partitions and the target size ask for; no rows, no file.

    The table has the layout's columns by name, of type `arrow_type(column)`. `row_ids` and `snapshot_ids` go to the
    format's internal columns. UnsupportedType and SchemaMismatch are raised before anything is written.
    """
    rows = _checked(table, layout.columns)
    for name, ids in ((ROW_ID_NAME, row_ids), (SNAPSHOT_ID_NAME, snapshot_ids)):
        rows = rows if ids is None else rows.append_column(name, ids.cast(pa.int64()))
    with _removing_on_error(storage, layout.directory) as written:
        for values, part in split_by_partition(rows, layout.columns, layout.partitioning):
            ordered = sort_rows(part, layout.columns, layout.sort_order) if layout.options.sort_on_insert else part
            while len(ordered):
                file = _write_file(storage, layout, ordered, values, new_name)
                written.append(file)
                ordered = ordered.slice(file.record_count)
    return tuple(written)


def write_record_batches(
    storage: Storage,
    layout: FileLayout,
    record_batches: Iterable[pa.RecordBatch],
    *,
    buffer_bytes: int = 256 * 2**20,
    new_name: Callable[[], str] = new_data_file_name,
) -> tuple[NewDataFile, ...]:
    """Write a stream of record batches, holding at most about `buffer_bytes` of it in memory; each fill makes files."""
    with _removing_on_error(storage, layout.directory) as written:
        for table in _tables(record_batches, buffer_bytes):
            written.extend(write_data_files(storage, layout, table, new_name=new_name))
    return tuple(written)


def _checked(table: pa.Table, columns: Sequence[Column]) -> pa.Table:
    """Return the columns in the layout's order, once it is known that all of them can be stored."""
    reason = find_unwritable(columns)
    if reason is not None:
        raise UnsupportedType(reason)
    for column in columns:
        if table.column_names.count(column.name) != 1:
            raise SchemaMismatch(f"the data must have column '{column.name}' once", column=column.name)
        to_parquet_form(table.column(column.name), column)
    return table.select([column.name for column in columns])


@contextmanager
def _removing_on_error(storage: Storage, directory: str) -> Iterator[list[NewDataFile]]:
    """Give a list for finished files, and remove those in it when the block fails."""
    written: list[NewDataFile] = []
    try:
        yield written
    except BaseException:  # an interrupt must leave no file behind, either
        for file in written:
            storage.remove(directory + file.path)
        raise


def _tables(record_batches: Iterable[pa.RecordBatch], buffer_bytes: int) -> Iterator[pa.Table]:
    held: list[pa.RecordBatch] = []
    held_bytes = 0
    for record_batch in record_batches:
        held.append(record_batch)
        held_bytes += record_batch.nbytes
        if held_bytes >= buffer_bytes:
            yield pa.Table.from_batches(held)
            held, held_bytes = [], 0
    if held:
        yield pa.Table.from_batches(held)


def _write_file(
    storage: Storage, layout: FileLayout, rows: pa.Table, values: PartitionValues | None, new_name: Callable[[], str]
) -> NewDataFile:
    """Write the first of the rows, row group by row group, until the file has its target size."""
    path = _directory_of(layout, values) + new_name()
    key = secrets.token_bytes(16) if layout.options.encrypted else None
    footers: list[pq.FileMetaData] = []
    bounds: list[list[Bounds]] = []
    count, step = 0, _rows_per_group(rows, layout.options)
    with storage.open_output(layout.directory + path) as sink:
        with _writer(sink, layout, rows, key, footers) as writer:
            while count < len(rows) and sink.tell() < layout.options.target_file_bytes:
                group = rows.slice(count, step)
                writer.write_table(_stored(group, layout.columns), row_group_size=step)
                bounds.append(bounds_of(layout.columns, group))
                count += len(group)
        size_bytes = sink.tell()
    return NewDataFile(
        path=path,
        path_is_relative=True,
        record_count=count,
        file_size_bytes=size_bytes,
        footer_size=footer_size(storage, layout.directory + path, size_bytes),
        column_stats=column_stats(layout.columns, merge_bounds(bounds, layout.columns), footers[0]),
        partition_values=values,
        has_row_ids=ROW_ID_NAME in rows.column_names,
        encryption_key=None if key is None else base64.b64encode(key).decode(),
    )


def footer_size(storage: Storage, path: str, size_bytes: int) -> int:
    """Return the length that a Parquet file gives for its footer, in the four bytes before the final magic."""
    with storage.open_input(path) as source:
        source.seek(size_bytes - 8)
        return int.from_bytes(source.read(4), "little")


def _writer(
    sink: pa.NativeFile, layout: FileLayout, rows: pa.Table, key: bytes | None, footers: list[pq.FileMetaData]
) -> pq.ParquetWriter:
    secret = None if key is None else encryption.create_encryption_properties(footer_key=key)
    return pq.ParquetWriter(
        sink,
        _stored_schema(layout.columns, rows),
        compression=layout.options.compression,
        compression_level=layout.options.compression_level,
        data_page_version=layout.options.data_page_version,
        store_decimal_as_integer=True,
        store_schema=False,  # the catalog has the schema; Arrow's copy could only contradict it
        write_statistics=_with_statistics(layout.columns, rows),
        encryption_properties=secret,
        metadata_collector=footers,
    )


def _with_statistics(columns: Sequence[Column], rows: pa.Table) -> bool | list[str]:
    has_floats = any(leaf.type.startswith("float") for column in columns for leaf in column.leaves())
    return paths_without_nan(columns, rows) if has_floats else True


def _directory_of(layout: FileLayout, values: PartitionValues | None) -> str:
    if layout.partitioning is None or values is None or not layout.options.hive_directories:
        return ""
    return hive_directory(hive_keys(layout.partitioning.keys, layout.columns), values)


def _rows_per_group(rows: pa.Table, options: WriteOptions) -> int:
    """Return how many rows make a row group: as many as the option says, unless they were larger than allowed."""
    limit = min(options.row_group_bytes or options.target_file_bytes, options.target_file_bytes)
    return max(1, min(options.row_group_rows, limit * len(rows) // max(1, int(rows.nbytes))))


def _stored(rows: pa.Table, columns: Sequence[Column]) -> pa.Table:
    arrays = [to_parquet_form(rows.column(column.name), column) for column in columns]
    internal = [rows.column(index) for index in range(len(columns), rows.num_columns)]
    return pa.Table.from_arrays(arrays + internal, schema=_stored_schema(columns, rows))


def _stored_schema(columns: Sequence[Column], rows: pa.Table) -> pa.Schema:
    internal = [
        pa.field(name, pa.int64(), metadata={FIELD_ID: str(field_id).encode()})
        for name, field_id in ((ROW_ID_NAME, ROW_ID_FIELD), (SNAPSHOT_ID_NAME, SNAPSHOT_ID_FIELD))
        if name in rows.column_names
    ]
    return pa.schema([*(parquet_field(column) for column in columns), *internal])
