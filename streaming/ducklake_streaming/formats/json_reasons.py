"""Why a text is no JSON object of a schema: the place and what is there. Pure; runs on executors, for bad records only.

It says what `StrictJson` refuses, one by one and slowly. Where it finds nothing wrong, that one's own word stands.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any, NoReturn

import numpy as np
from pyspark.sql import types as T  # noqa: N812 # Spark's own convention

from ducklake_streaming.formats.strict_types import DATE_PATTERN, NUMBER_PATTERN, TIMESTAMP_PATTERN

_SHOWN = 60  # characters of a value
_RANGES: dict[type[T.DataType], int] = {T.ByteType: 7, T.ShortType: 15, T.IntegerType: 31, T.LongType: 63}

_PATTERNS: dict[type[T.DataType], str] = {
    T.DateType: DATE_PATTERN,
    T.TimestampType: TIMESTAMP_PATTERN,
    T.TimestampNTZType: TIMESTAMP_PATTERN,
}
_NESTED = (T.StructType, T.ArrayType, T.MapType)


class JsonObject(dict[str, Any]):  # Any: JSON
    """An object, and the keys that it has more than once; the last value counts."""

    repeated: tuple[str, ...] = ()


def json_reason(text: str, schema: T.StructType) -> str | None:
    """Return what is wrong with a text, the first thing found; None: nothing."""
    try:
        value = load_json(text)
    except (ValueError, RecursionError) as error:
        return f"the value is no JSON: {error}"
    if not isinstance(value, JsonObject):
        return f"the value is no JSON object, but {shown(value)}"
    return next(_wrong(value, schema, ""), None)


def load_json(text: str) -> Any:  # Any: JSON
    """Return the value of a text; numbers that are not whole are decimals. Raises ValueError, or RecursionError."""
    return json.loads(text, object_pairs_hook=_object, parse_float=Decimal, parse_constant=_refuse_constant)


def shown(value: object) -> str:
    text = str(value) if isinstance(value, Decimal) else json.dumps(value, default=str, ensure_ascii=False)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _object(pairs: list[tuple[str, Any]]) -> JsonObject:
    found = JsonObject(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        found.repeated = tuple(name for name in found if names.count(name) > 1)
    return found


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON")


def _wrong(value: Any, type_: T.DataType, path: str) -> Iterator[str]:  # Any: JSON
    """Yield what is wrong with a value at a path such as `items[2].price`; null is right where nothing forbids it."""
    match type_:
        case _ if value is None:
            return
        case T.StructType() if isinstance(value, JsonObject):
            for field in type_.fields:
                yield from _wrong_field(value, field, f"{path}.{field.name}" if path else field.name)
        case T.ArrayType() if isinstance(value, list):
            for index, item in enumerate(value):
                yield from _wrong(item, type_.elementType, f"{path}[{index}]")
        case T.MapType() if isinstance(value, JsonObject):
            yield from (f"field '{path}' has the key {shown(name)} more than once" for name in value.repeated)
            for name, item in value.items():
                yield from _wrong(item, type_.valueType, f"{path}[{shown(name)}]")
        case _ if not _is_scalar(value, type_):
            yield f"field '{path}' is no {type_.simpleString()}, but {shown(value)}"


def _wrong_field(value: Mapping[str, Any], field: T.StructField, path: str) -> Iterator[str]:  # Any: JSON
    found = value.get(field.name)
    yield from _wrong(found, field.dataType, path)
    if found is None and not field.nullable:
        told = "null" if field.name in value else "missing"
        yield f"field '{path}' is {told}, and the schema says NOT NULL"


def _is_scalar(value: Any, type_: T.DataType) -> bool:  # Any: JSON
    bits = _RANGES.get(type(type_))
    if bits is not None:
        return isinstance(value, int) and not isinstance(value, bool) and -(2**bits) <= value < 2**bits
    match type_:
        case T.FloatType() | T.DoubleType():
            return _is_float(value, np.float32 if isinstance(type_, T.FloatType) else np.float64)
        case T.DecimalType():
            return _is_decimal(value, type_)
        case T.BinaryType():
            return isinstance(value, str) and _is_base64(value)
    pattern = _PATTERNS.get(type(type_))
    if pattern is not None:
        return isinstance(value, str) and re.search(pattern, value) is not None
    return isinstance(value, bool) if isinstance(type_, T.BooleanType) else not isinstance(type_, _NESTED)


def _is_float(value: Any, kind: type[np.floating[Any]]) -> bool:  # Any: JSON, and numpy's widths
    if isinstance(value, bool) or not isinstance(value, (int, Decimal)):
        return False
    try:
        with np.errstate(over="ignore"):
            return math.isfinite(kind(float(value)))
    except OverflowError:
        return False


def _is_decimal(value: Any, type_: T.DecimalType) -> bool:  # Any: JSON
    if isinstance(value, str):
        if re.search(NUMBER_PATTERN, value) is None:
            return False
        value = Decimal(value.strip())
    if isinstance(value, bool) or not isinstance(value, (int, Decimal)):
        return False
    _, digits, exponent = Decimal(value).normalize().as_tuple()
    assert isinstance(exponent, int)  # noqa: S101 # JSON has no NaN
    is_zero = digits == (0,)
    return is_zero or (-exponent <= type_.scale and len(digits) + exponent <= type_.precision - type_.scale)


def _is_base64(text: str) -> bool:
    try:
        base64.b64decode(text, validate=True)
    except binascii.Error:
        return False
    return True
