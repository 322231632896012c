"""Spark's filters as core's: only those that mean exactly the same, for Spark does not check them again. Pure.

Both order floats totally (NaN is the greatest) and texts by their bytes. A column that Spark sees as another type than
the lake has it, such as a uuid as text, is left to Spark.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime, time
from decimal import Decimal
from math import isnan
from typing import Any

import pyarrow as pa
from pyspark.sql import datasource as spark

from ducklake_core.errors import DuckLakeError
from ducklake_core.model import Column
from ducklake_core.plan.filter_numbers import Number, compare_exact, is_exact
from ducklake_core.plan.predicates import (
    Comparison,
    Constant,
    FieldRef,
    IsIn,
    IsNull,
    Like,
    Not,
    Operator,
    Predicate,
    conjunction,
    disjunction,
)
from ducklake_core.spec.names import fold
from ducklake_core.spec.types import scalar_arrow_type


class _Unsupported(Exception):
    """A filter that is left to Spark."""


def to_predicate(one: spark.Filter, columns: Sequence[Column]) -> Predicate | None:
    """Return the same filter for core, None when there is none that means the same."""
    try:
        return _predicate(one, columns)
    except (_Unsupported, DuckLakeError):
        return None


_COMPARISONS: dict[type[spark.Filter], Operator] = {
    spark.EqualTo: Operator.EQ,
    spark.GreaterThan: Operator.GT,
    spark.GreaterThanOrEqual: Operator.GE,
    spark.LessThan: Operator.LT,
    spark.LessThanOrEqual: Operator.LE,
}


def _predicate(one: spark.Filter, columns: Sequence[Column]) -> Predicate:  # noqa: PLR0911 # one case per kind of filter
    if isinstance(one, spark.Not):
        return Not(_predicate(one.child, columns))
    field = _field(one.attribute, columns)  # type: ignore[attr-defined] # all but Not have one
    match one:
        case spark.IsNull():
            return IsNull(field)
        case spark.IsNotNull():
            return Not(IsNull(field))
        case spark.EqualNullSafe(value=None):
            return IsNull(field)
        case spark.EqualNullSafe(value=value):
            return conjunction(Not(IsNull(field)), _compare(field, Operator.EQ, value))
        case spark.In(value=values):
            return _is_in(field, values)
        case spark.StringStartsWith() | spark.StringEndsWith() | spark.StringContains():
            return _like(field, one)
    if type(one) not in _COMPARISONS:
        raise _Unsupported
    return _compare(field, _COMPARISONS[type(one)], one.value)  # type: ignore[attr-defined] # comparisons have one


def _field(path: tuple[str, ...], columns: Sequence[Column]) -> FieldRef:
    names: list[str] = []
    found: Column | None = None
    for name in path:
        found = next((column for column in columns if fold(column.name) == fold(name)), None)
        if found is None:
            raise _Unsupported
        names.append(found.name)
        columns = found.children if found.type == "struct" else ()
    if found is None:
        raise _Unsupported
    return FieldRef(found, tuple(names))


def _compare(field: FieldRef, operator: Operator, value: Any) -> Predicate:  # Any: of the type that Spark gives it
    if value is None:
        return Constant(None)
    if is_exact(field.type):
        if isinstance(value, bool) or not isinstance(value, (int, Decimal)):
            raise _Unsupported
        return compare_exact(field, operator, Number(Decimal(value)))
    if not isinstance(value, _VALUES.get(field.type, ())) or (isinstance(value, bool) and field.type != "boolean"):
        raise _Unsupported
    return Comparison(field, operator, _scalar(field, value))


# The types that both see the same, and what Spark gives as their values.
_VALUES: dict[str, type | tuple[type, ...]] = {
    "boolean": bool,
    "float32": float,
    "float64": float,
    "varchar": str,
    "blob": (bytes, bytearray),
    "date": date,
    "time": time,
    **dict.fromkeys(("timestamp", "timestamp_s", "timestamp_ms", "timestamp_ns", "timestamptz"), datetime),
}


def _scalar(field: FieldRef, value: Any) -> pa.Scalar:  # Any: see _compare
    """Return a value in the field's type, if it has it exactly."""
    type_ = scalar_arrow_type(field.type)
    if isinstance(value, datetime):
        if field.type == "date" or (value.tzinfo is None) != (type_.tz is None):
            raise _Unsupported
        type_, wanted = pa.timestamp("us", type_.tz), type_
    elif isinstance(value, float):
        type_, wanted = pa.float64(), type_
    else:
        wanted = type_
    try:
        scalar = pa.scalar(bytes(value) if isinstance(value, bytearray) else value, type_)
        narrow = scalar.cast(wanted)
        is_same = narrow.cast(type_).equals(scalar) or _is_nan(value)
    except (pa.ArrowException, OverflowError, ValueError):
        raise _Unsupported from None
    if not is_same:
        raise _Unsupported
    return narrow


def _is_nan(value: object) -> bool:
    return isinstance(value, float) and isnan(value)


def _is_in(field: FieldRef, values: Sequence[Any]) -> Predicate:  # Any: see _compare
    parts = [_compare(field, Operator.EQ, value) for value in values if value is not None]
    has_null = any(value is None for value in values)
    if not parts:
        return Constant(None if has_null else False)
    if all(isinstance(part, Comparison) for part in parts):
        return IsIn(field, tuple(part.value for part in parts if isinstance(part, Comparison)), has_null)
    return disjunction(*parts, *([Constant(None)] if has_null else []))


def _like(field: FieldRef, one: spark.StringStartsWith | spark.StringEndsWith | spark.StringContains) -> Predicate:
    if field.type != "varchar" or set(one.value) & {"%", "_"}:
        raise _Unsupported
    before = "" if isinstance(one, spark.StringStartsWith) else "%"
    after = "" if isinstance(one, spark.StringEndsWith) else "%"
    return Like(field, f"{before}{one.value}{after}")
