"""Twin of `spec.text.to_text`: DuckDB's text of few rows, whose values `small_rows` took out of their arrays. Pure.

Python's own formatting, one value after another; from some twenty rows on Arrow writes floats and timestamps, a column
at once, where it writes them as DuckDB does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import islice
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from ducklake_core.model import Column
from ducklake_core.spec import temporal_text as temporal
from ducklake_core.spec.kinds import Kind
from ducklake_core.spec.memo import per_object
from ducklake_core.spec.nested_text import is_bare, quoted_name
from ducklake_core.spec.scalar_text import scalar_to_text, text_of
from ducklake_core.spec.small_rows import SmallColumn, extract_bytes
from ducklake_core.spec.thresholds import PYTHON_TEXTS

Texts: TypeAlias = list[bytes | None]

# Looked up once: with Python 3.11 that takes longer than to compare texts, and a small commit asks dozens of times.
_LIST, _STRUCT, _TEXT = Kind.LIST, Kind.STRUCT, Kind.TEXT


def small_texts(values: SmallColumn) -> list[str | None]:
    """Return DuckDB's text of each value, as `spec.text.to_text` does."""
    return [None if text is None else text.decode() for text in small_utf8(values)]


def small_utf8(values: SmallColumn) -> Texts:
    """Return the same as bytes."""
    column, items = values.column, values.items
    if column.kind is _STRUCT:
        return _struct_texts(values)
    if column.is_nested:
        return _list_texts(values)
    if items is None:
        return extract_bytes(scalar_to_text(values.array, column.type))[0]
    if column.kind is _TEXT:
        return items
    quick = _QUICK_TEXTS.get(column.type) if len(items) > PYTHON_TEXTS else None
    return (quick and quick(values)) or _each_text(values)


def _each_text(values: SmallColumn) -> Texts:
    text = text_of(values.column.type)
    return [None if item is None else text(item).encode() for item in values.items or ()]


def _struct_texts(values: SmallColumn) -> Texts:
    form = _struct_form(values.column)
    rows = zip(*map(_member_texts, values.children), strict=True)
    if values.array.null_count == 0:
        return [form % texts for texts in rows]
    return [form % texts if is_there else None for is_there, texts in zip(values.items or (), rows, strict=True)]


@per_object
def _struct_form(column: Column) -> bytes:
    labels = [quoted_name(child.name).replace("%", "%%") for child in column.children]
    return ("{" + ",".join(f"{label}:%b" for label in labels) + "}").encode()


def _list_texts(values: SmallColumn) -> Texts:
    opening, closing = (b"[", b"]") if values.column.kind is _LIST else (b"{", b"}")
    members = [_member_texts(child) for child in values.children]
    texts = iter(members[0] if len(members) == 1 else [b"%b=%b" % pair for pair in zip(*members, strict=True)])
    return [
        None if count is None else opening + b",".join(islice(texts, count)) + closing for count in values.items or ()
    ]


def _member_texts(values: SmallColumn) -> list[bytes]:
    """Return the texts of values inside a container, `NULL` for a null."""
    texts = small_utf8(values)
    if not _is_bare(values.column):
        is_plain = _is_plain(b"".join(filter(None, texts)))
        return [b"NULL" if text is None else b"'%b'" % (text if is_plain else _escaped(text)) for text in texts]
    if values.array.null_count == 0:
        return texts  # type: ignore[return-value] # none of them is None
    return [b"NULL" if text is None else text for text in texts]


@per_object
def _is_bare(column: Column) -> bool:
    return is_bare(column)


def _is_plain(text: bytes) -> bool:
    return b"'" not in text and b"\\" not in text


def _escaped(text: bytes) -> bytes:
    return quoted_name(text.decode())[1:-1].encode()


def _float_texts(values: SmallColumn) -> Texts | None:
    """Let Arrow write the numbers; None when it would write some otherwise: as `1`, `1e+10` or `0.00001`."""
    numbers = [abs(item) for item in values.items or () if item is not None]
    texts = _written(values.array)
    whole = b"".join(filter(None, texts))
    is_usual = whole.count(b".") == len(numbers) and b"e" not in whole and min(numbers, default=1) >= 1e-4
    return texts if is_usual else None


def _timestamp_texts(suffix: bytes) -> Callable[[SmallColumn], Texts | None]:
    """Let Arrow write the moments; None when one is beyond its calendar."""
    low, high = temporal.usual_ticks(10**6)

    def write(values: SmallColumn) -> Texts | None:
        ticks = [item for item in values.items or () if item is not None]
        if not low <= min(ticks, default=0) <= max(ticks, default=0) <= high:
            return None
        texts = _written(values.array.view(_MOMENT))
        if any(tick % 10**6 for tick in ticks):
            return [None if text is None else text.rstrip(b"0").rstrip(b".") + suffix for text in texts]
        return [None if text is None else text[:_SECONDS_END] + suffix for text in texts]

    return write


def _written(array: pa.Array) -> Texts:
    texts: Texts = extract_bytes(pc.call_function("cast", [array], _AS_TEXT))[0]
    return texts


_AS_TEXT = pc.CastOptions(
    pa.string()
)  # `Array.cast` makes one each time, which takes as long as to write thirty numbers
_MOMENT = pa.timestamp("us")
_SECONDS_END = len("2026-01-01 00:00:00")
_QUICK_TEXTS: Mapping[str, Callable[[SmallColumn], Texts | None]] = {
    "float64": _float_texts,
    "timestamp": _timestamp_texts(b""),
    "timestamptz": _timestamp_texts(b"+00"),
}
