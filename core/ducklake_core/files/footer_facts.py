"""The facts of a Parquet file that another writer made, from its footer and first row: for files written by Spark.

Runs on the driver. A bound that the footer lacks, or that tells of NaN, is unknown: that costs pruning, never a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ducklake_core.files.open_file import FileLayout, footer_size
from ducklake_core.files.partition_sort import PartitionValues, partition_keys
from ducklake_core.files.statistics import bound_texts
from ducklake_core.files.storage import Storage
from ducklake_core.model import Column, ColumnStats, NewDataFile
from ducklake_core.spec.kinds import Kind, decimal_parameters
from ducklake_core.spec.types import scalar_arrow_type

_BUFFER_BYTES = 2**16  # so that of a column no more is read than its first page


def read_file_facts(storage: Storage, layout: FileLayout, path: str) -> NewDataFile:
    """Return a file at `path` in a table's directory as what its commit needs.

    Its leaves are those of the columns, and all of its rows are of one partition.
    """
    full_path = layout.directory + path
    with storage.open_input(full_path) as source:
        file = pq.ParquetFile(source, buffer_size=_BUFFER_BYTES)
        footer, values = file.metadata, _partition_values(file, layout)
    size_bytes = storage.size(full_path)
    leaves = [leaf for column in layout.columns for leaf in column.leaves()]
    return NewDataFile(
        path=path,
        path_is_relative=True,
        record_count=footer.num_rows,
        file_size_bytes=size_bytes,
        footer_size=footer_size(storage, full_path, size_bytes),
        column_stats=tuple(_leaf_stats(leaf, index, footer) for index, leaf in enumerate(leaves)),
        partition_values=values,
    )


def _partition_values(file: pq.ParquetFile, layout: FileLayout) -> PartitionValues | None:
    """Return the values of the first row; None where there are no partitions, or no rows."""
    if layout.partitioning is None or not layout.partitioning.keys or not file.metadata.num_rows:
        return None
    ids = {key.column_id for key in layout.partitioning.keys}
    columns = [column for column in layout.columns if column.column_id in ids]
    first = next(file.iter_batches(1, columns=[column.name for column in columns]))
    arrays = [first.column(column.name).cast(scalar_arrow_type(column.type)) for column in columns]
    keys = partition_keys(pa.table(arrays, [c.name for c in columns]), columns, layout.partitioning)
    return tuple(keys.column(name)[0].as_py() for name in keys.column_names)


def _leaf_stats(leaf: Column, index: int, footer: pq.FileMetaData) -> ColumnStats:
    chunks = [footer.row_group(group).column(index) for group in range(footer.num_row_groups)]
    size_bytes = sum(chunk.total_compressed_size for chunk in chunks)
    if not all(chunk.is_stats_set and chunk.statistics.has_null_count for chunk in chunks):
        return ColumnStats(leaf.column_id, size_bytes=size_bytes)
    null_count = sum(chunk.statistics.null_count for chunk in chunks)
    value_count = sum(chunk.num_values for chunk in chunks) - null_count
    with_values = [chunk.statistics for chunk in chunks if chunk.statistics.null_count < chunk.num_values]
    low, high, contains_nan = _bounds(leaf, with_values)
    return ColumnStats(leaf.column_id, value_count, null_count, low, high, contains_nan, size_bytes)


def _bounds(leaf: Column, found: Sequence[Any]) -> tuple[str | None, str | None, bool | None]:  # Any: pyarrow's
    """Return both bounds and whether there is a NaN; None where that is unknown."""
    is_float = leaf.kind is Kind.FLOAT
    if not found:
        return None, None, False if is_float else None
    if not all(statistics.has_min_max for statistics in found):
        return None, None, None
    ends = [value for statistics in found for value in (statistics.min_raw, statistics.max_raw)]
    if is_float and any(value != value for value in ends):  # noqa: PLR0124 # only NaN is not itself
        return None, None, True
    try:
        values = [_value(end, leaf) for end in ends]
    except UnicodeDecodeError:  # Spark's strings may hold any bytes
        return None, None, None
    extremes = pa.array([min(values), max(values)], _plain_type(leaf.type)).cast(scalar_arrow_type(leaf.type))
    low, high = bound_texts(extremes, leaf)
    return low, high, False if is_float else None


def _value(raw: Any, leaf: Column) -> Any:  # Any: Parquet's physical value, and one that orders and makes an array
    parameters = decimal_parameters(leaf.type)
    if parameters is not None:
        unscaled = int.from_bytes(raw, "big", signed=True) if isinstance(raw, bytes) else raw
        return Decimal(f"{unscaled}E-{parameters.scale}")  # exact; arithmetic would round to 28 digits
    if leaf.type == "varchar":
        return raw.decode() if isinstance(raw, bytes) else raw
    return raw


def _plain_type(type_: str) -> pa.DataType:
    """Return the Arrow type that Parquet's physical values make, from which Arrow casts to the column's own."""
    if type_.startswith("timestamp"):
        return pa.int64()
    return pa.int32() if type_ == "date" else scalar_arrow_type(type_)
