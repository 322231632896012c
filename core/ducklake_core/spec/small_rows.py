"""A column of few rows as Python's own values: encoded and measured without starting a kernel for each. Pure.

Moments and decimals are whole numbers here (ticks, days, unscaled digits), strings and blobs are bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from itertools import islice, pairwise
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ducklake_core.model import Column
from ducklake_core.spec import temporal_text as temporal
from ducklake_core.spec.arrays import list_lengths, list_members, plain, single
from ducklake_core.spec.memo import per_object
from ducklake_core.spec.nested_text import is_bare, quoted_name
from ducklake_core.spec.scalar_text import escape_blob, format_float32, scalar_to_text
from ducklake_core.spec.types import decimal_parameters

# Up to so many rows Python is done before Arrow's kernels have started, one of which takes 5 to 10 µs, and several
# times as long when the processor has not run it lately, as between two small commits.
LOOP_ROWS = 128

Items: TypeAlias = list[Any]  # Any: values of one type, and None for a null
Taker: TypeAlias = Callable[[pa.Array], tuple[Items, np.ndarray | None]]
Texts: TypeAlias = list[bytes | None]


class SmallColumn(NamedTuple):  # a frozen dataclass takes four times as long to make, and a commit makes dozens
    """The values of a column, a field or the members of a list, in order; a null struct makes nulls of its fields.

    `items` of a struct are whether it is there, of a list or map its number of members, None when it is null.
    `array` is what they were taken from; where it has no simple values, `items` is None.
    `numbers` are the items of numbers and booleans as numpy has them, with anything in the place of a null.
    """

    column: Column
    array: pa.Array
    items: Items | None
    numbers: np.ndarray | None = None
    children: tuple[SmallColumn, ...] = ()

    def leaves(self) -> Iterator[SmallColumn]:
        if not self.column.is_nested:
            yield self
        for child in self.children:
            yield from child.leaves()


def take_values(table: pa.Table, columns: Sequence[Column]) -> tuple[SmallColumn, ...]:
    """Return the values of each column; the table's columns are those of `columns`, of type `arrow_type`."""
    batches = table.to_batches()
    arrays = batches[0].columns if len(batches) == 1 else map(single, table.itercolumns())
    return tuple([take(array) for take, array in zip(_takers_of(columns), arrays, strict=True)])


@per_object
def _takers_of(columns: Sequence[Column]) -> list[Callable[[pa.Array], SmallColumn]]:
    return [_value_taker(column) for column in columns]


def _value_taker(column: Column) -> Callable[[pa.Array], SmallColumn]:
    if column.is_nested:
        return partial(_take_nested, column, _takers_of(column.children))
    take = taker_of(column.type)
    return partial(_take_array, column) if take is None else partial(_take_items, column, take)


def _take_array(column: Column, array: pa.Array) -> SmallColumn:
    return SmallColumn(column, plain(array), None)


def _take_items(column: Column, take: Taker, array: pa.Array) -> SmallColumn:
    array = plain(array)
    items, numbers = take(array)
    return SmallColumn(column, array, items, numbers)


def _take_nested(column: Column, takers: Sequence[Callable[[pa.Array], SmallColumn]], array: pa.Array) -> SmallColumn:
    if column.type == "struct":
        items, parts = validity(array) or [True] * len(array), array.flatten()
    else:
        items, parts = _with_nulls(list_lengths(array).tolist(), array), list_members(array)
    children = tuple([take(part) for take, part in zip(takers, parts, strict=True)])
    return SmallColumn(column, array, items, None, children)


def validity(array: pa.Array) -> list[bool] | None:
    """Return whether each value is there; None when no one is missing."""
    if array.null_count == 0:
        return None
    bits = np.unpackbits(np.frombuffer(array.buffers()[0], np.uint8), bitorder="little")
    valid: list[bool] = bits[array.offset : array.offset + len(array)].astype(bool).tolist()
    return valid


def _with_nulls(items: Items, array: pa.Array) -> Items:
    valid = validity(array)
    return items if valid is None else [item if is_there else None for item, is_there in zip(items, valid, strict=True)]


# --------------------------------------------------------------------------------------------- take


def _taker(dtype: str) -> Taker:
    numpy_type = np.dtype(dtype)
    width = numpy_type.itemsize

    def take(array: pa.Array) -> tuple[Items, np.ndarray]:
        count = len(array)
        if count == 0:
            return [], np.empty(0, numpy_type)  # Arrow promises no buffers then
        numbers = np.frombuffer(array.buffers()[1], numpy_type, count, array.offset * width)
        items = numbers.tolist()
        return (items if array.null_count == 0 else _with_nulls(items, array)), numbers

    return take


def _take_booleans(array: pa.Array) -> tuple[Items, np.ndarray]:
    if len(array) == 0:
        return [], np.empty(0, np.uint8)  # Arrow promises no buffers then
    bits = np.unpackbits(np.frombuffer(array.buffers()[1], np.uint8), bitorder="little")
    numbers = bits[array.offset : array.offset + len(array)]
    return _with_nulls(numbers.tolist(), array), numbers


def _take_decimals(array: pa.Array) -> tuple[Items, None]:
    """Take the lower half of Arrow's 128 bits, which holds up to 18 digits."""
    if len(array) == 0:
        return [], None  # see _taker
    halves = np.frombuffer(array.buffers()[1], "<i8")[2 * array.offset : 2 * (array.offset + len(array)) : 2]
    return _with_nulls(halves.tolist(), array), None


def _take_bytes(array: pa.Array) -> tuple[Items, None]:
    if len(array) == 0:
        return [], None  # Arrow promises no buffers then
    _, offsets, data = array.buffers()
    ends = np.frombuffer(offsets, np.int32, len(array) + 1, array.offset * 4).tolist()
    first = ends[0]
    content = b"" if data is None else data.slice(first, ends[-1] - first).to_pybytes()
    if first:
        ends = [end - first for end in ends]
    return _with_nulls([content[start:end] for start, end in pairwise(ends)], array), None


@lru_cache(maxsize=256)
def taker_of(type_: str) -> Taker | None:
    """Return what takes the values out of an array, None for types that have no simple ones."""
    if type_.startswith("decimal"):
        precision, _ = decimal_parameters(type_) or (0, 0)
        return _take_decimals if precision <= 18 else None
    return _TAKERS.get(type_)


_TAKERS: Mapping[str, Taker] = {
    "boolean": _take_booleans,
    **{f"int{bits}": _taker(f"<i{bits // 8}") for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": _taker(f"<u{bits // 8}") for bits in (8, 16, 32, 64)},
    "float32": _taker("<f4"),
    "float64": _taker("<f8"),
    "date": _taker("<i4"),
    **dict.fromkeys(("time", "time_ns"), _taker("<i8")),
    **dict.fromkeys(("timestamp", "timestamp_s", "timestamp_ms", "timestamp_ns", "timestamptz"), _taker("<i8")),
    **dict.fromkeys(("varchar", "json", "blob"), _take_bytes),
}


# --------------------------------------------------------------------------------------------- text


def small_texts(values: SmallColumn) -> list[str | None]:
    """Return DuckDB's text of each value, as `spec.text.to_text` does."""
    return [None if text is None else text.decode() for text in small_utf8(values)]


def small_utf8(values: SmallColumn) -> Texts:
    """Return the same as bytes."""
    column, items = values.column, values.items
    if column.type == "struct":
        return _struct_texts(values)
    if column.is_nested:
        return _list_texts(values)
    if items is None:
        return _take_bytes(scalar_to_text(values.array, column.type))[0]
    if column.type in ("varchar", "json"):
        return items
    quick = _QUICK_TEXTS.get(column.type) if len(items) > _FEW_TEXTS else None
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
    opening, closing = (b"[", b"]") if values.column.type == "list" else (b"{", b"}")
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
    texts: Texts = _take_bytes(pc.call_function("cast", [array], _AS_TEXT))[0]
    return texts


_AS_TEXT = pc.CastOptions(
    pa.string()
)  # `Array.cast` makes one each time, which takes as long as to write thirty numbers
_MOMENT = pa.timestamp("us")
_SECONDS_END = len("2026-01-01 00:00:00")
_FEW_TEXTS = 20  # from here on Arrow, which writes a whole column at once, is faster
_QUICK_TEXTS: Mapping[str, Callable[[SmallColumn], Texts | None]] = {
    "float64": _float_texts,
    "timestamp": _timestamp_texts(b""),
    "timestamptz": _timestamp_texts(b"+00"),
}


@lru_cache(maxsize=256)
def text_of(type_: str) -> Callable[[Any], str]:  # Any: a value of the type
    """Return what makes DuckDB's text of one value that `taker_of` took."""
    if type_.startswith("decimal"):
        precision, scale = decimal_parameters(type_) or (0, 0)
        return partial(_decimal_text, precision=precision, scale=scale)
    return _TEXTS[type_]


def _decimal_text(unscaled: int, precision: int, scale: int) -> str:
    if scale == 0:
        return str(unscaled)
    digits = str(abs(unscaled)).rjust(scale + (precision > scale), "0")
    return f"{'-' if unscaled < 0 else ''}{digits[:-scale]}.{digits[-scale:]}"


_TEXTS: Mapping[str, Callable[[Any], str]] = {  # Any: see text_of
    "boolean": lambda value: "true" if value else "false",
    **dict.fromkeys((f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)), str),
    "float32": lambda value: format_float32(np.float32(value)),
    "float64": repr,
    "date": temporal.format_date,
    "time": lambda value: temporal.format_time(value, 10**6),
    "time_ns": lambda value: temporal.format_time(value, 10**9),
    "timestamp": lambda value: temporal.format_timestamp(value, 10**6, ""),
    "timestamp_s": lambda value: temporal.format_timestamp(value, 1, ""),
    "timestamp_ms": lambda value: temporal.format_timestamp(value, 1000, ""),
    "timestamp_ns": lambda value: temporal.format_timestamp(value, 10**9, ""),
    "timestamptz": lambda value: temporal.format_timestamp(value, 10**6, "+00"),
    **dict.fromkeys(("varchar", "json"), bytes.decode),
    "blob": escape_blob,
}
