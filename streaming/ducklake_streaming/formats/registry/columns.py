"""Which columns hold the values of several schemas together. Pure; runs on driver and executors.

Columns are Spark's types, all nullable. Two schemas are merged by the names of their fields. A field that both have is
of the type that holds every value of both, or they contradict each other.
"""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
from pyspark.sql import types as T  # noqa: N812 # Spark's own convention

from ducklake_streaming.formats.registry.errors import UnusableSchema

MAX_DIGITS = 38  # of a decimal, in Spark and in the lake
# (narrow, wide): every value of the first is exactly one of the second.
_PROMOTIONS: set[tuple[type[T.DataType], type[T.DataType]]] = {
    (T.IntegerType, T.LongType),
    (T.IntegerType, T.DoubleType),
    (T.FloatType, T.DoubleType),
}
_ARROW: dict[type[T.DataType], pa.DataType] = {
    T.BooleanType: pa.bool_(),
    T.IntegerType: pa.int32(),
    T.LongType: pa.int64(),
    T.FloatType: pa.float32(),
    T.DoubleType: pa.float64(),
    T.StringType: pa.string(),
    T.BinaryType: pa.binary(),
    T.DateType: pa.date32(),
    T.TimeType: pa.time64("ns"),
    T.TimestampType: pa.timestamp("us", "UTC"),
    T.TimestampNTZType: pa.timestamp("us"),
}


class Contradiction(UnusableSchema):
    """Two schemas have a field of types that no column holds together."""


def merge_columns(known: T.StructType, other: T.StructType, path: str = "") -> T.StructType:
    """Return columns for the values of both: first those known, in their order. Raises Contradiction."""
    others = {field.name: field.dataType for field in other.fields}
    merged = {field.name: field.dataType for field in known.fields}
    for name, kind in others.items():
        merged[name] = _merge(merged[name], kind, f"{path}{name}") if name in merged else kind
    check_names(list(merged), path)
    return struct_of(merged)


def covers(known: T.StructType, other: T.StructType) -> bool:
    """Tell whether columns hold every field and value of another schema."""
    try:
        return merge_columns(known, other) == known
    except UnusableSchema:
        return False


def struct_of(fields: dict[str, T.DataType]) -> T.StructType:
    return T.StructType([T.StructField(name, kind) for name, kind in fields.items()])


def check_names(names: list[str], path: str = "") -> None:
    """Refuse names that Spark and the lake take for one. Raises UnusableSchema."""
    folded = Counter(name.casefold() for name in names)
    same = [f"'{path}{name}'" for name in names if folded[name.casefold()] > 1]
    if same:
        raise UnusableSchema(f"fields {' and '.join(same)} differ by nothing but upper and lower case")


def arrow_type(kind: T.DataType) -> pa.DataType:
    """Return the Arrow type in which Spark takes values of a type."""
    match kind:
        case T.StructType():
            return pa.struct([pa.field(field.name, arrow_type(field.dataType)) for field in kind.fields])
        case T.ArrayType():
            return pa.list_(pa.field("element", arrow_type(kind.elementType)))
        case T.MapType():
            return pa.map_(arrow_type(kind.keyType), arrow_type(kind.valueType))
        case T.DecimalType():
            return pa.decimal128(kind.precision, kind.scale)
        case _:
            return _ARROW[type(kind)]


def _merge(known: T.DataType, other: T.DataType, path: str) -> T.DataType:  # noqa: PLR0911 # one for each pair
    if known == other:
        return known
    match known, other:
        case T.StructType(), T.StructType():
            return merge_columns(known, other, f"{path}.")
        case T.ArrayType(), T.ArrayType():
            return T.ArrayType(_merge(known.elementType, other.elementType, f"{path}[]"))
        case T.MapType(), T.MapType() if known.keyType == other.keyType:
            return T.MapType(known.keyType, _merge(known.valueType, other.valueType, f"{path}{{}}"))
        case T.DecimalType(), T.DecimalType():
            return _merge_decimals(known, other, path)
        case _ if (type(known), type(other)) in _PROMOTIONS:
            return other
        case _ if (type(other), type(known)) in _PROMOTIONS:
            return known
        case _:
            raise _contradiction(known, other, path)


def _merge_decimals(known: T.DecimalType, other: T.DecimalType, path: str) -> T.DecimalType:
    scale = max(known.scale, other.scale)
    precision = max(known.precision - known.scale, other.precision - other.scale) + scale
    if precision > MAX_DIGITS:
        raise _contradiction(known, other, path)
    return T.DecimalType(precision, scale)


def _contradiction(known: T.DataType, other: T.DataType, path: str) -> Contradiction:
    return Contradiction(
        f"field '{path}' is {other.simpleString()}, but {known.simpleString()} elsewhere: no column holds both"
    )
