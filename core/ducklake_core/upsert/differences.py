"""Whether two versions of a row differ, column by column, and which of many are the same. Pure.

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
        if found.all():
            break
        found |= _differ(plain(single(one)), plain(single(other)))
    return found


def row_numbers(rows: pa.Table) -> np.ndarray:
    """Return a number for each row: that of the first one which has the same values."""
    numbers = np.zeros(rows.num_rows, np.int64)
    for column in rows.columns:
        codes = _codes(plain(single(column)))
        numbers = np.unique(numbers * (codes.max(initial=0) + 1) + codes, return_inverse=True)[1]
    _, firsts, numbers = np.unique(numbers, return_index=True, return_inverse=True)
    return np.asarray(firsts[numbers])


def _codes(array: pa.Array) -> np.ndarray:
    """Return integers that are equal where values are."""
    if _has_no_order(array.type):
        seen: dict[str, int] = {}
        return np.asarray([seen.setdefault(text, len(seen)) for text in _texts(array)], np.int64)
    array = _bits(array) if pa.types.is_floating(array.type) else array
    return np.asarray(array.dictionary_encode(null_encoding="encode").indices.to_numpy(), np.int64)


def _has_no_order(type_: pa.DataType) -> bool:
    return bool(pa.types.is_nested(type_) or pa.types.is_interval(type_))


def _differ(old: pa.Array, new: pa.Array) -> np.ndarray:
    if _has_no_order(old.type):
        return np.asarray([a != b for a, b in zip(_texts(old), _texts(new), strict=True)], bool)
    if pa.types.is_floating(old.type):
        old, new = _bits(old), _bits(new)
    if not old.null_count and not new.null_count:
        return np.asarray(pc.not_equal(old, new).to_numpy(zero_copy_only=False))
    either_null = np.asarray(pc.xor(old.is_null(), new.is_null()).to_numpy(zero_copy_only=False))
    unequal = pc.fill_null(pc.not_equal(old, new), _FALSE)
    return np.asarray(either_null | unequal.to_numpy(zero_copy_only=False))


def _texts(array: pa.Array) -> list[str]:
    """Return texts that are equal where values are; times as numbers, as Python's types do not hold them all."""
    return [repr(value) for value in array.view(_numbered(array.type)).to_pylist()]


def _numbered(type_: pa.DataType) -> pa.DataType:
    """Return a type with integers in the place of dates and times, of the same bytes."""
    if pa.types.is_map(type_):
        return pa.map_(_numbered(type_.key_type), _numbered(type_.item_type))
    if pa.types.is_list(type_):
        return pa.list_(_numbered(type_.value_type))
    if pa.types.is_struct(type_):
        return pa.struct([field.with_type(_numbered(field.type)) for field in type_])
    if pa.types.is_temporal(type_) and not pa.types.is_interval(type_):
        return pa.int32() if type_.bit_width == 32 else pa.int64()
    return type_


def _bits(array: pa.Array) -> pa.Array:
    whole = {pa.float64(): pa.int64(), pa.float32(): pa.int32(), pa.float16(): pa.int16()}[array.type]
    one_nan = pc.if_else(pc.is_nan(array), pa.scalar(float("nan"), array.type), array)
    return one_nan.view(whole)
