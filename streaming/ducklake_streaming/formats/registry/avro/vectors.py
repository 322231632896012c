"""Avro values of many records at once, a column after the other, by numpy. Runs on executors.

Ten times as fast as one record after the other. It vouches for the records that it has read from their first byte to
their last. Those that are odd in any way are wrong; the reason is for `rows` to find.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ducklake_streaming.formats.registry.avro.rows import plain_type
from ducklake_streaming.formats.registry.avro.schema import Node, Record, Scalar, Union
from ducklake_streaming.formats.registry.values import Rows, struct_array
from ducklake_streaming.formats.registry.wire import HEADER_BYTES, Bytes

_LONGEST_NUMBER = 10  # bytes of a 64-bit number
_INT = np.iinfo(np.int32)


def is_vectorized(node: Node) -> bool:
    """Tell whether values are as many as records are: arrays and maps are not."""
    match node:
        case Scalar():
            return True
        case Record():
            return all(is_vectorized(field) for _, field in node.fields)
        case Union():
            return all(is_vectorized(branch) for _, branch in node.values)
        case _:
            return False


def read_vectors(records: pa.BinaryArray, schema: Record) -> tuple[pa.StructArray, npt.NDArray[np.bool_]]:
    """Return the values, and for which records they are right. The schema is one that `is_vectorized`."""
    cursor = _Cursor.at(Bytes.of(records), _longest_fixed(schema))
    values = _read(schema, cursor, np.arange(len(records)))
    return values, cursor.is_right & (cursor.places == cursor.ends)


@dataclass(slots=True)
class _Cursor:
    """Where each record is read next. One that went wrong stays at the end of all bytes, where there are only zeros."""

    data: npt.NDArray[np.uint8]
    starts: Rows
    places: Rows
    ends: Rows
    is_right: npt.NDArray[np.bool_]
    outside: int

    @classmethod
    def at(cls, found: Bytes, longest: int) -> _Cursor:
        outside = len(found.data)
        data = np.concatenate([found.data, np.zeros(longest, np.uint8)])
        starts = found.starts + HEADER_BYTES
        is_right = np.ones(len(starts), np.bool_)
        return cls(data, starts, starts.copy(), found.ends.copy(), is_right, outside)

    def advance(self, rows: Rows, places: Rows) -> None:
        """Go on to these places; a record that ends before is wrong, and one that was wrong stays so."""
        self.places[rows] = places
        beyond = places > self.ends[rows]
        if beyond.any():
            self.give_up(rows[beyond])

    def give_up(self, rows: Rows) -> None:
        self.is_right[rows] = False
        self.places[rows] = self.outside
        self.ends[rows] = self.outside

    def numbers(self, rows: Rows) -> npt.NDArray[np.int64]:
        """Read a number of each: seven bits a byte, the lowest first, zigzag."""
        places = self.places[rows]
        byte = self.data[places]
        bits = (byte & 0x7F).astype(np.uint64)
        places += 1
        longer = np.flatnonzero(byte & 0x80)
        for count in range(1, _LONGEST_NUMBER):
            if not len(longer):
                break
            byte = self.data[places[longer]]
            bits[longer] |= (byte & 0x7F).astype(np.uint64) << np.uint64(7 * count)
            places[longer] += 1
            if count == _LONGEST_NUMBER - 1:  # of its bits, only the lowest has a place
                self.give_up(rows[longer[byte > 1]])
            longer = longer[(byte & 0x80) != 0]
        self.advance(rows, places)
        return (bits >> np.uint64(1)).astype(np.int64) ^ -(bits & np.uint64(1)).astype(np.int64)

    def fixed(self, rows: Rows, size: int) -> npt.NDArray[np.uint8]:
        """Read so many bytes of each."""
        places = self.places[rows]
        found: npt.NDArray[np.uint8] = self.data[places[:, None] + np.arange(size)]
        self.advance(rows, places + size)
        return found

    def byte_strings(self, rows: Rows) -> pa.BinaryArray:
        """Read bytes of each, after how many they are."""
        sizes = self.numbers(rows)
        places = self.places[rows]
        wrong = (sizes < 0) | (sizes > self.ends[rows] - places)
        if wrong.any():
            self.give_up(rows[wrong])
        sizes[wrong | ~self.is_right[rows]] = 0
        places = self.places[rows]
        self.advance(rows, places + sizes)
        return self._slices(np.where(self.is_right[rows], places, self.starts[rows]), sizes)

    def _slices(self, places: Rows, sizes: npt.NDArray[np.int64]) -> pa.BinaryArray:
        """Return pieces of the bytes, which are in order: Arrow takes every other piece of what they cut it into."""
        cuts = np.empty(2 * len(places) + 1, np.int32)
        cuts[0:-1:2] = places
        cuts[1::2] = places + sizes
        cuts[-1] = self.outside
        buffers = [None, pa.py_buffer(cuts), pa.py_buffer(self.data)]
        pieces = pa.Array.from_buffers(pa.binary(), 2 * len(places), buffers)
        return pieces.take(pa.array(np.arange(0, 2 * len(places), 2)))


def _read(node: Node, cursor: _Cursor, rows: Rows) -> pa.Array:
    match node:
        case Record():
            children = [_read(field, cursor, rows) for _, field in node.fields]
            return struct_array(children, plain_type(node), len(rows), None)
        case Union():
            return _read_union(node, cursor, rows)
        case Scalar():
            return _read_scalar(node, cursor, rows)
        case _:
            raise TypeError("arrays and maps are not read by columns")


def _read_union(node: Union, cursor: _Cursor, rows: Rows) -> pa.Array:
    chosen = cursor.numbers(rows)
    wrong = (chosen < 0) | (chosen >= len(node.branches))
    if wrong.any():
        cursor.give_up(rows[wrong])
    read = {}
    for index, branch in enumerate(node.branches):
        if branch is not None:
            places = np.flatnonzero(chosen == index)
            read[branch[0]] = _spread(_read(branch[1], cursor, rows[places]), places, len(rows))
    if len(read) == 1:
        return next(iter(read.values()))
    nothing = [index for index, branch in enumerate(node.branches) if branch is None]
    mask = pa.array(np.isin(chosen, nothing))
    kind = plain_type(node)
    return struct_array(list(read.values()), kind, len(rows), mask) if read else pa.nulls(len(rows), kind)


def _spread(values: pa.Array, places: Rows, length: int) -> pa.Array:
    """Put values at their places; the others are null."""
    if len(values) == length:
        return values
    sources = np.full(length, -1, np.int64)
    sources[places] = np.arange(len(places))
    return values.take(pa.array(sources, mask=sources < 0))


def _read_scalar(node: Scalar, cursor: _Cursor, rows: Rows) -> pa.Array:  # noqa: PLR0911 # one for each kind
    match node.kind:
        case "null":
            return pa.nulls(len(rows), pa.string())
        case "boolean":
            return _read_booleans(cursor, rows)
        case "int":
            return _read_ints(cursor, rows)
        case "long":
            return pa.array(cursor.numbers(rows))
        case "float":
            return pa.array(cursor.fixed(rows, 4).view(np.float32)[:, 0])
        case "double":
            return pa.array(cursor.fixed(rows, 8).view(np.float64)[:, 0])
        case "fixed":
            return pa.array(list(map(bytes, cursor.fixed(rows, node.size))), pa.binary())
        case "bytes":
            return cursor.byte_strings(rows)
        case "string":
            return _read_texts(cursor, rows)
        case _:
            return _read_symbols(node, cursor, rows)


def _read_booleans(cursor: _Cursor, rows: Rows) -> pa.Array:
    found = cursor.fixed(rows, 1)[:, 0]
    if (found > 1).any():
        cursor.give_up(rows[found > 1])
    return pa.array(found == 1)


def _read_ints(cursor: _Cursor, rows: Rows) -> pa.Array:
    found = cursor.numbers(rows)
    wrong = (found < _INT.min) | (found > _INT.max)
    if wrong.any():
        cursor.give_up(rows[wrong])
    return pa.array(found.astype(np.int32))


def _read_symbols(node: Scalar, cursor: _Cursor, rows: Rows) -> pa.Array:
    found = cursor.numbers(rows)
    wrong = (found < 0) | (found >= len(node.symbols))
    if wrong.any():
        cursor.give_up(rows[wrong])
        found[wrong] = 0
    return pa.array(node.symbols, pa.string()).take(pa.array(found))


def _read_texts(cursor: _Cursor, rows: Rows) -> pa.Array:
    found = cursor.byte_strings(rows)
    try:
        return found.cast(pa.string())
    except pa.ArrowInvalid:
        wrong = np.array([not _is_text(value.as_py()) for value in found])
        cursor.give_up(rows[wrong])
        return pa.compute.if_else(pa.array(wrong), b"", found).cast(pa.string())


def _is_text(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def _longest_fixed(node: Node) -> int:
    """Return how many bytes are read at once at most: so many zeros must follow all records."""
    match node:
        case Scalar():
            return max(node.size, _LONGEST_NUMBER)
        case Record():
            return max((_longest_fixed(field) for _, field in node.fields), default=_LONGEST_NUMBER)
        case Union():
            return max((_longest_fixed(branch) for _, branch in node.values), default=_LONGEST_NUMBER)
        case _:
            return _LONGEST_NUMBER
