"""Arrow values → PostgreSQL's binary format, a column at a time. Pure; runs where the commit runs.

`copy_decode` has the way back.
A cell is `int32 length + bytes`, NULL is the length -1: the same in COPY (`copy_buffer`) and, after its type, in rows
(`encode_small.py`). https://www.postgresql.org/docs/current/sql-copy.html, section "Binary Format".
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ducklake_core.catalog.postgres.rules import POSTGRES_RULES
from ducklake_core.errors import UnsupportedType
from ducklake_core.model import Column
from ducklake_core.spec.arrays import has_text, plain, single
from ducklake_core.spec.inlined import inlined_type
from ducklake_core.spec.kinds import decimal_parameters
from ducklake_core.spec.temporal_text import parse_timetz
from ducklake_core.spec.text import to_text

_COPY_HEADER = b"PGCOPY\n\xff\r\n\x00" + bytes(8)
_COPY_TRAILER = b"\xff\xff"
_NULL = b"\xff\xff\xff\xff"
_NEGATIVE = np.int16(0x4000)


@dataclass(frozen=True, slots=True)
class PostgresType:
    """A type of PostgreSQL: its name in SQL and its OID (pg_type.dat, fixed for ever)."""

    name: str
    oid: int


_TYPES: Mapping[str, PostgresType] = {
    type_.name: type_
    for type_ in (
        PostgresType("BOOLEAN", 16),
        PostgresType("BYTEA", 17),
        PostgresType("BIGINT", 20),
        PostgresType("SMALLINT", 21),
        PostgresType("INTEGER", 23),
        PostgresType("REAL", 700),
        PostgresType("DOUBLE PRECISION", 701),
        PostgresType("VARCHAR", 1043),
        PostgresType("TIME", 1083),
        PostgresType("INTERVAL", 1186),
        PostgresType("TIME WITH TIME ZONE", 1266),
        PostgresType("NUMERIC", 1700),
        PostgresType("UUID", 2950),
    )
}


@dataclass(frozen=True, slots=True)
class Cells:
    """The cells of one column, back to back. All are `width` bytes, or, where that is 0, end at `ends`."""

    count: int
    data: np.ndarray
    width: int
    ends: np.ndarray | None = None


Encoder: TypeAlias = Callable[[pa.Array], Cells]


def postgres_type(column: Column) -> PostgresType:
    """Return the type of a column in the table of inlined rows."""
    name = inlined_type(column, POSTGRES_RULES)
    return _TYPES["NUMERIC" if name.startswith("DECIMAL") else name]


def encode_column(array: pa.Array | pa.ChunkedArray, column: Column) -> Cells:
    """Return the cells of values of type `arrow_type(column)`."""
    return encoder_of(column)(plain(single(array)))


def encoder_of(column: Column) -> Encoder:
    """Return what makes cells of an array of type `arrow_type(column)` without extension type."""
    encode = _ENCODERS.get(column.type)
    if encode is not None:
        return encode
    parameters = decimal_parameters(column.type)
    if parameters is not None:
        return partial(_numeric_cells, precision=parameters[0], scale=parameters[1])
    return partial(_text_cells, column=column)


def int64_cells(values: np.ndarray) -> Cells:
    """Return the cells of numbers without nulls, such as row ids."""
    return _fixed_cells(values, _INT64, None)


def constant_cells(value: int | None, count: int) -> Cells:
    """Return `count` times the same bigint, or NULL."""
    cell = _NULL if value is None else struct.pack(">iq", 8, value)
    return Cells(count, np.frombuffer(cell * count, np.uint8), len(cell))


def copy_buffer(cells: Sequence[Cells]) -> bytes:
    """Interleave the columns' cells into the bytes of a binary COPY."""
    rows = cells[0].count
    blocks = _adjacent_blocks([constant_bytes(struct.pack(">h", len(cells)), rows), *cells])
    if rows == 0:
        body: pa.Buffer | bytes = b""
    elif len(blocks) == 1:
        body = blocks[0].data.tobytes()
    else:
        body = pc.call_function("binary_join_element_wise", [*map(_binary_array, blocks), _nothing()]).buffers()[2]
    return b"".join((_COPY_HEADER, body, _COPY_TRAILER))


@cache
def _nothing() -> pa.Scalar:  # made when needed: the first value that Arrow makes of Python's imports pandas
    return pa.scalar(b"")


def constant_bytes(piece: bytes, count: int) -> Cells:
    return Cells(count, np.frombuffer(piece * count, np.uint8), len(piece))


def _adjacent_blocks(cells: Sequence[Cells]) -> list[Cells]:
    """Merge neighbours of fixed width into one: Arrow then has fewer pieces to join."""
    blocks: list[Cells] = []
    run: list[Cells] = []
    for one in cells:
        if one.width:
            run.append(one)
            continue
        blocks += [_merged(run)] if run else []
        blocks.append(one)
        run = []
    return [*blocks, _merged(run)] if run else blocks


def _merged(run: Sequence[Cells]) -> Cells:
    if len(run) == 1:
        return run[0]
    count, width = run[0].count, sum(one.width for one in run)
    matrix = np.concatenate([one.data.reshape(count, one.width) for one in run], axis=1)
    return Cells(count, matrix.reshape(-1), width)


def _binary_array(cells: Cells) -> pa.Array:
    offsets = np.zeros(cells.count + 1, np.int32)
    offsets[1:] = np.arange(1, cells.count + 1) * cells.width if cells.ends is None else cells.ends
    return pa.Array.from_buffers(pa.binary(), cells.count, [None, pa.py_buffer(offsets), pa.py_buffer(cells.data)])


# ------------------------------------------------------------------------------------------- encode


def _cell_type(value: str) -> np.dtype:
    return np.dtype([("length", ">i4"), ("value", value)])


_INT16, _INT32, _INT64 = _cell_type(">i2"), _cell_type(">i4"), _cell_type(">i8")
_BOOL, _FLOAT32, _FLOAT64 = _cell_type("u1"), _cell_type(">f4"), _cell_type(">f8")
_UUID = _cell_type("V16")
_INTERVAL = np.dtype([("length", ">i4"), ("microseconds", ">i8"), ("days", ">i4"), ("months", ">i4")])
_TIMETZ = np.dtype([("length", ">i4"), ("microseconds", ">i8"), ("zone", ">i4")])
_ARROW_INTERVAL = np.dtype([("months", "<i4"), ("days", "<i4"), ("nanoseconds", "<i8")])


def _validity(array: pa.Array) -> np.ndarray | None:
    """Return one boolean per row, or None when no row is null."""
    if array.null_count == 0:
        return None
    bits = np.unpackbits(np.frombuffer(array.buffers()[0], np.uint8), bitorder="little")
    return bits[array.offset : array.offset + len(array)].view(bool)


def _values(array: pa.Array, type_: str | np.dtype) -> np.ndarray:
    """Return the values of a fixed-width array; those of nulls are arbitrary."""
    dtype = np.dtype(type_)
    return np.frombuffer(array.buffers()[1], dtype, len(array), array.offset * dtype.itemsize)


def _fixed_cells(values: np.ndarray, dtype: np.dtype, valid: np.ndarray | None) -> Cells:
    cells = np.empty(len(values), dtype)
    cells["length"] = dtype.itemsize - 4
    cells["value"] = values
    return _packed(cells, valid)


def _packed(cells: np.ndarray, valid: np.ndarray | None) -> Cells:
    """Return cells as they are, or, where there are nulls, with these shortened to their length."""
    count, width = len(cells), cells.dtype.itemsize
    data = cells.view(np.uint8)
    if valid is None:
        return Cells(count, data, width)
    cells["length"][~valid] = -1
    keep = np.ones((count, width), bool)
    keep[:, 4:] = valid[:, None]
    return Cells(count, data[keep.reshape(-1)], 0, np.cumsum(np.where(valid, width, 4)))


def _number_encoder(arrow: str, cell: np.dtype) -> Encoder:
    def encode(array: pa.Array) -> Cells:
        return _fixed_cells(_values(array, arrow), cell, _validity(array))

    return encode


def _boolean_cells(array: pa.Array) -> Cells:
    bits = np.unpackbits(np.frombuffer(array.buffers()[1], np.uint8), bitorder="little")
    return _fixed_cells(bits[array.offset : array.offset + len(array)], _BOOL, _validity(array))


def _bytes_cells(array: pa.Array) -> Cells:
    """Return the cells of a string or binary array: its bytes with a length before each value."""
    count = len(array)
    if count == 0:
        return Cells(0, np.empty(0, np.uint8), 0, np.empty(0, np.int64))
    valid = _validity(array)
    offsets = _offsets(array)
    if valid is not None and (offsets[1:] - offsets[:-1])[~valid].any():  # Arrow lets a null have bytes
        array = array.cast(pa.binary()).fill_null(b"")
        offsets = _offsets(array)
    lengths = (offsets[1:] - offsets[:-1]).astype(">i4")
    if valid is not None:
        lengths[~valid] = -1
    ends = offsets[1:] - offsets[0] + np.arange(4, 4 * count + 1, 4)
    data = np.empty(int(ends[-1]), np.uint8)
    is_value = np.ones(len(data), bool)
    positions = np.concatenate((_START, ends[:-1]))[:, None] + _FOUR
    is_value[positions] = False
    data[positions] = lengths.view(np.uint8).reshape(-1, 4)
    if len(data) > 4 * count:
        data[is_value] = np.frombuffer(array.buffers()[2], np.uint8)[offsets[0] : offsets[-1]]
    return Cells(count, data, 0, ends)


def _offsets(array: pa.Array) -> np.ndarray:
    return np.frombuffer(array.buffers()[1], np.int32, len(array) + 1, array.offset * 4)


_FOUR = np.arange(4)
_START = np.zeros(1, np.int64)


def _text_cells(array: pa.Array, column: Column) -> Cells:
    text = to_text(array, column)
    if column.is_nested and has_text(text, "\x00"):
        raise nul_in_text(column)
    return _bytes_cells(text)


def nul_in_text(column: Column) -> UnsupportedType:
    return UnsupportedType(
        f"column '{column.name}' holds a NUL character inside a {column.type}: PostgreSQL cannot store that text",
        column=column.name,
    )


_bigint_cells = _number_encoder("<i8", _INT64)


def _time_cells(array: pa.Array) -> Cells:
    return _bigint_cells(array.view(pa.int64()))


def _uuid_cells(array: pa.Array) -> Cells:
    return _fixed_cells(_values(array, "V16"), _UUID, _validity(array))


def _interval_cells(array: pa.Array) -> Cells:
    values = _values(array, _ARROW_INTERVAL)
    valid = _validity(array)
    nanoseconds = values["nanoseconds"] if valid is None else np.where(valid, values["nanoseconds"], 0)
    if np.any(nanoseconds % 1000):
        raise UnsupportedType("an interval finer than a microsecond cannot be stored in DuckLake")
    cells = np.empty(len(values), _INTERVAL)
    cells["length"], cells["days"], cells["months"] = 16, values["days"], values["months"]
    cells["microseconds"] = nanoseconds // 1000
    return _packed(cells, valid)


def _timetz_cells(array: pa.Array) -> Cells:
    cells = np.empty(len(array), _TIMETZ)
    cells["length"] = 12
    times = [parse_timetz(text) if text is not None else (0, 0) for text in array.to_pylist()]
    cells["microseconds"] = [microseconds for microseconds, _ in times]
    cells["zone"] = [-offset for _, offset in times]  # PostgreSQL counts westward
    return _packed(cells, _validity(array))


class _NumericLayout(NamedTuple):
    """How decimals of one type are split: digits that complete the last group, groups, and an empty cell."""

    padding: int
    group_count: int
    cell: np.ndarray
    powers: np.ndarray


@lru_cache(maxsize=1024)
def _numeric_layout(precision: int, scale: int) -> _NumericLayout:
    group_count = (precision - scale + 3) // 4 + (scale + 3) // 4
    dtype = np.dtype([("length", ">i4"), ("head", ">i2", 4), ("groups", ">i2", group_count)])
    cell = np.zeros(1, dtype)
    cell["length"] = dtype.itemsize - 4
    cell["head"] = (group_count, (precision - scale + 3) // 4 - 1, 0, scale)
    return _NumericLayout(-scale % 4, group_count, cell, _powers(group_count))


def _powers(group_count: int) -> np.ndarray:
    fitting = min(group_count, 5)  # 10000 ** 4 is the largest that an int64 holds
    return np.array([10000**power for power in range(fitting - 1, -1, -1)], np.int64)


def _numeric_cells(array: pa.Array, precision: int, scale: int) -> Cells:
    """Return cells of fixed width: digits in base 10000 around the point; PostgreSQL strips the zeros."""
    return _packed(unpacked_numerics(array, precision, scale), _validity(array))


def unpacked_numerics(array: pa.Array, precision: int, scale: int) -> np.ndarray:
    """Return the cells before nulls are shortened."""
    layout = _numeric_layout(precision, scale)
    digits = _small_groups if precision + layout.padding <= 18 else _large_groups
    negative, groups = digits(array, layout)
    cells = layout.cell.repeat(len(array))
    cells["head"][:, 2] = negative * _NEGATIVE
    cells["groups"] = groups
    return cells


def _small_groups(array: pa.Array, layout: _NumericLayout) -> tuple[np.ndarray, np.ndarray]:
    """Split decimals whose unscaled value fits an int64, the lower half of Arrow's 128 bits."""
    values = np.frombuffer(array.buffers()[1], "<i8")[2 * array.offset : 2 * (array.offset + len(array)) : 2]
    shifted = np.abs(values) * 10**layout.padding
    return values < 0, shifted[:, None] // layout.powers % 10000


def _large_groups(array: pa.Array, layout: _NumericLayout) -> tuple[np.ndarray, np.ndarray]:
    """Split decimals of any size, by way of their digits as text."""
    group_count = layout.group_count
    count, width = len(array), group_count * 4 - layout.padding
    unscaled = pa.Array.from_buffers(pa.decimal128(38, 0), count, array.buffers(), offset=array.offset).fill_null(0)
    text = pc.utf8_lpad(pc.abs(unscaled).cast(pa.string()), width, "0")
    digits = np.zeros((count, group_count * 4), np.int16)
    digits[:, :width] = np.frombuffer(text.buffers()[2], np.uint8, count * width).reshape(count, width) - ord("0")
    negative = pc.less(unscaled, pa.scalar(0, unscaled.type)).to_numpy(zero_copy_only=False)
    return negative, digits.reshape(count, group_count, 4) @ np.array([1000, 100, 10, 1], np.int16)


_ENCODERS: Mapping[str, Encoder] = {
    "boolean": _boolean_cells,
    "int8": _number_encoder("<i1", _INT16),
    "int16": _number_encoder("<i2", _INT16),
    "int32": _number_encoder("<i4", _INT32),
    "int64": _bigint_cells,
    "uint8": _number_encoder("<u1", _INT32),
    "uint16": _number_encoder("<u2", _INT32),
    "uint32": _number_encoder("<u4", _INT64),
    "float32": _number_encoder("<f4", _FLOAT32),
    "float64": _number_encoder("<f8", _FLOAT64),
    "time": _time_cells,
    "timetz": _timetz_cells,
    "interval": _interval_cells,
    "varchar": _bytes_cells,
    "json": _bytes_cells,
    "blob": _bytes_cells,
    "uuid": _uuid_cells,
}


# ------------------------------------------------------------------------------------------- the way back


def select_cast(column: Column) -> str | None:
    """Return the type to which a SELECT casts the column before `copy_decode` reads it, None for no cast.

    As text, since their binary forms are not Arrow's: digits in base 10000, an offset. Only where that text is the same
    whatever the settings of the server are: that of an interval is not.
    """
    name = postgres_type(column).name
    return "text" if name in ("NUMERIC", "TIME WITH TIME ZONE") else None
