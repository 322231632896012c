"""What Spark's lenient parsers let pass, found and refused, as SQL texts made of a schema. Runs on the driver.

Spark reads 200 as a `tinyint` of -56, 1e999 as infinity, 1.239 as a `decimal(9,2)` of 1.24, "12:30" as a timestamp of
today, 1700000000000000 as some year, "1,5" as a decimal of 15, and keeps both values of a key that a map has twice. So
such fields are parsed as a wider type, as text or as a variant (`parsed_type`), checked (`wrong`) and only then
converted (`converted`).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from pyspark.sql import types as T  # noqa: N812 # Spark's own convention

MAX_DIGITS = 38
NUMBER_PATTERN = r"^\s*[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?\s*$"
_DATE = r"\d{4,6}-\d{1,2}-\d{1,2}"
_TIME = r"\d{1,2}:\d{1,2}(:\d{1,2}(\.\d{1,9})?)?"
_ZONE = r"( ?(Z|[+-]\d{1,2}(:?\d{2}){0,2}|[A-Za-z]+(/[A-Za-z_]+)*))?"
DATE_PATTERN = rf"^{_DATE}$"
TIMESTAMP_PATTERN = rf"^{_DATE}([T ]{_TIME}{_ZONE})?$"


def parsed_type(type_: T.DataType) -> T.DataType:
    """Return the type as which a field is parsed; everything in it may be null."""
    match type_:
        case T.StructType():
            return T.StructType([T.StructField(f.name, parsed_type(f.dataType)) for f in type_.fields])
        case T.ArrayType():
            return T.ArrayType(parsed_type(type_.elementType))
        case T.MapType():
            return T.MapType(type_.keyType, parsed_type(type_.valueType))
    return _parsed_scalar(type_)


def _parsed_scalar(type_: T.DataType) -> T.DataType:
    match type_:
        case T.ByteType():
            return T.ShortType()
        case T.DecimalType():
            return T.VariantType()
        case T.DateType() | T.TimestampType() | T.TimestampNTZType():
            return T.StringType()
    return type_


def converted(value: str, type_: T.DataType, names: Iterator[str]) -> str:
    """Return the SQL of a parsed value as its own type. `names`: of variables, each used once."""
    if parsed_type(type_) == _nullable(type_):
        return value
    if isinstance(type_, T.StructType):
        fields = (f"{literal(f.name)}, {converted(field_of(value, f.name), f.dataType, names)}" for f in type_.fields)
        return f"if({value} IS NULL, NULL, named_struct({', '.join(fields)}))"
    if isinstance(type_, T.ArrayType):
        item = next(names)
        return f"transform({value}, {item} -> {converted(item, type_.elementType, names)})"
    if isinstance(type_, T.MapType):
        key, item = next(names), next(names)
        return f"transform_values({value}, ({key}, {item}) -> {converted(item, type_.valueType, names)})"
    text = _variant_text(value) if isinstance(type_, T.DecimalType) else value
    return f"try_cast({text} AS {type_.simpleString()})"


def wrong(value: str, type_: T.DataType, names: Iterator[str]) -> Iterator[str]:
    """Yield conditions, each true for a parsed value that is no value of the type; never null."""
    match type_:
        case T.StructType():
            for f in type_.fields:
                yield from wrong_field(field_of(value, f.name), f, names, within=value)
        case T.ArrayType():
            yield from _wrong_item(value, type_.elementType, names)
        case T.MapType():
            yield f"coalesce(size(array_distinct(map_keys({value}))) <> size({value}), false)"
            yield from _wrong_item(f"map_values({value})", type_.valueType, names)
        case T.FloatType() | T.DoubleType():
            yield f"coalesce(abs({value}) = double('Infinity'), false)"
        case T.DateType():
            yield _unlike(value, DATE_PATTERN, type_)
        case T.TimestampType() | T.TimestampNTZType():
            yield _unlike(value, TIMESTAMP_PATTERN, type_)
        case T.ByteType():
            yield f"({value} IS NOT NULL AND try_cast({value} AS tinyint) IS NULL)"
        case T.DecimalType():
            yield f"NOT ({_is_null(value)} OR {is_decimal(_variant_text(value), type_)})"


def is_decimal(text: str, type_: T.DecimalType) -> str:
    """Return the condition under which a text is a decimal of the type and loses no digit; never null."""
    value, scale = f"try_cast({text} AS {type_.simpleString()})", type_.scale
    wide = f"try_cast({text} AS decimal({MAX_DIGITS},{MAX_DIGITS - type_.precision + scale}))"
    beyond = rf"\.\d{{{scale}}}\d*[1-9]"
    is_exact = f"if({text} RLIKE '[eE]', {value} = {wide}, NOT {text} RLIKE {literal(beyond)})"
    return f"coalesce({text} RLIKE {literal(NUMBER_PATTERN)} AND {value} IS NOT NULL AND {is_exact}, false)"


def wrong_field(value: str, field: T.StructField, names: Iterator[str], within: str | None = None) -> Iterator[str]:
    """Yield conditions for a field that is wrong; `within`: the struct that it is in, which may be null."""
    if not field.nullable:
        is_null = _is_null(value) if isinstance(field.dataType, T.DecimalType) else f"{value} IS NULL"
        yield is_null if within is None else f"({within} IS NOT NULL AND {is_null})"
    yield from wrong(value, field.dataType, names)


def field_of(value: str, name: str) -> str:
    return f"{value}.{quoted(name)}"


def quoted(name: str) -> str:
    return "`{}`".format(name.replace("`", "``"))


def literal(text: str) -> str:
    """Return a text as Spark's SQL has it."""
    return "'{}'".format(text.replace("\\", "\\\\").replace("'", "\\'"))


def type_ddl(type_: T.DataType) -> str:
    """Return a type as Spark's DDL has it, with every name quoted."""
    match type_:
        case T.StructType():
            return f"struct<{', '.join(f'{quoted(f.name)}: {type_ddl(f.dataType)}' for f in type_.fields)}>"
        case T.ArrayType():
            return f"array<{type_ddl(type_.elementType)}>"
        case T.MapType():
            return f"map<{type_ddl(type_.keyType)}, {type_ddl(type_.valueType)}>"
    return type_.simpleString()


def variable_names() -> Iterator[str]:
    return (f"_x{number}" for number in count())


def _wrong_item(items: str, type_: T.DataType, names: Iterator[str]) -> Iterator[str]:
    item = next(names)
    conditions = list(wrong(item, type_, names))
    if conditions:
        yield f"coalesce(exists({items}, {item} -> {' OR '.join(conditions)}), false)"


def _is_null(value: str) -> str:
    """Return the condition under which a variant holds nothing: a field that is missing, or is JSON's null."""
    return f"({value} IS NULL OR is_variant_null({value}))"


def _variant_text(value: str) -> str:
    """Return the SQL of a variant's text: of a number all its digits, where it has no exponent."""
    return f"try_variant_get({value}, '$', 'string')"


def _unlike(value: str, pattern: str, type_: T.DataType) -> str:
    is_good = f"{value} RLIKE {literal(pattern)} AND try_cast({value} AS {type_.simpleString()}) IS NOT NULL"
    return f"({value} IS NOT NULL AND NOT ({is_good}))"


def _nullable(type_: T.DataType) -> T.DataType:
    match type_:
        case T.StructType():
            return T.StructType([T.StructField(f.name, _nullable(f.dataType)) for f in type_.fields])
        case T.ArrayType():
            return T.ArrayType(_nullable(type_.elementType))
        case T.MapType():
            return T.MapType(type_.keyType, _nullable(type_.valueType))
    return type_
