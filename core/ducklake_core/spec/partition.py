"""Partition transforms: their SQL, the types they take, and the texts of their values (format §12).

Pure; runs everywhere. Calendar transforms give parts (`11` for November), not ordinals; timestamptz is taken in UTC.
Values of `bucket` differ from Iceberg's for unsigned and 128-bit integers, wide decimals and uuid: they hash the text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import mmh3
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ducklake_core.errors import InvalidInput
from ducklake_core.model import Column
from ducklake_core.spec.arrays import plain, single, validity_of
from ducklake_core.spec.kinds import Kind, decimal_parameters
from ducklake_core.spec.names import fold
from ducklake_core.spec.temporal_text import INFINITE_DAYS, INFINITE_TICKS, parse_time
from ducklake_core.spec.text import to_text

MAX_BUCKETS = 2**31 - 1
DATE_PARTS = ("year", "month", "day")
CALENDAR_PARTS = (*DATE_PARTS, "hour")
_NAME = r'"(?:[^"]|"")+"|[A-Za-z_][A-Za-z0-9_$]*'
_IDENTITY = re.compile(rf"\s*(?P<name>{_NAME})\s*")
_CALENDAR = re.compile(rf"\s*(?P<part>year|month|day|hour)\s*\(\s*(?P<name>{_NAME})\s*\)\s*", re.IGNORECASE)
_DATE = re.compile(rf"\s*date\s*\(\s*(?P<name>{_NAME})\s*\)\s*", re.IGNORECASE)
_BUCKET = re.compile(rf"\s*bucket\s*\(\s*(?P<count>\d+)\s*,\s*(?P<name>{_NAME})\s*\)\s*", re.IGNORECASE)

_DATED = frozenset({"date", "timestamp", "timestamp_s", "timestamp_ms", "timestamp_ns", "timestamptz"})
_WITH_HOUR = _DATED | {"time", "time_ns", "timetz"}
_NO_IDENTITY = frozenset({"geometry", "variant", "unknown"})
# A wrong bucket loses rows: none for types whose hash the reference does not show (time_ns), or hangs on its exact
# spelling of nested values.
_NO_BUCKET = _NO_IDENTITY | {"time_ns", "struct", "list", "map"}
_HASHED_AS_LONG = _DATED | {"boolean", "int8", "int16", "int32", "int64", "time"}
_LARGEST_OFFSET = 16 * 3600 - 1  # seconds
_TICKS_PER_HOUR = {"s": 3600, "ms": 3_600_000, "us": 3_600_000_000, "ns": 3_600_000_000_000}


def parse_partition_expressions(texts: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Return each column's name and transform, each pair once.

    `date(ts)` stands for `year(ts)`, `month(ts)` and `day(ts)`.
    """
    keys: dict[tuple[str, str], tuple[str, str]] = {}  # by the name in lower case: `TS` is `ts`
    for text in texts:
        for name, transform in _parse_keys(text):
            keys.setdefault((fold(name), transform), (name, transform))
    return tuple(keys.values())


def _parse_keys(text: str) -> list[tuple[str, str]]:
    if match := _DATE.fullmatch(text):
        return [(_unquoted(match["name"]), part) for part in DATE_PARTS]
    return [parse_partition_expression(text)]


def parse_partition_expression(text: str) -> tuple[str, str]:
    """Return the column's name and the transform of `id`, `"my id"`, `day(ts)` or `bucket(16, id)`."""
    if match := _BUCKET.fullmatch(text):
        count = int(match["count"])
        if not 1 <= count <= MAX_BUCKETS:
            raise InvalidInput(f"cannot partition by '{text}': the bucket count must be 1 to {MAX_BUCKETS}")
        return _unquoted(match["name"]), f"bucket({count})"
    if match := _CALENDAR.fullmatch(text):
        return _unquoted(match["name"]), match["part"].lower()
    if match := _IDENTITY.fullmatch(text):
        return _unquoted(match["name"]), "identity"
    raise InvalidInput(
        f"cannot partition by '{text}': use a column, date(column), year(…), month(…), day(…), hour(…) or"
        " bucket(N, column)",
        expression=text,
    )


def missing_parts(keys: Sequence[tuple[Column, str]]) -> dict[tuple[str, str], tuple[str, ...]]:
    """Return the keys (column, part of the calendar) that repeat, and the coarser parts that they lack.

    `day(ts)` is the day of the month: without year and month, rows of many months share a partition. The hour of a
    column without dates repeats nothing.
    """
    there = {(column.column_id, transform) for column, transform in keys}
    missing = {
        (column.name, transform): tuple(
            part for part in _coarser_parts(transform) if (column.column_id, part) not in there
        )
        for column, transform in keys
        if column.type in _DATED
    }
    return {key: parts for key, parts in missing.items() if parts}


def _coarser_parts(transform: str) -> tuple[str, ...]:
    return CALENDAR_PARTS[: CALENDAR_PARTS.index(transform)] if transform in CALENDAR_PARTS else ()


def check_transform(column: Column, transform: str) -> None:
    """Raise InvalidInput when the reference could not write rows of a table that is partitioned so."""
    if transform in ("year", "month", "day"):
        valid = column.type in _DATED
    elif transform == "hour":
        valid = column.type in _WITH_HOUR
    elif transform == "identity":
        valid = column.type not in _NO_IDENTITY
    else:
        valid = transform.startswith("bucket(") and column.type not in _NO_BUCKET
    if not valid:
        raise InvalidInput(
            f"cannot partition by '{transform}' of column '{column.name}': its type is '{column.type}'",
            column=column.name,
            transform=transform,
        )


def partition_values(values: pa.Array | pa.ChunkedArray, column: Column, transform: str) -> pa.Array:
    """Return the partition value of each row as text; null stays null, and so does a part of an infinite time."""
    check_transform(column, transform)
    array = single(values)
    if transform == "identity":
        return to_text(_without_negative_zero(array), column)
    bucket = re.fullmatch(r"bucket\((\d+)\)", transform)
    if bucket is not None:
        return _buckets(array, column, int(bucket.group(1))).cast(pa.string())
    return _calendar_part(array, column, transform).cast(pa.string())


def murmur3_of_longs(values: np.ndarray) -> np.ndarray:
    """Return Murmur3 (x86, 32 bit, seed 0) of each 64-bit integer's little-endian bytes."""
    words = np.ascontiguousarray(values, "<i8").view("<u4").reshape(-1, 2)
    state = np.zeros(len(words), np.uint32)
    for index in (0, 1):
        state ^= _rotated(words[:, index] * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)
        state = _rotated(state, 13) * np.uint32(5) + np.uint32(0xE6546B64)
    state ^= np.uint32(8)  # the length in bytes
    state = (state ^ (state >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    state = (state ^ (state >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return state ^ (state >> np.uint32(16))


def _rotated(words: np.ndarray, bits: int) -> np.ndarray:
    return (words << np.uint32(bits)) | (words >> np.uint32(32 - bits))


def _buckets(array: pa.Array, column: Column, count: int) -> pa.Array:
    longs = _as_longs(array, column)
    if longs is not None:
        hashes = murmur3_of_longs(longs)
    else:
        hashes = np.array([mmh3.hash(value, 0, signed=False) for value in _as_bytes(array, column)], np.uint32)
    buckets = (hashes & np.uint32(0x7FFFFFFF)) % np.uint32(count)
    return pa.array(buckets.astype(np.int64), mask=~validity_of(array))


def _as_longs(array: pa.Array, column: Column) -> np.ndarray | None:
    """Return the 64-bit integers that are hashed, with anything where there is null; None for types hashed as bytes."""
    decimal = decimal_parameters(column.type)
    if column.kind is Kind.FLOAT:
        return np.asarray(_doubles(array).view(np.int64))
    if decimal is not None and decimal.fits_int64:
        unscaled = array.cast(pa.decimal128(38, decimal.scale)).fill_null(0)
        return np.frombuffer(pa.concat_arrays([unscaled]).buffers()[1] or b"", "<i8")[::2][: len(array)]
    if column.kind is Kind.TIMETZ:
        return np.array([_timetz_bits(text) for text in array.fill_null("00:00:00+00").to_pylist()], np.int64)
    if column.type not in _HASHED_AS_LONG:
        return None
    raw = array if column.kind in (Kind.BOOLEAN, Kind.INTEGER) else _ticks(array)
    return np.asarray(raw.cast(pa.int64()).fill_null(0).to_numpy())


def _timetz_bits(text: str) -> int:
    """Return DuckDB's 64 bits of a time with offset: microseconds, then 24 bits that fall with the offset."""
    clock, sign, zone = re.split(r"([+-])", text, maxsplit=1)
    seconds = sum(int(part) * unit for part, unit in zip(zone.split(":"), (3600, 60, 1), strict=False))
    return parse_time(clock, 1_000_000) << 24 | (_LARGEST_OFFSET - (seconds if sign == "+" else -seconds))


def _doubles(array: pa.Array) -> np.ndarray:
    """Return doubles with one zero and one NaN."""
    values = array.cast(pa.float64()).fill_null(0.0).to_numpy() + 0.0
    return np.where(np.isnan(values), np.nan, values)


def _as_bytes(array: pa.Array, column: Column) -> list[bytes]:
    hashed = plain(array) if column.kind in (Kind.TEXT, Kind.BLOB) else to_text(array, column)
    return list(hashed.cast(pa.binary()).fill_null(b"").to_pylist())


def _ticks(array: pa.Array) -> pa.Array:
    """Return days or ticks of a temporal array as integers."""
    return array.view(pa.int32() if pa.types.is_date32(array.type) else pa.int64())


def _without_negative_zero(array: pa.Array) -> pa.Array:
    return pc.add(array, pa.scalar(0.0, array.type)) if pa.types.is_floating(array.type) else array


def _calendar_part(array: pa.Array, column: Column, transform: str) -> pa.Array:
    if column.kind is Kind.TIMETZ:
        return pc.cast(pc.utf8_slice_codeunits(array, 0, 2), pa.int64())
    ticks = _ticks(array).cast(pa.int64())
    if pa.types.is_time(array.type):
        return pc.divide(ticks, _TICKS_PER_HOUR[array.type.unit])  # 24:00:00 has hour 24
    infinite = INFINITE_DAYS if column.kind is Kind.DATE else INFINITE_TICKS
    finite = pc.if_else(pc.equal(pc.abs(ticks), infinite), None, ticks)
    hours = _hours(finite.fill_null(0).to_numpy(), "d" if column.kind is Kind.DATE else array.type.unit)
    parts = hours % 24 if transform == "hour" else _date_part(hours // 24, transform)
    if column.kind is Kind.TIMESTAMPTZ and transform == "year":
        parts = np.where(parts <= 0, 1 - parts, parts)  # the reference counts years before Christ from 1 upwards
    return pa.array(parts, mask=~validity_of(finite))


def _hours(ticks: np.ndarray, unit: str) -> np.ndarray:
    """Return the hours since 1970, rounded down."""
    if unit == "d":
        return ticks * 24
    if unit == "ns":  # the reference drops what is finer than a microsecond, toward 1970
        ticks, unit = np.sign(ticks) * (np.abs(ticks) // 1000), "us"
    return ticks // _TICKS_PER_HOUR[unit]


def _date_part(days: np.ndarray, transform: str) -> np.ndarray:
    dates = days.astype("datetime64[D]")  # numpy, because Arrow's years end at 32767
    months = dates.astype("datetime64[M]")
    if transform == "day":
        return np.asarray((dates - months).astype(np.int64) + 1)
    if transform == "month":
        return months.astype(np.int64) % 12 + 1
    return months.astype("datetime64[Y]").astype(np.int64) + 1970


def _unquoted(name: str) -> str:
    return name[1:-1].replace('""', '"') if name.startswith('"') else name
