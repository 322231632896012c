"""The order of values as statistics have it, of all forms in which a value comes: text, item and Arrow scalar. Pure.

Keys of one type compare with each other, whatever form they were made of. As the extension does: numbers and moments
compare by value with NaN as the largest, everything else by its text, which for blobs, intervals and times with an
offset is not the order of the values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import lru_cache, partial
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa

from ducklake_core.spec import temporal_text as temporal
from ducklake_core.spec.kinds import Kind, kind_of
from ducklake_core.spec.scalar_text import parse_boolean, text_of

Key: TypeAlias = Any  # Any: an int, a str, a Decimal, a pair for floats; comparable with its like


def key_of_text(type_: str) -> Callable[[str], Key]:
    """Return what makes a key of a bound's text; it raises ValueError when that is no value of the type."""
    return _order_of(type_).of_text


@lru_cache(maxsize=256)
def key_of_item(type_: str) -> Callable[[Any], Key]:  # Any: a value of the type
    """Return what makes a key of a value as `small_rows` has it: ticks of a moment, bytes of a text."""
    order = _order_of(type_)
    if order.of_item is not None:
        return order.of_item
    text, key = text_of(type_), order.of_text
    return lambda item: key(text(item))


def key_of_scalar(value: pa.Scalar, type_: str) -> Key:
    """Return the key of a literal that is compared with a field of a type; of a uuid it is that of its bytes."""
    if pa.types.is_floating(value.type):
        return float_key(value.as_py())
    if pa.types.is_timestamp(value.type):
        return _moment_key(value.value, _NANOSECONDS[value.type.unit])
    if pa.types.is_time(value.type):
        return value.value * _NANOSECONDS[value.type.unit]
    if pa.types.is_date(value.type):
        return value.value
    return _uuid_text(value.as_py()) if kind_of(type_) is Kind.UUID else value.as_py()


def float_key(value: float) -> tuple[bool, float]:
    """Return the key of a float: NaN is larger than all others, and equals itself."""
    return (True, 0.0) if math.isnan(value) else (False, value)


# ------------------------------------------------------------------------------------------ by type


class _Order(NamedTuple):
    """How keys are made of the texts of a type and of its items; `of_item` None: by way of their texts."""

    of_text: Callable[[str], Key]
    of_item: Callable[[Any], Key] | None = None  # Any: see key_of_item


def _order_of(type_: str) -> _Order:
    return _ORDERS.get(type_) or (_DECIMAL if kind_of(type_) is Kind.DECIMAL else _BY_TEXT)


def _float_text_key(text: str) -> tuple[bool, float]:
    return float_key(float(text))


def _decimal_text_key(text: str) -> Decimal:
    try:
        return Decimal(text)
    except ArithmeticError:
        raise ValueError(text) from None


def _moment_key(ticks: int, nanoseconds: int) -> float:
    """Return nanoseconds since 1970; infinity is beyond all of them, in every unit."""
    return math.copysign(math.inf, ticks) if abs(ticks) == temporal.INFINITE_TICKS else ticks * nanoseconds


@lru_cache(maxsize=1024)  # the bound of a table meets that of every append
def _moment_text_key(text: str) -> float:
    return _moment_key(temporal.parse_timestamp(text, 10**9), 1)


def _time_text_key(text: str) -> int:
    return temporal.parse_time(text, 10**9)


def _uuid_text(value: bytes) -> str:
    digits = value.hex()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


_NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
_BY_TEXT = _Order(str)  # code points compare as their UTF-8 bytes do
_DECIMAL = _Order(_decimal_text_key)
_ORDERS: Mapping[str, _Order] = {
    "boolean": _Order(parse_boolean, int),
    **dict.fromkeys((f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)), _Order(int, int)),
    **dict.fromkeys(("int128", "uint128"), _Order(int)),
    "float32": _Order(_float_text_key),  # whose shortest text is another float64 than its value
    "float64": _Order(_float_text_key, float_key),
    "date": _Order(temporal.parse_date, int),
    "time": _Order(_time_text_key, lambda ticks: ticks * 1000),
    "time_ns": _Order(_time_text_key, int),
    "timestamp_s": _Order(_moment_text_key, partial(_moment_key, nanoseconds=10**9)),
    "timestamp_ms": _Order(_moment_text_key, partial(_moment_key, nanoseconds=10**6)),
    **dict.fromkeys(("timestamp", "timestamptz"), _Order(_moment_text_key, partial(_moment_key, nanoseconds=1000))),
    "timestamp_ns": _Order(_moment_text_key, partial(_moment_key, nanoseconds=1)),
    **dict.fromkeys(("varchar", "json"), _Order(str, bytes.decode)),
}
