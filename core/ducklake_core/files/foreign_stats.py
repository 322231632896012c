"""Statistics of files that somebody else wrote: what their footer tells, in the texts of the catalog (format §10).

Pure; runs on the driver. Every leaf of the table gets some, also one that the file lacks: where a table's statistics
know of no null, DuckDB answers `IS NULL` by them alone. A footer leaves out NaN, so there may always be one.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ducklake_core.files.casts import cast_values
from ducklake_core.files.foreign_fields import FoundLeaf
from ducklake_core.files.statistics import bound_texts
from ducklake_core.model import Column, ColumnStats
from ducklake_core.spec.arrays import plain
from ducklake_core.spec.kinds import UNORDERED, Kind
from ducklake_core.spec.text import from_text


def footer_stats(leaf: FoundLeaf, footer: pq.FileMetaData) -> ColumnStats:
    """Return the statistics of a leaf that the file has; what its footer leaves open is unknown."""
    chunks = [footer.row_group(group).column(leaf.index) for group in range(footer.num_row_groups)]
    column_id, size_bytes = leaf.column.column_id, sum(chunk.total_compressed_size for chunk in chunks)
    if not all(chunk.is_stats_set and chunk.statistics.has_null_count for chunk in chunks):
        return unknown_stats(leaf.column, size_bytes)
    null_count = sum(chunk.statistics.null_count for chunk in chunks)
    value_count = sum(chunk.num_values for chunk in chunks) - null_count
    with_values = [chunk.statistics for chunk in chunks if chunk.statistics.null_count < chunk.num_values]
    low, high = _bounds(leaf, with_values)
    return ColumnStats(column_id, value_count, null_count, low, high, _may_have_nan(leaf.column), size_bytes)


def unknown_stats(column: Column, size_bytes: int = 0) -> ColumnStats:
    """Return the statistics of a leaf of which nothing is known."""
    return ColumnStats(column.column_id, contains_nan=_may_have_nan(column), size_bytes=size_bytes)


def constant_stats(column: Column, text: str | None, record_count: int) -> ColumnStats:
    """Return the statistics of a leaf that has one value, or null, in all rows of the file."""
    if text is None:
        return ColumnStats(column.column_id, 0, record_count, size_bytes=0)
    value = plain(from_text(pa.array([text], pa.string()), column))
    low, high = bound_texts(pa.concat_arrays([value, value]), column)
    return ColumnStats(column.column_id, record_count, 0, low, high, _may_have_nan(column), 0)


def _may_have_nan(column: Column) -> bool | None:
    return True if column.kind is Kind.FLOAT else None


def _bounds(leaf: FoundLeaf, found: Sequence[Any]) -> tuple[str | None, str | None]:  # Any: pyarrow's statistics
    if not found or leaf.column.kind in UNORDERED or not all(statistics.has_min_max for statistics in found):
        return None, None
    raw = [value for statistics in found for value in (statistics.min_raw, statistics.max_raw)]
    try:
        values = pa.array([_value(one, leaf.type) for one in raw], _stored_type(leaf.type))
    except UnicodeDecodeError:  # a bound that was cut in the middle of a character
        return None, None
    if pa.types.is_floating(values.type) and pc.any(pc.is_nan(values)).as_py():
        return None, None
    ends = pc.min_max(values)
    extremes = pa.array([ends["min"], ends["max"]], values.type)
    if values.type != leaf.type and not isinstance(leaf.type, pa.BaseExtensionType):
        extremes = extremes.cast(leaf.type)
    return bound_texts(plain(cast_values(extremes, leaf.column)), leaf.column)


def _value(raw: Any, type_: pa.DataType) -> Any:  # Any: Parquet's physical value, and one that Arrow takes
    if pa.types.is_decimal(type_):
        unscaled = int.from_bytes(raw, "big", signed=True) if isinstance(raw, bytes) else raw
        return Decimal(f"{unscaled}E-{type_.scale}")  # exact; arithmetic would round to 28 digits
    if pa.types.is_unsigned_integer(type_):
        return raw % 2**type_.bit_width  # Parquet has no unsigned numbers: their bits are those of signed ones
    return raw.decode() if isinstance(raw, bytes) and _is_text(type_) else raw


def _stored_type(type_: pa.DataType) -> pa.DataType:
    """Return the Arrow type of the values that `_value` gives, in which they have the order of the column."""
    if pa.types.is_timestamp(type_) or pa.types.is_time64(type_):
        return pa.int64()
    if pa.types.is_date(type_):
        return pa.int32()
    if _is_text(type_):
        return pa.string()
    storage = type_.storage_type if isinstance(type_, pa.BaseExtensionType) else type_
    return pa.binary() if pa.types.is_large_binary(storage) or pa.types.is_binary_view(storage) else storage


def _is_text(type_: pa.DataType) -> bool:
    storage = type_.storage_type if isinstance(type_, pa.BaseExtensionType) else type_
    return bool(pa.types.is_string(storage) or pa.types.is_large_string(storage) or pa.types.is_string_view(storage))
