"""The smallest and the largest value of a leaf of inlined rows, as texts of the catalog. Pure.

What is smaller is said in `order`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ducklake_core.spec.arrays import plain
from ducklake_core.spec.kinds import decimal_parameters
from ducklake_core.spec.scalar_text import scalar_to_text, text_of
from ducklake_core.spec.types import NUMPY_TYPES

BoundTexts = tuple[str | None, str | None]
UNKNOWN: BoundTexts = (None, None)


def find_bounds(values: pa.Array, type_: str) -> BoundTexts:
    """Return the texts of the smallest and the largest of some values, of which at least one is not null."""
    find = _FINDERS.get(type_)
    if find is not None:
        return find(values, type_)
    decimal = decimal_parameters(type_)
    if decimal is None:
        return _text_bounds(values, type_)
    return _decimal_bounds(values, type_) if decimal.fits_int64 else _extreme_texts(values, type_)


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
    """Look at the lower half of Arrow's 128 bits, which the unscaled values fit."""
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
