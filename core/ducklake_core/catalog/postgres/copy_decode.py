"""PostgreSQL's binary COPY → Arrow arrays, a column at a time. Pure; runs where inlined rows are read.

The bytes of many rows are looked at together: where a cell begins depends on the lengths before it in its row, so each
column is one step for all rows. https://www.postgresql.org/docs/current/sql-copy.html, section "Binary Format".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from psycopg.abc import Buffer

from ducklake_core.catalog.postgres.arrays import bytes_array, fixed_array, fixed_form, validity_buffer
from ducklake_core.errors import CorruptCatalog, UnsupportedType
from ducklake_core.model import Column

_HEADER_BYTES = 19  # signature, flags, length of an extension that no version has
_TRAILER = b"\xff\xff"
_NULL = b"\xff\xff\xff\xff"
_BLOCK_ROWS, _SMALL_ROW_BYTES = 1000, 64
_BLOCKS = 8  # at least so many make a chunk, which is too large by one of them at most
_MAX_BYTES = 2**31 - 1  # Arrow's offsets into text are int32
_PADDING = bytes(16)  # whoever looks at a null at the very end sees these


@dataclass(frozen=True, slots=True, eq=False)
class CopiedRows:
    """Rows as they came: their bytes, and for each column where its cells begin and how long they are (null: -1)."""

    data: np.ndarray
    starts: Sequence[np.ndarray]
    lengths: Sequence[np.ndarray]

    @property
    def count(self) -> int:
        return len(self.starts[0])

    def int64s(self, index: int) -> np.ndarray:
        """Return a bigint column; nulls are 0."""
        values = _gathered(self.data, self.starts[index], ">i8").astype(np.int64)
        return np.where(self.lengths[index] < 0, 0, values)

    def array(self, index: int, column: Column) -> pa.Array:
        """Return the array of `arrow_type(column)` of a column that was selected with `select_cast`."""
        valid = self.lengths[index] >= 0
        form = fixed_form(column)
        if form is None:
            return bytes_array(self._bytes(index, validity_buffer(valid)), column)
        return fixed_array(_gathered(self.data, self.starts[index], form), valid, column)

    def _bytes(self, index: int, validity: pa.Buffer | None) -> pa.Array:
        """Return the bytes of cells: Arrow takes every other one of an array of cells and what is between them."""
        starts, count = self.starts[index], self.count
        offsets = np.empty(2 * count, np.int32)
        offsets[0::2] = starts
        offsets[1::2] = starts + np.maximum(self.lengths[index], 0)
        with_gaps = pa.Array.from_buffers(
            pa.binary(), max(0, 2 * count - 1), [None, pa.py_buffer(offsets), pa.py_buffer(self.data)]
        )
        taken = with_gaps.take(pa.array(np.arange(0, 2 * count, 2)))
        return pa.Array.from_buffers(pa.binary(), count, [validity, *taken.buffers()[1:]])


def split_rows(messages: Iterable[Buffer], columns: int, chunk_bytes: int) -> Iterator[CopiedRows]:
    """Yield the rows of a COPY, about `chunk_bytes` of them at a time; the server sends one message per row.

    A chunk ends before it is too large for Arrow, however large it may be.
    """
    chunk_bytes = min(chunk_bytes, _MAX_BYTES // 2)  # PostgreSQL has no message of more than the other half
    max_rows = max(1, min(_BLOCK_ROWS, chunk_bytes // _SMALL_ROW_BYTES))
    blocks: list[bytes] = []
    lengths: list[np.ndarray] = []
    size = 0
    for block, block_lengths in _blocks(messages, max_rows, chunk_bytes // _BLOCKS):
        blocks.append(block)
        lengths.append(block_lengths)
        size += len(block)
        if size >= chunk_bytes:
            yield _split(blocks, lengths, columns)
            blocks, lengths, size = [], [], 0
    if size:
        yield _split(blocks, lengths, columns)


def joined_cells(rows: Sequence[Sequence[bytes | None]], columns: int) -> CopiedRows:
    """Return rows of which each cell came by itself, as a COPY would have brought them; there is at least one."""
    count = columns.to_bytes(2, "big")
    messages = [count + b"".join([_NULL if c is None else len(c).to_bytes(4, "big") + c for c in row]) for row in rows]
    block, lengths = _joined(messages)
    return _split([block], [lengths], columns)


def _blocks(messages: Iterable[Buffer], max_rows: int, max_bytes: int) -> Iterator[tuple[bytes, np.ndarray]]:
    """Yield some rows as one, until there are enough or enough bytes of them.

    As a Python object a small message takes several times its bytes.
    """
    block: list[Buffer] = []
    size = 0
    for row in _rows(messages):
        block.append(row)
        size += len(row)
        if size >= max_bytes or len(block) >= max_rows:
            yield _joined(block)
            block, size = [], 0
    if block:
        yield _joined(block)


def _rows(messages: Iterable[Buffer]) -> Iterator[Buffer]:
    """Yield the messages without what comes before the first row and after the last."""
    rows = iter(messages)
    first = bytes(next(rows, b""))[_HEADER_BYTES:]
    if first not in (b"", _TRAILER):
        yield first
    for row in rows:
        if len(row) != len(_TRAILER):  # a row has its number of columns, and a column
            yield row


def _joined(block: Sequence[Buffer]) -> tuple[bytes, np.ndarray]:
    return b"".join(block), np.fromiter(map(len, block), np.int64, len(block))


def _split(blocks: Sequence[bytes], lengths: Sequence[np.ndarray], columns: int) -> CopiedRows:
    ends = np.cumsum(np.concatenate(lengths))
    if ends[-1] > _MAX_BYTES:
        raise UnsupportedType(
            f"PostgreSQL sent inlined rows of {ends[-1]} bytes at once; more than {_MAX_BYTES} cannot be read"
        )
    data = np.frombuffer(b"".join((*blocks, _PADDING)), np.uint8)
    position = np.concatenate((np.zeros(1, np.int64), ends[:-1]))
    counts = _gathered(data, position, ">i2")
    position = position + 2
    starts, sizes = [], []
    for _ in range(columns):
        length = _gathered(data, position, ">i4").astype(np.int32)
        position = position + 4
        starts.append(position)
        sizes.append(length)
        position = position + np.maximum(length, 0)
    if not ((counts == columns).all() and (position == ends).all()):
        raise CorruptCatalog(f"PostgreSQL sent rows that are not of {columns} columns")
    return CopiedRows(data, starts, sizes)


def _gathered(data: np.ndarray, positions: np.ndarray, type_: str) -> np.ndarray:
    """Return the values of a type that begin at any positions of the bytes."""
    dtype = np.dtype(type_)
    every: np.ndarray = np.ndarray((len(data) - dtype.itemsize + 1,), dtype, data, strides=(1,))
    found: np.ndarray = every[positions]
    return found
