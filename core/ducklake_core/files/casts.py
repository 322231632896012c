"""Values as Parquet files hold them → values as the table has them: promotions and other writers' habits (format §3.4).

Pure; runs on driver and executors. Scalars only; nested nodes are assembled in `field_match`. The common case, a file
that has the table's own type, copies nothing. What cannot be cast raises Arrow's errors: the reader names the file.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ducklake_core.model import Column
from ducklake_core.spec.arrays import plain, validity_of
from ducklake_core.spec.temporal_text import INFINITE_DAYS, INFINITE_TICKS, time_to_text
from ducklake_core.spec.text import from_text
from ducklake_core.spec.types import arrow_type

_TICKS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_TEXTS = frozenset({"varchar", "json", "blob", "timetz", "geometry"})
_INTERVAL = np.dtype([("months", "<i4"), ("days", "<i4"), ("nanoseconds", "<i8")])  # Arrow's layout


def cast_values(array: pa.Array, column: Column) -> pa.Array:
    """Return the values in `arrow_type(column)`."""
    target = arrow_type(column)
    if array.type == target:
        return array
    if pa.types.is_dictionary(array.type):
        return cast_values(array.dictionary_decode(), column)
    array = plain(array)
    if _is_text(array.type) and column.type not in _TEXTS:
        return from_text(array.cast(pa.string()), column)
    return _cast_plain(array, column, target)


def _cast_plain(array: pa.Array, column: Column, target: pa.DataType) -> pa.Array:
    if column.type == "interval":
        return _interval(array)
    if column.type == "timetz":
        return _time_in_utc(array)
    if pa.types.is_timestamp(target):
        return _timestamp(array, target)
    if isinstance(target, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(target, array.cast(target.storage_type))
    # Finer times are cut to the column's unit, as the reference does; every other loss is an error.
    return array.cast(target, safe=not pa.types.is_time(target))


def _is_text(type_: pa.DataType) -> bool:
    return bool(pa.types.is_string(type_) or pa.types.is_large_string(type_) or pa.types.is_string_view(type_))


def _time_in_utc(array: pa.Array) -> pa.Array:
    """Read a timetz: our files have its text, the reference's a time in UTC."""
    if _is_text(array.type):
        return array.cast(pa.string())
    return pc.binary_join_element_wise(time_to_text(array.cast(pa.time64("us"), safe=False)), "+00", "")


def _interval(array: pa.Array) -> pa.Array:
    """Read Parquet's INTERVAL: three little-endian numbers, of months, days and milliseconds."""
    array = pa.concat_arrays([array.cast(pa.binary(12))])
    parts = np.frombuffer(array.buffers()[1] or b"", "<u4")[: 3 * len(array)].reshape(-1, 3)
    values = np.empty(len(array), _INTERVAL)
    values["months"], values["days"] = parts[:, 0].view("<i4"), parts[:, 1].view("<i4")
    values["nanoseconds"] = parts[:, 2].astype(np.int64) * 1_000_000
    buffers = [array.buffers()[0], pa.py_buffer(values)]
    return pa.Array.from_buffers(pa.month_day_nano_interval(), len(array), buffers, array.null_count)


def _timestamp(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Change the unit, but keep the infinities, which are the same number in every unit; zones are all UTC."""
    if pa.types.is_date(array.type):
        ticks, infinite = array.cast(pa.date32()).view(pa.int32()).cast(pa.int64()), INFINITE_DAYS
        multiply, divide = 86_400 * _TICKS[target.unit], 1
    elif pa.types.is_timestamp(array.type):
        ticks, infinite = array.view(pa.int64()), INFINITE_TICKS
        multiply, divide = _TICKS[target.unit], _TICKS[array.type.unit]
    else:
        return array.cast(target)
    common = min(multiply, divide)
    values = ticks.fill_null(0).to_numpy()
    is_infinite = np.abs(values) == infinite
    finite = np.where(is_infinite, 0, values)
    if divide > common:
        scaled = _coarser(finite, divide // common, rounds=array.type.unit != "ns")
    else:
        scaled = _finer(finite, multiply // common)
    scaled = np.where(is_infinite, np.sign(values) * INFINITE_TICKS, scaled)
    return pa.array(scaled, mask=~validity_of(ticks)).view(target)


def _finer(ticks: np.ndarray, multiply: int) -> np.ndarray:
    if multiply > 1 and len(ticks) and np.abs(ticks).max() > INFINITE_TICKS // multiply:
        raise pa.ArrowInvalid("a time is beyond the range of the column's unit")
    return ticks * multiply


def _coarser(ticks: np.ndarray, divide: int, *, rounds: bool) -> np.ndarray:
    """Return ticks of a unit that is so much coarser, as the reference has them, which allows this in added files.

    It cuts nanoseconds toward 1970, and rounds other units to the nearest, from the middle away from 1970.
    """
    size, sign = np.abs(ticks), np.sign(ticks)
    return np.asarray(sign * (size // divide + rounds * (size % divide >= divide // 2)))
