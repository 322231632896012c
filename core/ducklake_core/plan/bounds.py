"""The smallest and the largest value of a leaf column, as texts of the catalog, and how two such texts compare. Pure.

As the extension does: numbers and moments compare by value with NaN as the largest, everything else by its text, which
for blobs, intervals and times with an offset is not the order of the values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ducklake_core.spec import temporal_text as temporal
from ducklake_core.spec.arrays import plain
from ducklake_core.spec.scalar_text import parse_boolean, scalar_to_text, text_of
from ducklake_core.spec.types import NUMPY_TYPES, decimal_parameters

BoundTexts = tuple[str | None, str | None]
UNKNOWN: BoundTexts = (None, None)
_NANOSECONDS = 10**9  # per second


def find_bounds(values: pa.Array, type_: str) -> BoundTexts:
    """Return the texts of the smallest and the largest of some values, of which at least one is not null."""
    find = _FINDERS.get(type_)
    if find is not None:
        return find(values, type_)
    return _decimal_bounds(values, type_) if type_.startswith("decimal") else _text_bounds(values, type_)


def order_of(type_: str) -> Callable[[str], Any]:  # Any: any key that can be compared with its like
    """Return what makes a comparable key of a bound's text; it raises ValueError when that is no such value."""
    return _decimal_key if type_.startswith("decimal") else _KEYS.get(type_, _text_key)


# --------------------------------------------------------------------------------------------- find


def _present(array: pa.Array, dtype: str) -> np.ndarray:
    """Return the values that are not null, of an array of fixed width."""
    width = np.dtype(dtype).itemsize
    values = np.frombuffer(array.buffers()[1], dtype, len(array), array.offset * width)
    return values[array.is_valid().to_numpy(zero_copy_only=False)] if array.null_count else values


def _extremes(values: np.ndarray) -> tuple[int, int]:
    return int(values.min()), int(values.max())


def _number_bounds(array: pa.Array, type_: str) -> BoundTexts:
    low, high = _extremes(_present(array, NUMPY_TYPES[type_]))
    text = text_of(type_)
    return text(low), text(high)


def _float_bounds(array: pa.Array, type_: str) -> BoundTexts:
    values = _present(array, NUMPY_TYPES[type_])
    low, high = np.fmin.reduce(values), values.max()
    if low == 0 or high == 0:  # 0.0 and -0.0 are equal: the first one counts
        zero = values[values == 0][0]
        low, high = (zero if bound == 0 else bound for bound in (low, high))
    text = text_of(type_)
    return text(low.item()), text(high.item())


def _boolean_bounds(array: pa.Array, _: str) -> BoundTexts:
    return ("false" if array.false_count else "true"), ("true" if array.true_count else "false")


def _decimal_bounds(array: pa.Array, type_: str) -> BoundTexts:
    precision, _ = decimal_parameters(type_) or (0, 0)
    if precision > 18:
        return _extreme_texts(array, type_)
    # The unscaled value fits the lower half of Arrow's 128 bits.
    halves = np.frombuffer(array.buffers()[1], "<i8")[2 * array.offset : 2 * (array.offset + len(array)) : 2]
    values = halves[array.is_valid().to_numpy(zero_copy_only=False)] if array.null_count else halves
    low, high = _extremes(values)
    text = text_of(type_)
    return text(low), text(high)


def _extreme_texts(array: pa.Array, type_: str) -> BoundTexts:
    extremes = pc.min_max(array)
    low, high = scalar_to_text(pa.array([extremes["min"], extremes["max"]], array.type), type_).to_pylist()
    return low, high


def _text_bounds(array: pa.Array, type_: str) -> BoundTexts:
    extremes = pc.min_max(scalar_to_text(array, type_))
    return extremes["min"].as_py(), extremes["max"].as_py()


def _string_bounds(array: pa.Array, _: str) -> BoundTexts:
    return without_nul(*_string_extremes(plain(array)))


def without_nul(low: str, high: str) -> BoundTexts:
    """Return the bounds of strings; one that contains NUL cannot be a bound and is unknown.

    When both are, the part of the smaller before its NUL stands for it: two unknown bounds look like those of a column
    of nulls, and the extension would take the next rows' bounds for all.
    """
    if "\x00" in high:
        return low.partition("\x00")[0] if "\x00" in low else low, None
    return None if "\x00" in low else low, high


def _string_extremes(array: pa.Array) -> tuple[str, str]:
    extremes = pc.min_max(array)
    return extremes["min"].as_py(), extremes["max"].as_py()


_FINDERS: Mapping[str, Callable[[pa.Array, str], BoundTexts]] = {
    "boolean": _boolean_bounds,
    **dict.fromkeys(NUMPY_TYPES, _number_bounds),
    **dict.fromkeys(("int128", "uint128"), _extreme_texts),
    **dict.fromkeys(("float32", "float64"), _float_bounds),
    **dict.fromkeys(("varchar", "json"), _string_bounds),
}


# ------------------------------------------------------------------------------------------ compare


def _text_key(text: str) -> str:
    return text  # code points compare as their UTF-8 bytes do


def _float_key(text: str) -> tuple[bool, float]:
    value = float(text)
    return (True, 0.0) if math.isnan(value) else (False, value)


@lru_cache(maxsize=1024)  # the bound of a table meets that of every append
def _moment_key(text: str) -> float:
    value = temporal.parse_timestamp(text, _NANOSECONDS)
    return math.copysign(math.inf, value) if abs(value) == temporal.INFINITE_TICKS else value


def _decimal_key(text: str) -> Decimal:
    try:
        return Decimal(text)
    except ArithmeticError:
        raise ValueError(text) from None


_KEYS: Mapping[str, Callable[[str], Any]] = {  # Any: see order_of
    "boolean": parse_boolean,
    **dict.fromkeys((f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64, 128)), int),
    "float32": _float_key,
    "float64": _float_key,
    "date": temporal.parse_date,
    **dict.fromkeys(
        ("timestamp", "timestamp_s", "timestamp_ms", "timestamp_ns", "timestamptz"),
        _moment_key,
    ),
    **dict.fromkeys(("time", "time_ns"), lambda text: temporal.parse_time(text, _NANOSECONDS)),
}
