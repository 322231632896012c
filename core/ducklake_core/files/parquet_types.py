"""The form in which values of each type go into a Parquet file (format §3.3), so that the reference reads them back.

Pure; runs on driver and executors. Most types are stored as they are in Arrow. Types whose usual Parquet form loses
something, or which the reference cannot write at all, are stored as DuckDB's text: the reference casts it on reading.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ducklake_core.errors import SchemaMismatch, UnsupportedType
from ducklake_core.files.nested import parts_of, plain_nested, with_parts
from ducklake_core.model import Column
from ducklake_core.spec.temporal_text import INFINITE_TICKS
from ducklake_core.spec.text import to_text
from ducklake_core.spec.types import FIELD_ID, arrow_type

# The reference stores the 128-bit integers as DOUBLE, timetz without its offset and interval in milliseconds; it cannot
# write time_ns at all.
STORED_AS_TEXT = frozenset({"int128", "uint128", "interval", "timetz", "time_ns"})
_NO_FORM = frozenset({"variant", "unknown"})
_TIMETZ = r"^\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?[+-]\d{2}(:\d{2}(:\d{2})?)?$"


class GeometryType(pa.ExtensionType):  # type: ignore[misc] # pyarrow has no types: its class is Any
    """Well-known binary, which Parquet marks with its GEOMETRY logical type. Only for writing; not registered."""

    def __init__(self) -> None:
        super().__init__(pa.binary(), "geoarrow.wkb")

    def __arrow_ext_serialize__(self) -> bytes:
        return b"{}"

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: pa.DataType, serialized: bytes) -> GeometryType:
        return cls()


_OTHER_TYPES = {"timestamp_s": pa.timestamp("us"), "geometry": GeometryType()}


def find_unwritable(columns: Iterable[Column]) -> str | None:
    """Return why these columns cannot be stored in Parquet, None when they can."""
    for column in columns:
        for node in column.walk():
            if node.type in _NO_FORM:
                return (
                    f"column '{column.name}' has type '{node.type}', which can only be written by DuckDB;"
                    " use a column of type 'json' instead, or write the table with DuckDB"
                )
    return None


def parquet_field(column: Column) -> pa.Field:
    """Return the field of a column as stored: ids on every node, nulls allowed except for map keys."""
    return _field(column, is_key=False)


def to_parquet_form(values: pa.ChunkedArray, column: Column) -> pa.ChunkedArray:
    """Return the values of a column as stored; raise when one has no lossless form."""
    if values.type != arrow_type(column):
        raise SchemaMismatch(
            f"column '{column.name}' of type '{column.type}' takes Arrow values of type '{arrow_type(column)}',"
            f" not '{values.type}'",
            column=column.name,
        )
    stored_type = _stored_type(column)
    if not column.is_nested and stored_type == values.type and column.type not in STORED_AS_TEXT:
        return values
    return pa.chunked_array([_stored(chunk, column) for chunk in values.chunks], stored_type)


def _field(column: Column, *, is_key: bool) -> pa.Field:
    return pa.field(column.name, _stored_type(column), not is_key, {FIELD_ID: str(column.column_id).encode()})


def _stored_type(column: Column) -> pa.DataType:
    if column.type == "struct":
        return pa.struct([parquet_field(child) for child in column.children])
    if column.type == "list":
        return pa.list_(parquet_field(column.children[0]))
    if column.type == "map":
        key, value = column.children
        return pa.map_(_field(key, is_key=True), parquet_field(value))
    if column.type in STORED_AS_TEXT:
        return pa.string()
    return _OTHER_TYPES.get(column.type) or arrow_type(column)


def _stored(array: pa.Array, column: Column) -> pa.Array:
    if column.is_nested:
        array = plain_nested(array)
        parts = [_stored(part, child) for part, child in zip(parts_of(array), column.children, strict=True)]
        return with_parts(array, _stored_type(column), parts)
    if column.type == "timestamp_s":
        return _seconds_as_micros(array, column)
    if column.type == "geometry":
        return pa.ExtensionArray.from_storage(GeometryType(), array)
    if column.type in STORED_AS_TEXT:
        _check_text(array, column)
        return to_text(array, column)
    return array


def _check_text(array: pa.Array, column: Column) -> None:
    if column.type == "timetz" and not pc.all(pc.match_substring_regex(array, _TIMETZ), min_count=0).as_py():
        raise UnsupportedType(f"column '{column.name}' holds a text that is no time with offset", column=column.name)
    if column.type == "interval" and _nanoseconds(array).any():
        raise UnsupportedType(
            f"column '{column.name}' holds an interval finer than a microsecond, which DuckLake cannot store",
            column=column.name,
        )


def _nanoseconds(array: pa.Array) -> np.ndarray:
    """Return the part of each interval that is less than a microsecond."""
    words = np.frombuffer(array.drop_null().buffers()[1] or b"", np.int64)
    return words[1::2] % 1000


def _seconds_as_micros(array: pa.Array, column: Column) -> pa.Array:
    """Scale seconds, but keep the infinities, which are the same number in every unit."""
    ticks = array.view(pa.int64())
    infinite = pc.equal(pc.abs(ticks), INFINITE_TICKS)
    try:
        scaled = pc.multiply_checked(pc.if_else(infinite, 0, ticks), 1_000_000)
    except pa.ArrowInvalid as error:
        raise UnsupportedType(f"column '{column.name}' holds a time beyond microseconds", column=column.name) from error
    return pc.if_else(infinite, ticks, scaled).view(pa.timestamp("us"))
