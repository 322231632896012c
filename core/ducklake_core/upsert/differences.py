"""Whether two versions of a row differ, column by column. Pure.

Null equals null and NaN itself; two floats that are equal and not the same (0.0 and -0.0) differ.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ducklake_core.spec.arrays import plain, single

_FALSE = pa.scalar(value=False)


def differ(old: pa.Table, new: pa.Table) -> np.ndarray:
    """Tell of each row whether it has another value in some column."""
    found = np.zeros(old.num_rows, bool)
    for one, other in zip(old.columns, new.columns, strict=True):
        found |= _differ(plain(single(one)), plain(single(other)))
    return found


def _differ(old: pa.Array, new: pa.Array) -> np.ndarray:
    if pa.types.is_nested(old.type) or pa.types.is_interval(old.type):
        return np.asarray([repr(a) != repr(b) for a, b in zip(old.to_pylist(), new.to_pylist(), strict=True)], bool)
    if pa.types.is_floating(old.type):
        old, new = _bits(old), _bits(new)
    either_null = np.asarray(pc.xor(old.is_null(), new.is_null()).to_numpy(zero_copy_only=False))
    unequal = pc.fill_null(pc.not_equal(old, new), _FALSE)
    return np.asarray(either_null | unequal.to_numpy(zero_copy_only=False))


def _bits(array: pa.Array) -> pa.Array:
    whole = {pa.float64(): pa.int64(), pa.float32(): pa.int32(), pa.float16(): pa.int16()}[array.type]
    one_nan = pc.if_else(pc.is_nan(array), pa.scalar(float("nan"), array.type), array)
    return one_nan.view(whole)
