"""What the catalog tells of a field's values in one data file: their range, whether there are nulls, their partition.

Everything here is an upper bound: a fact may say too little, never too much. What cannot be parsed says nothing. Pure.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ducklake_core.model import Column, ColumnId, ColumnStats, DataFile, TableVersion
from ducklake_core.plan.order import Key, float_key, key_of_text
from ducklake_core.spec.arrays import plain
from ducklake_core.spec.kinds import NESTED, UNORDERED, Kind
from ducklake_core.spec.partition import partition_values
from ducklake_core.spec.types import arrow_type


@dataclass(frozen=True, slots=True)
class Range:
    """Both ends inclusive, as keys; None: no end known."""

    low: Key = None
    high: Key = None

    def intersect(self, other: Range) -> Range:
        lows = [low for low in (self.low, other.low) if low is not None]
        highs = [high for high in (self.high, other.high) if high is not None]
        return Range(max(lows, default=None), min(highs, default=None))


@dataclass(frozen=True, slots=True)
class FieldFacts:
    """What is known of one field in one file; `transformed` has the partition values other than identity's."""

    range: Range = Range()
    may_have_values: bool = True
    may_have_nulls: bool = True
    transformed: Mapping[str, str] = field(default_factory=dict)


def field_facts(column: Column, stats: ColumnStats | None, table: TableVersion, file: DataFile) -> FieldFacts:
    """Gather what the statistics and the partition values of a file say of a column or struct field."""
    facts = facts_of_stats(column, stats, file.record_count) if stats is not None else FieldFacts()
    for transform, value in _partition_values(column.column_id, table, file):
        facts = _with_partition(facts, column, transform, value)
    if not facts.transformed:
        return facts
    return replace(facts, range=facts.range.intersect(_calendar_range(column, facts.transformed)))


def may_be_transformed(facts: FieldFacts, column: Column, value: pa.Scalar) -> bool:
    """Tell whether a row with this value may be in the file, by its partition values other than identity's."""
    return all(
        stored in candidates
        for transform, stored in facts.transformed.items()
        if (candidates := _transformed(column, transform, value)) is not None
    )


def transformed_values(column: Column, transform: str, values: pa.Array) -> set[str | None] | None:
    """Return the partition values that rows with one of some values may have, None if they say nothing."""
    bucket = re.fullmatch(r"bucket\((\d+)\)", transform)
    if bucket is not None and len(values) > _VALUES_PER_BUCKET * int(bucket.group(1)):
        return None  # they are in every bucket
    found: set[str | None] = set()
    for type_ in _types_of(column, transform):
        texts = partition_values(_as_type(values, replace(column, type=type_)), replace(column, type=type_), transform)
        found |= set(texts.unique().to_pylist())
    return found or None


# Blobs have two text forms that cannot be told apart. The others have no order, or none that their texts show.
_WITHOUT_RANGE = (Kind.BLOB, *UNORDERED, *NESTED)
_VALUES_PER_BUCKET = 20  # so many, and hardly any bucket is left without a value
_CALENDAR = ("year", "month", "day", "hour")
# A timestamptz has the calendar of its writer's session.
_DATED = (Kind.DATE, Kind.TIMESTAMP)
# Type → types of the same hash as those that its values may have had when their file was written: booleans and signed
# integers hash a long, unsigned ones their text. Where a type is missing (floats, decimals, timestamps, json), too many
# may have become it, and a bucket says nothing.
_BUCKET_TYPES: Mapping[str, tuple[str, ...]] = {
    **{name: (name,) for name in ("boolean", "varchar", "blob", "uuid", "date")},
    **{f"{sign}int{bits}": ("int64", "uint64") for sign in ("", "u") for bits in (8, 16, 32, 64)},
}


def facts_of_stats(column: Column, stats: ColumnStats, record_count: int) -> FieldFacts:
    """Return what the statistics of so many rows say of a column or struct field."""
    low, high = (_bound(text, column) for text in (stats.min_value, stats.max_value))
    if column.kind is Kind.FLOAT:
        low, high = _float_bounds(low, high, column.type, has_nan=stats.contains_nan is not False)
    # Counts of nested fields may leave out rows whose parent is null, so both must add up.
    values, nulls = stats.value_count, stats.null_count
    return FieldFacts(
        Range(low, high),
        may_have_values=not (values == 0 and nulls is not None and nulls >= record_count > 0),
        may_have_nulls=not (nulls == 0 and values is not None and values >= record_count),
    )


def _bound(text: str | None, column: Column) -> Key:
    """Return the key of a bound, which may be the text of an older, narrower type; None if it says nothing."""
    if text is None or column.kind in _WITHOUT_RANGE or column.type == "json":
        return None  # the reference lets every type become json, whose order is that of its text
    if column.kind is Kind.TIMESTAMPTZ and not re.search(r":\d\d(\.\d+)?[+-]\d\d(:\d\d)*$", text):
        return None  # written as a type without a zone: whose zone it meant is unknown
    try:
        return text.lower() if column.kind is Kind.UUID else key_of_text(column.type)(text)
    except (ValueError, OverflowError, ArithmeticError):
        return None


def _float_bounds(low: Key, high: Key, type_: str, *, has_nan: bool) -> tuple[Key, Key]:
    """Widen bounds by what a text of another type may be off: float32's is rounded, a decimal's cast may be."""
    kind = np.float32 if type_ == "float32" else np.float64
    if (low is not None and low[0]) or (high is not None and high[0]):
        low, has_nan = None, True  # NaN as a bound says nothing of the other values
    if low is not None:
        low = float_key(float(np.nextafter(kind(min(low[1], _float32(low[1]))), kind(-np.inf))))
    if has_nan:
        return low, float_key(math.nan) if high is not None else None
    if high is not None:
        high = float_key(float(np.nextafter(kind(max(high[1], _float32(high[1]))), kind(np.inf))))
    return low, high


def _float32(value: float) -> float:
    with np.errstate(over="ignore"):
        return float(np.float32(value))


# ------------------------------------------------------------------------------------------ partitions


def _partition_values(column_id: ColumnId, table: TableVersion, file: DataFile) -> Iterator[tuple[str, str | None]]:
    """Yield transform and value of the keys on a column; none for a file of an older partitioning."""
    partitioning = table.partitioning
    if partitioning is None or partitioning.partition_id != file.partition_id:
        return
    for index, key in enumerate(partitioning.keys):
        if key.column_id == column_id and index in file.partition_values:
            yield key.transform, file.partition_values[index]


def _with_partition(facts: FieldFacts, column: Column, transform: str, value: str | None) -> FieldFacts:
    is_calendar = transform in _CALENDAR
    if value is None:  # null, but a part of an infinite date is null too
        return facts if is_calendar else replace(facts, may_have_values=False)
    if transform != "identity":
        return replace(facts, transformed={**facts.transformed, transform: value})
    low = high = _bound(value, column)
    if column.kind is Kind.FLOAT:
        low, high = _float_bounds(low, high, column.type, has_nan=False)
    return replace(facts, range=facts.range.intersect(Range(low, high)), may_have_nulls=False)


def _calendar_range(column: Column, parts: Mapping[str, str]) -> Range:
    """Return the range of the rows of a year, or of a month of it, and so on; a month alone has none."""
    numbers: list[int] = []
    for part in _CALENDAR:
        if not parts.get(part, "").isdecimal():
            break
        numbers.append(int(parts[part]))
    if column.kind not in _DATED or not numbers or not 1 <= numbers[0] < 9999:
        return Range()
    try:
        start, end = _period(numbers)
    except ValueError:
        return Range()
    zero = datetime(1970, 1, 1)  # noqa: DTZ001 # of values without a zone
    if column.kind is Kind.DATE:
        return Range((start - zero).days, (end - zero).days - (1 if end.hour == 0 else 0))
    return Range(int((start - zero).total_seconds()) * 10**9, int((end - zero).total_seconds()) * 10**9 - 1)


def _period(numbers: list[int]) -> tuple[datetime, datetime]:
    """Return start and end, exclusive, of the year, month, day or hour that the numbers are."""
    year, month, day, hour = (*numbers, *(1, 1, 1, 0)[len(numbers) :])
    start = datetime(year, month, day, hour)  # noqa: DTZ001 # of values without a zone
    match len(numbers):
        case 1:
            return start, start.replace(year=year + 1)
        case 2:
            return start, start.replace(year=year + month // 12, month=month % 12 + 1)
        case 3:
            return start, start + timedelta(days=1)
        case _:
            return start, start + timedelta(hours=1)


def _transformed(column: Column, transform: str, value: pa.Scalar) -> set[str | None] | None:
    """Return the partition values that a row with this value may have, None if they say nothing."""
    type_ = arrow_type(column)
    storage = type_.storage_type if isinstance(type_, pa.BaseExtensionType) else value.type
    return transformed_values(column, transform, pa.array([value], storage))


def _types_of(column: Column, transform: str) -> tuple[str, ...]:
    """Return the types that values of a file may have had when their partition value was made."""
    if transform in _CALENDAR:
        return (column.type,) if column.kind in _DATED else ()
    return _BUCKET_TYPES.get(column.type, ())


def _as_type(values: pa.Array, column: Column) -> pa.Array:
    """Return values in a column's type; null: a negative number as an unsigned one, too large a one as a signed one."""
    type_, found = arrow_type(column), plain(values)
    if isinstance(type_, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(type_, found)
    if found.type == type_:
        return found
    if pa.types.is_integer(found.type):
        found = _nulled(found, type_)
    return found.cast(type_)


def _nulled(numbers: pa.Array, type_: pa.DataType) -> pa.Array:
    """Return integers with null for those that a type of the same width, but for the sign, does not hold."""
    bounds = np.iinfo(type_.to_pandas_dtype())
    of = np.iinfo(numbers.type.to_pandas_dtype())
    low, high = (pa.scalar(int(n), numbers.type) for n in (max(bounds.min, of.min), min(bounds.max, of.max)))
    fits = pc.and_(pc.greater_equal(numbers, low), pc.less_equal(numbers, high))
    return pc.if_else(fits, numbers, pa.scalar(None, numbers.type))
