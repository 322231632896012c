"""Twin of `encode` for few rows: one array parameter of a table's row type, in PostgreSQL's binary format. Pure.

A row is `int32 size, int32 fields`, a cell of it `int32 type, int32 length, bytes`; the length of NULL is -1. What
follows the type is what `encode.py` makes of any number of rows: the server gets the same values.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from ducklake_core.catalog.postgres.encode import encoder_of, nul_in_text, postgres_type, unpacked_numerics
from ducklake_core.model import Column
from ducklake_core.spec.kinds import decimal_parameters
from ducklake_core.spec.memo import per_object
from ducklake_core.spec.small_rows import SmallColumn, validity
from ducklake_core.spec.small_text import small_utf8

_ROW_TYPE = 2249  # `record`: the server takes any number here, since that of a table's rows is another in each database
_BIGINT = 20
_START = struct.Struct(">ii iiq iiq ii")  # of a row: its size, its fields, and the three that every inlined row has
_SYSTEM_FIELDS = 3
_pack_head = struct.Struct(">ii").pack


class EncodedRows(NamedTuple):
    """The cells of the user's columns, row by row; the others are known when the commit is planned."""

    rows: list[bytes]
    field_count: int


def encode_rows(values: Sequence[SmallColumn], columns: Sequence[Column]) -> EncodedRows:
    """Return the rows of some columns."""
    pieces: list[list[bytes]] = []
    run: list[_Numbers] = []
    for encode, column in zip(_encoders_of(columns), values, strict=True):
        cells = encode(column)
        if isinstance(cells, _Numbers):
            run.append(cells)
            continue
        if run:
            pieces.append(_pack(run))
            run = []
        pieces.append(cells)
    if run:
        pieces.append(_pack(run))
    return EncodedRows(list(map(b"".join, zip(*pieces, strict=True))), len(values))


def rows_parameter(encoded: EncodedRows, row_ids: Iterable[int], begin: int) -> bytes:
    """Return the array of whole rows: `row_id`, `begin_snapshot`, no `end_snapshot`, and what was encoded."""
    start, rest, fields = _START.pack, _START.size - 4, _SYSTEM_FIELDS + encoded.field_count
    rows = [
        start(rest + len(row), fields, _BIGINT, 8, row_id, _BIGINT, 8, begin, _BIGINT, -1) + row
        for row_id, row in zip(row_ids, encoded.rows, strict=True)
    ]
    return struct.pack(">iiIii", 1, 0, _ROW_TYPE, len(rows), 1) + b"".join(rows)


# ------------------------------------------------------------------------------------------ numbers


class _Kind(NamedTuple):
    """How PostgreSQL has values of one size: their type, and their bytes."""

    oid: int
    dtype: str


class _Numbers(NamedTuple):
    """A column without nulls whose values all have one size."""

    kind: _Kind
    values: np.ndarray


def _pack(run: Sequence[_Numbers]) -> list[bytes]:
    """Return the cells of neighbours, those of a row in one piece."""
    template, names = _template(tuple([numbers.kind for numbers in run]))
    cells = template.repeat(len(run[0].values))
    for name, numbers in zip(names, run, strict=True):
        cells[name] = numbers.values
    return _split(cells.tobytes(), template.itemsize)


@lru_cache(maxsize=1024)
def _template(kinds: tuple[_Kind, ...]) -> tuple[np.ndarray, list[str]]:
    """Return one row of such cells without their values, and the names of these."""
    cells = ((("t", ">u4"), ("l", ">i4"), ("v", kind.dtype)) for kind in kinds)
    row = np.zeros(1, np.dtype([(f"{part}{i}", form) for i, cell in enumerate(cells) for part, form in cell]))
    for i, kind in enumerate(kinds):
        row[f"t{i}"], row[f"l{i}"] = kind.oid, np.dtype(kind.dtype).itemsize
    return row, [f"v{i}" for i in range(len(kinds))]


def _split(data: bytes, width: int) -> list[bytes]:
    pieces: list[bytes] = np.frombuffer(data, f"V{width}").tolist()
    return pieces


# ----------------------------------------------------------------------------------------- encoders

_Encoder: TypeAlias = Callable[[SmallColumn], _Numbers | list[bytes]]


@per_object
def _encoders_of(columns: Sequence[Column]) -> Sequence[_Encoder]:
    return [_encoder(column) for column in columns]


def _encoder(column: Column) -> _Encoder:
    type_ = postgres_type(column)
    if column.type in _BYTES:
        return _bytes_encoder(type_.oid)
    if column.type in _NUMBERS:
        return _number_encoder(_Kind(type_.oid, _NUMBERS[column.type]))
    parameters = decimal_parameters(column.type)
    if parameters is not None:
        return _decimal_encoder(type_.oid, *parameters)
    return _text_encoder(type_.oid) if type_.name == "VARCHAR" else _other_encoder(column, type_.oid)


def _number_encoder(kind: _Kind) -> _Encoder:
    def encode(values: SmallColumn) -> _Numbers | list[bytes]:
        assert values.numbers is not None  # noqa: S101 # `small_rows` takes them of these types
        return _with_nulls(_Numbers(kind, values.numbers), values.array)

    return encode


def _decimal_encoder(oid: int, precision: int, scale: int) -> _Encoder:
    def encode(values: SmallColumn) -> _Numbers | list[bytes]:
        cells = unpacked_numerics(values.array, precision, scale)
        size = cells.itemsize - 4  # without their length, which they begin with
        numbers = np.ndarray(len(cells), f"V{size}", cells, 4, (cells.itemsize,))
        return _with_nulls(_Numbers(_Kind(oid, f"V{size}"), numbers), values.array)

    return encode


def _with_nulls(numbers: _Numbers, array: pa.Array) -> _Numbers | list[bytes]:
    valid = validity(array)
    if valid is None:
        return numbers
    null = _pack_head(numbers.kind.oid, -1)
    return [cell if is_there else null for is_there, cell in zip(valid, _pack([numbers]), strict=True)]


class _Heads(dict[int, bytes]):
    """The beginning of a cell by its length; those of short ones are kept."""

    def __init__(self, oid: int) -> None:
        super().__init__({length: _pack_head(oid, length) for length in range(256)})
        self._oid = oid

    def __missing__(self, length: int) -> bytes:
        return _pack_head(self._oid, length)


def _bytes_encoder(oid: int) -> _Encoder:
    heads, null = _Heads(oid), _pack_head(oid, -1)

    def encode(values: SmallColumn) -> list[bytes]:
        return [null if item is None else heads[len(item)] + item for item in values.items or []]

    return encode


def _text_encoder(oid: int) -> _Encoder:
    heads, null = _Heads(oid), _pack_head(oid, -1)

    def encode(values: SmallColumn) -> list[bytes]:
        texts = small_utf8(values)
        if values.column.is_nested and b"\x00" in b"".join(filter(None, texts)):
            raise nul_in_text(values.column)
        return [null if text is None else heads[len(text)] + text for text in texts]

    return encode


def _other_encoder(column: Column, oid: int) -> _Encoder:
    """Let kernels make the cells, and put the type before each."""
    kernel, type_ = encoder_of(column), struct.pack(">I", oid)

    def encode(values: SmallColumn) -> list[bytes]:
        cells = kernel(values.array)
        data = cells.data.tobytes()
        if cells.ends is None:
            return [type_ + cell for cell in _split(data, cells.width)]
        return [type_ + data[start:end] for start, end in pairwise([0, *cells.ends.tolist()])]

    return encode


_BYTES = ("varchar", "json", "blob")
_NUMBERS: Mapping[str, str] = {
    "boolean": "u1",
    **dict.fromkeys(("int8", "int16"), ">i2"),
    **dict.fromkeys(("int32", "uint8", "uint16"), ">i4"),
    **dict.fromkeys(("int64", "uint32", "time"), ">i8"),
    "float32": ">f4",
    "float64": ">f8",
}
