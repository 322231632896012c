"""Values that come as text, such as those of CSV: which text is a value of which type, as SQL. Runs on the driver."""

from __future__ import annotations

from pyspark.sql import types as T  # noqa: N812 # Spark's own convention

from ducklake_streaming.formats.strict_types import (
    DATE_PATTERN,
    NUMBER_PATTERN,
    TIMESTAMP_PATTERN,
    is_decimal,
    literal,
)

_WHOLE = r"^\s*[+-]?\d+\s*$"
_PATTERNS: dict[type[T.DataType], str] = {
    T.BooleanType: r"(?i)^\s*(true|false)\s*$",
    T.ByteType: _WHOLE,
    T.ShortType: _WHOLE,
    T.IntegerType: _WHOLE,
    T.LongType: _WHOLE,
    T.FloatType: NUMBER_PATTERN,
    T.DoubleType: NUMBER_PATTERN,
    T.DecimalType: NUMBER_PATTERN,
    T.DateType: DATE_PATTERN,
    T.TimestampType: TIMESTAMP_PATTERN,
    T.TimestampNTZType: TIMESTAMP_PATTERN,
}
_ANY = (T.StringType, T.CharType, T.VarcharType)


def has_text_form(type_: T.DataType) -> bool:
    """Tell whether a value of the type can come as text."""
    return isinstance(type_, _ANY) or type(type_) in _PATTERNS


def converted_text(text: str, type_: T.DataType) -> str:
    """Return the SQL of a text as a value of the type, null where it is none."""
    return text if isinstance(type_, _ANY) else f"try_cast({text} AS {type_.simpleString()})"


def is_wrong_text(text: str, field: T.StructField) -> str | None:
    """Return the condition under which a text is no value of a field; never null. None: every text is one."""
    conditions = [] if field.nullable else [f"{text} IS NULL"]
    pattern = _PATTERNS.get(type(field.dataType))
    if pattern is not None:
        is_right = f"{text} RLIKE {literal(pattern)} AND {_is_exact(text, field.dataType)}"
        conditions.append(f"{text} IS NOT NULL AND NOT ({is_right})")
    return " OR ".join(conditions) or None


def _is_exact(text: str, type_: T.DataType) -> str:
    value = converted_text(text, type_)
    match type_:
        case T.FloatType() | T.DoubleType():
            return f"coalesce(abs({value}) <> double('Infinity'), false)"
        case T.DecimalType():
            return is_decimal(text, type_)
    return f"{value} IS NOT NULL"
