"""Spark SQL types as DuckLake types, and the values that Spark cannot hand over as Arrow. Runs on driver and executors.

Most types travel as they are. Intervals do not: a year-month interval travels as its number of months, a calendar
interval as its text, and all become Arrow's interval here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 # Spark's own convention
from pyspark.sql import types as T  # noqa: N812 # Spark's own convention

from ducklake_core.errors import UnsupportedType
from ducklake_core.spec.memo import per_object
from ducklake_core.spec.names import quoted

_MICROSECONDS_PER_DAY = 86_400_000_000
_MAX_MICROSECONDS = (2**63 - 1) // 1000  # of Arrow's intervals, which have nanoseconds
_CALENDAR_UNITS = ("years", "months", "days", "hours", "minutes", "seconds")
_CALENDAR_PART = re.compile(r"(-?\d+(?:\.\d+)?) (" + "|".join(_CALENDAR_UNITS) + ")")
_PLAIN: dict[type[T.DataType], str] = {
    T.BooleanType: "boolean",
    T.ByteType: "int8",
    T.ShortType: "int16",
    T.IntegerType: "int32",
    T.LongType: "int64",
    T.FloatType: "float32",
    T.DoubleType: "float64",
    T.StringType: "varchar",
    T.CharType: "varchar",
    T.VarcharType: "varchar",
    T.BinaryType: "blob",
    T.DateType: "date",
    T.TimestampType: "timestamptz",
    T.TimestampNTZType: "timestamp",
    T.TimeType: "time",
    T.DayTimeIntervalType: "interval",
    T.YearMonthIntervalType: "interval",
    T.CalendarIntervalType: "interval",
}
_INTERVALS = (T.DayTimeIntervalType, T.YearMonthIntervalType, T.CalendarIntervalType)
_REMEDIES: dict[type[T.DataType], str] = {
    T.VariantType: "store it as text with to_json(…), or its parts with variant_get(…)",
    T.NullType: "cast it to the type it should have",
    T.UserDefinedType: "convert it to arrays, structs and numbers",
}


def lake_schema(schema: T.StructType, *, ignore_void: bool = False) -> dict[str, str]:
    """Return the DuckLake type text of each column; refuse, all at once, those that have none.

    `ignore_void`: leave columns out that hold nothing but nulls and have no type.
    """
    fields = [f for f in schema.fields if not (ignore_void and isinstance(f.dataType, T.NullType))]
    problems = [problem for f in fields for problem in _problems(f.dataType, f.name)]
    if problems:
        raise UnsupportedType(
            "; ".join(
                f"column '{path}' has Spark type '{name}', which cannot be stored: {remedy}"
                for path, name, remedy in problems
            ),
            columns=[path for path, _, _ in problems],
        )
    return {f.name: _type_text(f.dataType) for f in fields}


def refuse_intervals(schema: T.StructType) -> None:
    """Refuse, where no frame is left to cast them, intervals that Spark cannot hand over as Arrow."""
    found = [f.name for f in schema.fields if _needs_cast(f.dataType)]
    if found:
        raise UnsupportedType(
            f"columns {', '.join(found)} have intervals of months, which Spark hands to no format in Python: write the "
            "frame by DuckLakeSink(…).append(df)",
            columns=found,
        )


def void_columns(schema: T.StructType) -> list[str]:
    """Return the columns that have no type: all their values are null."""
    return [f.name for f in schema.fields if isinstance(f.dataType, T.NullType)]


def to_arrow_types(frame: DataFrame, schema: T.StructType) -> DataFrame:
    """Return a frame of this schema with only types that Spark can hand over as Arrow."""
    if not any(_needs_cast(f.dataType) for _, f in _interval_fields(schema)):
        return frame
    quoted = ((f, F.col("`{}`".format(f.name.replace("`", "``")))) for f in schema.fields)
    return frame.select([_castable(column, f.dataType).alias(f.name) for f, column in quoted])


def from_arrow_types(table: pa.Table, schema: T.StructType) -> pa.Table:
    """Return the data of a frame that `to_arrow_types` made, with intervals as Arrow has them."""
    for index, f in _interval_fields(schema):
        chunks = [_restored(chunk, f.dataType) for chunk in table.column(index).chunks]
        type_ = chunks[0].type if chunks else _restored(pa.nulls(0, table.column(index).type), f.dataType).type
        table = table.set_column(index, f.name, pa.chunked_array(chunks, type_))
    return table


@per_object
def _interval_fields(schema: T.StructType) -> list[tuple[int, T.StructField]]:
    return [(index, f) for index, f in enumerate(schema.fields) if _has(f.dataType, _INTERVALS)]


# ------------------------------------------------------------------------------------------- the type


def _type_text(type_: T.DataType) -> str:
    if isinstance(type_, T.DecimalType):
        return f"decimal({type_.precision},{type_.scale})"
    if isinstance(type_, T.ArrayType):
        return f"{_type_text(type_.elementType)}[]"
    if isinstance(type_, T.MapType):
        return f"map({_type_text(type_.keyType)}, {_type_text(type_.valueType)})"
    if isinstance(type_, T.StructType):
        names = [quoted(f.name) for f in type_.fields]
        texts = [_type_text(f.dataType) for f in type_.fields]
        return f"struct({', '.join(f'{name} {text}' for name, text in zip(names, texts, strict=True))})"
    return _PLAIN[type(type_)]


def _problems(type_: T.DataType, path: str) -> Iterator[tuple[str, str, str]]:
    """Yield (path, type, remedy) of each part that has no DuckLake type."""
    if isinstance(type_, T.StructType) and not type_.fields:
        yield path, type_.simpleString(), "a struct needs at least one field"
    elif isinstance(type_, T.DecimalType):
        if not 0 <= type_.scale <= type_.precision:
            yield path, type_.simpleString(), "its scale must be from 0 to its precision"
    elif not _children(type_) and type(type_) not in _PLAIN:
        remedies = (text for kind, text in _REMEDIES.items() if isinstance(type_, kind))
        yield path, type_.simpleString(), next(remedies, "cast it to one of the types in docs/types.md")
    for name, child in _children(type_):
        yield from _problems(child, f"{path}.{name}")


def _children(type_: T.DataType) -> list[tuple[str, T.DataType]]:
    if isinstance(type_, T.ArrayType):
        return [("element", type_.elementType)]
    if isinstance(type_, T.MapType):
        return [("key", type_.keyType), ("value", type_.valueType)]
    return [(f.name, f.dataType) for f in type_.fields] if isinstance(type_, T.StructType) else []


def _has(type_: T.DataType, kinds: tuple[type[T.DataType], ...]) -> bool:
    return isinstance(type_, kinds) or any(_has(child, kinds) for _, child in _children(type_))


def _needs_cast(type_: T.DataType) -> bool:
    return _has(type_, (T.YearMonthIntervalType, T.CalendarIntervalType))


# ------------------------------------------------------------------------------------- in Spark's plan


def _castable(column: Column, type_: T.DataType) -> Column:
    if not _needs_cast(type_):
        return column
    if isinstance(type_, T.YearMonthIntervalType):
        return column.cast("interval month").cast("int")
    if isinstance(type_, T.ArrayType):
        element = type_.elementType
        return F.transform(column, lambda value: _castable(value, element))
    if isinstance(type_, T.MapType):
        keys = F.transform(F.map_keys(column), lambda key: _castable(key, type_.keyType))
        return F.map_from_arrays(
            keys, F.transform(F.map_values(column), lambda value: _castable(value, type_.valueType))
        )
    if isinstance(type_, T.StructType):
        fields = [_castable(column.getField(f.name), f.dataType).alias(f.name) for f in type_.fields]
        return F.when(column.isNotNull(), F.struct(*fields))
    return column.cast("string")  # its parts as they are: extract() would make a day of 24 hours


# ---------------------------------------------------------------------------------------- in Arrow


def _restored(array: pa.Array, type_: T.DataType) -> pa.Array:
    """Return the values with intervals in the place of what stood for them."""
    if isinstance(type_, _INTERVALS):
        return _intervals(array, type_)
    if not _has(type_, _INTERVALS):
        return array
    array = pa.concat_arrays([array]) if array.offset else array  # a slice's children are not sliced
    mask = array.is_null() if array.null_count else None
    if isinstance(type_, T.ArrayType):
        return pa.ListArray.from_arrays(array.offsets, _restored(array.values, type_.elementType), mask=mask)
    if isinstance(type_, T.MapType):
        keys, items = _restored(array.keys, type_.keyType), _restored(array.items, type_.valueType)
        return pa.MapArray.from_arrays(array.offsets, keys, items, mask=mask)
    assert isinstance(type_, T.StructType)  # noqa: S101 # nothing else has children
    parts = [_restored(array.field(i), f.dataType) for i, f in enumerate(type_.fields)]
    return pa.StructArray.from_arrays(parts, names=[f.name for f in type_.fields], mask=mask)


def _intervals(array: pa.Array, type_: T.DataType) -> pa.Array:
    if isinstance(type_, T.YearMonthIntervalType):
        return _interval_array(array, months=_numbers(array))
    if isinstance(type_, T.DayTimeIntervalType):
        microseconds = _numbers(array.cast(pa.int64()))
        days, rest = np.divmod(microseconds, _MICROSECONDS_PER_DAY)
        days += (microseconds < 0) & (rest != 0)  # both parts have the sign of the whole
        return _interval_array(array, days=days, microseconds=microseconds - days * _MICROSECONDS_PER_DAY)
    parts = np.array([_calendar_parts(text) for text in array.to_pylist()], np.int64).reshape(-1, 3)
    return _interval_array(array, parts[:, 0], parts[:, 1], parts[:, 2])


def _calendar_parts(text: str | None) -> tuple[int, int, int]:
    """Return months, days and microseconds of a text such as `1 years 2 months 4 days 25 hours -0.5 seconds`."""
    found = {unit: Decimal(number) for number, unit in _CALENDAR_PART.findall(text or "")}
    years, months, days, hours, minutes, seconds = (found.get(unit, Decimal(0)) for unit in _CALENDAR_UNITS)
    return int(years * 12 + months), int(days), int((hours * 3600 + minutes * 60 + seconds) * 1_000_000)


def _numbers(array: pa.Array) -> np.ndarray:
    return np.asarray(array.fill_null(0).to_numpy(zero_copy_only=False))


def _interval_array(
    array: pa.Array,
    months: np.ndarray | int = 0,
    days: np.ndarray | int = 0,
    microseconds: np.ndarray | int = 0,
) -> pa.Array:
    """Make intervals by Arrow's own layout, with the nulls of `array`."""
    parts = np.empty(len(array), dtype=[("months", "<i4"), ("days", "<i4"), ("nanoseconds", "<i8")])
    if np.any(np.abs(np.asarray(microseconds)) > _MAX_MICROSECONDS):
        raise UnsupportedType(
            "an interval has more than 292 years of hours, minutes and seconds, which Arrow cannot hold"
        )
    parts["months"], parts["days"], parts["nanoseconds"] = months, days, np.asarray(microseconds) * 1000
    valid = pa.array(array.is_valid()).buffers()[1]
    return pa.Array.from_buffers(pa.month_day_nano_interval(), len(array), [valid, pa.py_buffer(parts)])
