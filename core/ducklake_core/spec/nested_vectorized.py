"""Twin of `nested_text`'s parser for many texts at once, those that need no escapes: nearly all. Pure; runs everywhere.

All bytes are looked at together. Quotes come in pairs, so their parity tells what is inside of strings; brackets
outside of them give each comma and equals sign its depth; the spans of members follow by binary search, level by level.
Whatever is not as expected raises `NeedsParser`, and the slow parser of `nested_text` has the last word.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ducklake_core.model import Column
from ducklake_core.spec.kinds import Kind
from ducklake_core.spec.scalar_text import scalar_from_text
from ducklake_core.spec.types import arrow_field, arrow_type

SPECIAL = '\\"('  # escapes, the other quote, CAST(…): texts with one of these are not plain
_QUOTE, _BLANK = ord("'"), ord(" ")
_NULL = np.frombuffer(b"null", np.uint8)
_STEPS = np.zeros(256, np.int8)
_STEPS[[*b"[{"]] = 1
_STEPS[[*b"]}"]] = -1
_IS_SIGN = np.zeros(256, bool)
_IS_SIGN[[*b"[]{},='"]] = True


class NeedsParser(Exception):
    """A text has a form that only the slow parser knows, or is no value at all."""


def vectorized_from_text(texts: pa.Array, column: Column) -> pa.Array:
    """Parse literals of a list, struct or map column; raise NeedsParser when one is not of the plain form."""
    count = len(texts)
    offsets = np.frombuffer(texts.buffers()[1], np.int32, count + 1, texts.offset * 4).astype(np.int64)
    data = np.frombuffer(texts.buffers()[2] or b"", np.uint8)[offsets[0] : offsets[-1]]
    offsets -= offsets[0]
    valid = ~np.asarray(texts.is_null().to_numpy(zero_copy_only=False), dtype=bool)
    parser = _Parser(np.concatenate((data, np.zeros(8, np.uint8))))
    spans = _Spans(offsets[:-1], offsets[1:], valid)
    parser.check_balance(spans)
    array = parser.values(spans, column, column.name, 0)
    _require(parser.quotes_left == 0)  # else one is within a text, doubled
    return array


@dataclass(frozen=True, slots=True, eq=False)
class _Spans:
    """Where values begin and end; those that are not `valid` are null whatever is there."""

    starts: np.ndarray
    ends: np.ndarray
    valid: np.ndarray

    def where(self, mask: np.ndarray) -> _Spans:
        return _Spans(self.starts[mask], self.ends[mask], self.valid[mask])


class _Parser:
    """The bytes of all texts, padded, and the signs in them: those outside of strings, and the quotes."""

    def __init__(self, data: np.ndarray) -> None:
        self.data = data
        every, kinds = _signs(data)
        is_quote = kinds == _QUOTE
        inside = np.cumsum(is_quote, dtype=np.uint8) & 1  # overflows, but stays odd
        self.quotes_left = int(np.count_nonzero(is_quote))
        outside = (inside == 0) & ~is_quote
        self.signs, self.kinds = every[outside], kinds[outside]
        self.depths = np.cumsum(_STEPS[self.kinds], dtype=np.int32)
        self._quotes = every[is_quote]
        self._closings: np.ndarray | None = None  # the signs that end a whole text, when every text ends with one

    def check_balance(self, texts: _Spans) -> None:
        """Make sure that no text leaves a bracket or a quote open: it would change the meaning of the others."""
        _require(not (self.depths < 0).any())
        closings = np.flatnonzero(self.depths == 0)
        if np.array_equal(self.signs[closings] + 1, texts.ends[texts.valid]):
            self._closings = closings
            return
        offsets = np.append(texts.starts, texts.ends[-1:])
        depths = np.concatenate((np.zeros(1, np.int32), self.depths))[np.searchsorted(self.signs, offsets)]
        quotes = np.searchsorted(self._quotes, offsets) & 1
        _require(not (depths.any() or quotes.any()))

    def values(self, spans: _Spans, column: Column, path: str, depth: int) -> pa.Array:
        spans = self._trimmed(spans)
        if not column.is_nested:
            return self._scalars(spans, column, path)
        whole = spans.where(spans.valid)
        array = self._containers(whole, column, path, depth)
        if len(whole.starts) == len(spans.starts):
            return array
        places = np.cumsum(spans.valid) - 1
        return array.take(pa.array(places, pa.int64(), mask=~spans.valid))

    def _trimmed(self, spans: _Spans) -> _Spans:
        """Skip the blank that the reference writes after a comma or colon, and find the nulls."""
        starts, ends = spans.starts, spans.ends
        starts = starts + ((self.data[starts] == _BLANK) & (starts < ends))
        _require(((ends > starts) | ~spans.valid).all())
        four = np.flatnonzero(ends - starts == 4)
        cells = self.data[starts[four][:, None] + np.arange(4)] | 0x20
        valid = spans.valid.copy()
        valid[four[(cells == _NULL).all(axis=1)]] = False
        return _Spans(starts, ends, valid)

    def _scalars(self, spans: _Spans, column: Column, path: str) -> pa.Array:
        starts, ends, valid = spans.starts, spans.ends, spans.valid
        is_quoted = (self.data[starts] == _QUOTE) & valid
        last = self.data[np.maximum(ends - 1, 0)]
        first = starts + is_quoted
        ends = ends - is_quoted
        _require((ends >= first)[valid].all() and (last[is_quoted] == _QUOTE).all())
        self.quotes_left -= 2 * int(np.count_nonzero(is_quoted))
        bare = valid & ~is_quoted
        _require(not ((last == _BLANK) | (self.data[starts] <= _BLANK))[bare].any())
        return scalar_from_text(self._texts(first, ends, valid), column.type, path)

    def _texts(self, starts: np.ndarray, ends: np.ndarray, valid: np.ndarray) -> pa.Array:
        """Return the texts of spans: Arrow takes every other one of an array of them and what is between them."""
        count = len(starts)
        if count == 0:
            return pa.array([], pa.string())
        offsets = np.empty(2 * count, np.int32)
        offsets[0::2], offsets[1::2] = starts, np.where(valid, ends, starts)
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(self.data)]
        taken = pa.Array.from_buffers(pa.binary(), 2 * count - 1, buffers).take(pa.array(np.arange(0, 2 * count, 2)))
        validity = None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))
        return pa.Array.from_buffers(pa.string(), count, [validity, *taken.buffers()[1:]])

    def _containers(self, spans: _Spans, column: Column, path: str, depth: int) -> pa.Array:
        brackets = b"[]" if column.kind is Kind.LIST else b"{}"
        _require((self.data[spans.starts] == brackets[0]).all() and (self.data[spans.ends - 1] == brackets[1]).all())
        _require((spans.ends - spans.starts >= 2).all())
        if column.kind is Kind.STRUCT:
            return self._structs(spans, column, path, depth)
        members, counts = self._members(spans, depth + 1)
        offsets = pa.array(np.concatenate((np.zeros(1, np.int64), np.cumsum(counts))).astype(np.int32))
        if column.kind is Kind.LIST:
            element = self.values(members, column.children[0], f"{path}.element", depth + 1)
            return pa.ListArray.from_arrays(offsets, element, type=arrow_type(column))
        key, value = column.children
        signs, found = self._between(members, "=", depth + 1)
        _require((found == 1).all())
        keys = self.values(_Spans(members.starts, signs, members.valid), key, f"{path}.key", depth + 1)
        items = self.values(_Spans(signs + 1, members.ends, members.valid), value, f"{path}.value", depth + 1)
        return pa.MapArray.from_arrays(offsets, keys, items, type=arrow_type(column))

    def _structs(self, spans: _Spans, column: Column, path: str, depth: int) -> pa.Array:
        commas, found = self._between(spans, ",", depth + 1)
        _require((found == len(column.children) - 1).all())
        commas = commas.reshape(len(spans.starts), len(column.children) - 1)
        starts = np.column_stack((spans.starts, commas)) + 1
        ends = np.column_stack((commas, spans.ends - 1))
        arrays = []
        for index, child in enumerate(column.children):
            member = _Spans(starts[:, index], ends[:, index], spans.valid)
            member = _Spans(self._after_name(member, child.name), member.ends, member.valid)
            arrays.append(self.values(member, child, f"{path}.{child.name}", depth + 1))
        return pa.StructArray.from_arrays(arrays, fields=[arrow_field(c) for c in column.children])

    def _after_name(self, members: _Spans, name: str) -> np.ndarray:
        prefix = np.frombuffer(f"'{name}':".encode(), np.uint8)
        _require("'" not in name)
        starts = members.starts + (self.data[members.starts] == _BLANK)
        _require((starts + len(prefix) < members.ends).all())
        _require((self.data[starts[:, None] + np.arange(len(prefix))] == prefix).all())
        self.quotes_left -= 2 * len(starts)
        after: np.ndarray = starts + len(prefix)
        return after

    def _members(self, spans: _Spans, depth: int) -> tuple[_Spans, np.ndarray]:
        """Return the members of containers, one after another, and how many each has."""
        is_empty = spans.ends - spans.starts == 2
        commas, found = self._between(spans, ",", depth)
        counts = np.where(is_empty, 0, found + 1)
        firsts = np.cumsum(counts) - counts
        total = int(counts.sum())
        starts, ends = np.empty(total, np.int64), np.empty(total, np.int64)
        is_first, is_last = np.zeros(total, bool), np.zeros(total, bool)
        is_first[firsts[~is_empty]] = True
        is_last[(firsts + counts - 1)[~is_empty]] = True
        starts[is_first], ends[is_last] = (spans.starts + 1)[~is_empty], (spans.ends - 1)[~is_empty]
        starts[~is_first], ends[~is_last] = commas + 1, commas
        return _Spans(starts, ends, np.ones(total, bool)), counts

    def _between(self, spans: _Spans, sign: str, depth: int) -> tuple[np.ndarray, np.ndarray]:
        """Return where a sign of some depth is within spans, one span after another, and how often in each."""
        is_one = (self.kinds == ord(sign)) & (self.depths == depth)
        every = self.signs[is_one]
        closings = self._closings
        if closings is not None and np.array_equal(self.signs[closings] + 1, spans.ends):  # spans are the whole texts
            return every, np.diff(np.cumsum(is_one)[closings], prepend=0)
        first = np.searchsorted(every, spans.starts)
        counts = np.searchsorted(every, spans.ends) - first
        index = np.repeat(first - (np.cumsum(counts) - counts), counts) + np.arange(int(counts.sum()))
        return every[index], counts


def _signs(data: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return where signs and quotes are, and which. Few comparisons of all bytes find them, and some letters."""
    brackets_and_few_letters = (data & 0xD9) == 0x59  # the bits that [ ] { } share
    found = np.flatnonzero(brackets_and_few_letters | (data == ord(",")) | (data == ord("=")) | (data == _QUOTE))
    kinds = data[found]
    is_sign = _IS_SIGN[kinds]
    return found[is_sign], kinds[is_sign]


def _require(condition: bool | np.bool_) -> None:  # noqa: FBT001 # it reads like an assertion
    if not condition:
        raise NeedsParser
