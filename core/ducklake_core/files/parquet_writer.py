"""Writes Parquet: Arrow rows become data files with field ids on every node, and the facts their commit needs.

Runs on driver and executors; needs no catalog. What the files hold is decided in `parquet_types`, `partition_sort` and
`statistics`; this module writes. A file is visible to nobody until a commit names it; after a failure none is left.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

import pyarrow as pa

from ducklake_core.errors import SchemaMismatch, UnsupportedType
from ducklake_core.files.open_file import FileLayout, OpenFile, group_rows, new_data_file_name
from ducklake_core.files.parquet_types import find_unwritable, to_parquet_form
from ducklake_core.files.partition_sort import PartitionValues, sort_rows, split_by_partition
from ducklake_core.files.storage import Storage
from ducklake_core.files.written import WrittenFiles
from ducklake_core.model import Column, NewDataFile
from ducklake_core.spec.types import ROW_ID_NAME, SNAPSHOT_ID_NAME
from ducklake_core.spec.utf8 import refuse_invalid_text

__all__ = ["FileLayout", "write_data_files", "write_record_batches"]
_SMALL_BYTES = 16 * 2**20  # of rows whose file is held in memory until it is whole


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
    format's internal columns. UnsupportedType, SchemaMismatch and, for a text that is no UTF-8, InvalidInput
    are raised before anything is written.
    """
    rows = _checked(table, layout.columns)
    for name, ids in ((ROW_ID_NAME, row_ids), (SNAPSHOT_ID_NAME, snapshot_ids)):
        rows = rows if ids is None else rows.append_column(name, ids.cast(pa.int64()))
    files: list[NewDataFile] = []
    with WrittenFiles(storage) as written:
        for values, part in split_by_partition(rows, layout.columns, layout.partitioning):
            ordered = sort_rows(part, layout.columns, layout.sort_order) if layout.options.sort_on_insert else part
            while len(ordered):
                file = _write_file(storage, layout, ordered, values, new_name)
                written.add(layout.directory + file.path)
                files.append(file)
                ordered = ordered.slice(file.record_count)
    return tuple(files)


def write_record_batches(
    storage: Storage,
    layout: FileLayout,
    record_batches: Iterable[pa.RecordBatch],
    *,
    buffer_bytes: int = 256 * 2**20,
    new_name: Callable[[], str] = new_data_file_name,
) -> tuple[NewDataFile, ...]:
    """Write a stream of record batches, holding at most about `buffer_bytes` of it in memory; each fill makes files."""
    files: list[NewDataFile] = []
    with WrittenFiles(storage) as written:
        for table in _tables(record_batches, buffer_bytes):
            some = write_data_files(storage, layout, table, new_name=new_name)
            written.add(*(layout.directory + file.path for file in some))
            files += some
    return tuple(files)


def _checked(table: pa.Table, columns: Sequence[Column]) -> pa.Table:
    """Return the columns in the layout's order, once it is known that all of them can be stored."""
    reason = find_unwritable(columns)
    if reason is not None:
        raise UnsupportedType(reason)
    counts = Counter(table.column_names)
    for column in columns:
        if counts[column.name] != 1:
            raise SchemaMismatch(f"the data must have column '{column.name}' once", column=column.name)
        to_parquet_form(table.column(column.name), column)
    rows = table.select([column.name for column in columns])
    refuse_invalid_text(rows, None)
    return rows


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
    size_bytes = int(rows.nbytes)
    step = group_rows(len(rows), size_bytes, layout.options)
    is_small = len(rows) <= step and size_bytes <= _SMALL_BYTES
    with OpenFile(storage, layout, rows, values, new_name, is_small=is_small) as file:
        while file.record_count < len(rows) and not file.is_full:
            file.write(rows.slice(file.record_count, step))
        return file.finish()
