"""Inlined rows of PostgreSQL a block at a time: the server joins each column of some pages into one value. Pure.

A COPY sends a message per row and a length per cell, of which the client has to find each; joined, a column of numbers
is an array but for the order of its bytes, and costs the server no more. Texts come with a byte between them that no
text should hold. Lengths and counts tell whether all was as expected: otherwise `CannotSplit` is raised, and the
reader asks for a COPY.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce
from operator import add
from typing import Any

import numpy as np
import pyarrow as pa
from sqlalchemy import BigInteger, ColumnElement, Select, Table, bindparam, case, func, literal_column, select

from ducklake_core.catalog.inlined_tables import SYSTEM_COLUMNS, RawSqlType
from ducklake_core.catalog.postgres.arrays import bytes_array, fixed_array, fixed_form, validity_buffer
from ducklake_core.catalog.postgres.encode import postgres_type
from ducklake_core.model import Column

_SEND: Mapping[str, str] = {
    "BOOLEAN": "boolsend",
    "SMALLINT": "int2send",
    "INTEGER": "int4send",
    "BIGINT": "int8send",
    "REAL": "float4send",
    "DOUBLE PRECISION": "float8send",
    "TIME": "time_send",
    "UUID": "uuid_send",
    "INTERVAL": "interval_send",
}
PLACE = literal_column("ctid", RawSqlType("tid"))  # where PostgreSQL has put a row: page and number
_NOTHING: ColumnElement[object] = literal_column("NULL")
_MAX_BYTES = 2**31 - 1  # Arrow's offsets into text are int32


class CannotSplit(Exception):
    """What the server has joined cannot be taken apart: a text has a byte that it should not have."""


@dataclass(frozen=True, slots=True)
class Separators:
    """The byte between texts and the one that stands for a null, and both in SQL.

    `sql_twice` stands for a text that is the byte of a null and nothing else: two of them cannot be taken apart.
    """

    between: int
    null: int
    sql_between: ColumnElement[object]
    sql_null: ColumnElement[object]
    sql_twice: ColumnElement[object]


# No UTF-8 has these two; a text of PostgreSQL may have any character, but these are rare.
_OF_BYTES = Separators(0xFF, 0xFE, *(literal_column(f"decode('{code}', 'hex')") for code in ("ff", "fe", "fefe")))
_OF_TEXT = Separators(1, 2, *(literal_column(text) for text in ("chr(1)", "chr(2)", "chr(2) || chr(2)")))


@dataclass(frozen=True, slots=True)
class Block:
    """The rows of some pages: for each column its values without nulls, or with separators; and what else is needed.

    `extras` has the lengths of blobs, and which rows are null of columns of fixed width; by the column's place.
    """

    values: tuple[bytes, ...]
    extras: Mapping[int, bytes]

    @property
    def count(self) -> int:
        return len(self.values[0]) // 8

    @property
    def size_bytes(self) -> int:
        return sum(map(len, self.values)) + sum(map(len, self.extras.values()))


@dataclass(frozen=True, slots=True)
class JoinPlan:
    """How the columns of one inlined table are joined; `with_nulls` are the places of those known to have some."""

    columns: tuple[Column, ...]
    with_nulls: frozenset[int] = frozenset()

    @property
    def extras(self) -> tuple[int, ...]:
        first = len(SYSTEM_COLUMNS)
        return tuple(i for i, c in enumerate(self.columns, first) if c.type == "blob" or i in self.with_nulls)

    def block(self, row: Sequence[bytes | None]) -> Block | None:
        """Return the block of a row of `block_query`; None when it has no rows."""
        if row[0] is None:
            return None
        values = [value or b"" for value in row]
        width = len(SYSTEM_COLUMNS) + len(self.columns)
        return Block(tuple(values[:width]), dict(zip(self.extras, values[width:], strict=True)))

    def unexpected_nulls(self, block: Block) -> frozenset[int]:
        """Return the columns of fixed width with nulls of which nobody has asked where they are."""
        forms = [fixed_form(column) for column in self.columns]
        return frozenset(
            index
            for index, form in enumerate(forms, len(SYSTEM_COLUMNS))
            if form is not None
            and index not in self.with_nulls
            and len(block.values[index]) != block.count * np.dtype(form).itemsize
        )


@lru_cache(maxsize=128)
def block_query(table: Table, picked: tuple[ColumnElement[object], ...], plan: JoinPlan) -> Select[*tuple[Any, ...]]:
    """Return the query of one block: the rows begun by `snapshot` on the pages from `first` up to before `after`.

    It gives no row where texts and blobs, together, have more than `most_bytes`: values that PostgreSQL has compressed
    are many times as large as their page.
    """
    row_id, begin, end = (table.c[name] for name in SYSTEM_COLUMNS)
    system = [_joined(func.int8send(value)) for value in (row_id, begin, func.coalesce(end, 0))]
    values = [_value(element, column) for element, column in zip(picked, plan.columns, strict=True)]
    first = len(SYSTEM_COLUMNS)
    extras = [_extra(picked[i - first], plan.columns[i - first]) for i in plan.extras]
    found = select(*system, *values, *extras).where(
        begin <= bindparam("snapshot"),
        bindparam("first", type_=PLACE.type) <= PLACE,
        bindparam("after", type_=PLACE.type) > PLACE,
    )
    # The server joins no column twice: it knows the same call of an aggregate when it sees it again.
    sizes = [
        func.coalesce(func.octet_length(value), literal_column("0"), type_=BigInteger)
        for value, column in zip(values, plan.columns, strict=True)
        if fixed_form(column) is None
    ]
    return found.having(reduce(add, sizes) <= bindparam("most_bytes")) if sizes else found


def page_start(page: int) -> str:
    """Return the place before the first row of a page."""
    return f"({page},0)"


def _value(element: ColumnElement[object], column: Column) -> ColumnElement[object]:
    if fixed_form(column) is not None:
        return _joined(getattr(func, _SEND[postgres_type(column).name])(element))
    if column.type == "blob":
        return _joined(element)
    separators = _separators(column)
    stand_in = case((element.is_(None), separators.sql_null), else_=separators.sql_twice)
    return func.string_agg(func.coalesce(func.nullif(element, separators.sql_null), stand_in), separators.sql_between)


def _extra(element: ColumnElement[object], column: Column) -> ColumnElement[object]:
    if column.type == "blob":
        return _joined(func.int4send(func.coalesce(func.octet_length(element), -1)))
    return _joined(func.boolsend(element.is_(None)))


def _joined(element: ColumnElement[object]) -> ColumnElement[object]:
    return func.string_agg(element, _NOTHING)


def _separators(column: Column) -> Separators:
    return _OF_BYTES if postgres_type(column).name == "BYTEA" else _OF_TEXT


# ------------------------------------------------------------------------------------------- the way back


def int64s(blocks: Sequence[Block], index: int) -> np.ndarray:
    """Return a system column of blocks one after another."""
    values = np.frombuffer(b"".join(block.values[index] for block in blocks), ">i8").astype(np.int64)
    if len(values) != _count(blocks):
        raise CannotSplit
    return values


def column_array(blocks: Sequence[Block], index: int, column: Column) -> pa.Array:
    """Return the array of `arrow_type(column)` of blocks one after another; there must be at least one."""
    form = fixed_form(column)
    if form is not None:
        return _fixed(blocks, index, column, np.dtype(form))
    return bytes_array(_counted(blocks, index) if column.type == "blob" else _separated(blocks, index, column), column)


def _fixed(blocks: Sequence[Block], index: int, column: Column, form: np.dtype) -> pa.Array:
    values = np.frombuffer(b"".join(block.values[index] for block in blocks), form)
    if not any(index in block.extras for block in blocks):
        return fixed_array(values, np.ones(len(values), bool), column)
    nulls = b"".join(block.extras.get(index) or bytes(block.count) for block in blocks)
    valid = np.frombuffer(nulls, np.uint8) == 0
    spread = np.zeros(len(valid), form)
    spread[valid] = values
    return fixed_array(spread, valid, column)


def _counted(blocks: Sequence[Block], index: int) -> pa.Array:
    lengths = np.frombuffer(b"".join(block.extras[index] for block in blocks), ">i4")
    return _binary(b"".join(block.values[index] for block in blocks), np.maximum(lengths, 0), lengths >= 0)


def _separated(blocks: Sequence[Block], index: int, column: Column) -> pa.Array:
    separators = _separators(column)
    joined = bytes([separators.between]).join(block.values[index] for block in blocks)
    data = np.frombuffer(joined, np.uint8)
    is_between = data == separators.between
    ends = np.append(np.flatnonzero(is_between), len(data))
    if len(ends) != _count(blocks):
        raise CannotSplit
    lengths = np.diff(ends, prepend=-1) - 1
    if separators.null not in joined:
        return _binary(data[~is_between], lengths, np.ones(len(ends), bool))
    is_null = data == separators.null
    single = np.flatnonzero(lengths == 1)
    nulls = single[is_null[ends[single] - 1]]
    if len(nulls) != np.count_nonzero(is_null):
        raise CannotSplit
    lengths[nulls] = 0
    valid = np.ones(len(ends), bool)
    valid[nulls] = False
    return _binary(data[~(is_between | is_null)], lengths, valid)


def _binary(data: bytes | np.ndarray, lengths: np.ndarray, valid: np.ndarray) -> pa.Array:
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    if offsets[-1] > _MAX_BYTES:
        raise CannotSplit
    buffers = [validity_buffer(valid), pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.binary(), len(lengths), buffers)


def _count(blocks: Sequence[Block]) -> int:
    return sum(block.count for block in blocks)
