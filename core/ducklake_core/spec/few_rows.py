"""A column of few rows as Python's own values: encoded and measured without starting a kernel for each. Pure.

Moments and decimals are whole numbers here (ticks, days, unscaled digits), strings and blobs are bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from ducklake_core.model import Column
from ducklake_core.spec import temporal_text as temporal
from ducklake_core.spec.arrays import list_lengths, list_members, plain, single
from ducklake_core.spec.nested_text import is_bare, quoted_name
from ducklake_core.spec.scalar_text import escape_blob, format_float32, scalar_to_text
from ducklake_core.spec.types import decimal_parameters

# Up to so many rows Python is done before Arrow's kernels have started, one of which takes 5 to 10 µs, and several
# times as long when the processor has not run it lately, as between two small commits.
LOOP_ROWS = 128

Items: TypeAlias = list[Any]  # Any: values of one type, and None for a null


@dataclass(frozen=True, slots=True)
class FewValues:
    """The values of a column, a field or the members of a list, in order; a null struct makes nulls of its fields.

    `items` of a struct are whether it is there, of a list or map its number of members, None when it is null.
    `array` is what they were taken from; where it has no simple values, `items` is None.
    """

    column: Column
    array: pa.Array
    items: Items | None
    children: tuple[FewValues, ...] = ()

    def leaves(self) -> Iterator[FewValues]:
        if not self.column.is_nested:
            yield self
        for child in self.children:
            yield from child.leaves()


def few_values(table: pa.Table, columns: Sequence[Column]) -> tuple[FewValues, ...]:
    """Return the values of each column; the table's columns are those of `columns`, of type `arrow_type`."""
    batches = table.to_batches()
    arrays = batches[0].columns if len(batches) == 1 else map(single, table.itercolumns())
    return tuple(_values(array, column) for array, column in zip(arrays, columns, strict=True))


def _values(array: pa.Array, column: Column) -> FewValues:
    array = plain(array)
    if not column.is_nested:
        take = taker_of(column.type)
        return FewValues(column, array, take(array) if take else None)
    if column.type == "struct":
        items, parts = _validity(array) or [True] * len(array), array.flatten()
    else:
        items, parts = _with_nulls(list_lengths(array).tolist(), array), list_members(array)
    children = tuple(_values(part, child) for part, child in zip(parts, column.children, strict=True))
    return FewValues(column, array, items, children)


def _validity(array: pa.Array) -> list[bool] | None:
    """Return whether each value is there; None when no one is missing."""
    if array.null_count == 0:
        return None
    bits = np.unpackbits(np.frombuffer(array.buffers()[0], np.uint8), bitorder="little")
    valid: list[bool] = bits[array.offset : array.offset + len(array)].astype(bool).tolist()
    return valid


def _with_nulls(items: Items, array: pa.Array) -> Items:
    valid = _validity(array)
    return items if valid is None else [item if is_there else None for item, is_there in zip(items, valid, strict=True)]


# --------------------------------------------------------------------------------------------- take


def _taker(dtype: str) -> Callable[[pa.Array], Items]:
    numpy_type = np.dtype(dtype)
    width = numpy_type.itemsize

    def take(array: pa.Array) -> Items:
        if len(array) == 0:
            return []  # Arrow promises no buffers then
        items = np.frombuffer(array.buffers()[1], numpy_type, len(array), array.offset * width).tolist()
        return items if array.null_count == 0 else _with_nulls(items, array)

    return take


def _take_booleans(array: pa.Array) -> Items:
    if len(array) == 0:
        return []  # Arrow promises no buffers then
    bits = np.unpackbits(np.frombuffer(array.buffers()[1], np.uint8), bitorder="little")
    return _with_nulls(bits[array.offset : array.offset + len(array)].tolist(), array)


def _take_decimals(array: pa.Array) -> Items:
    """Take the lower half of Arrow's 128 bits, which holds up to 18 digits."""
    if len(array) == 0:
        return []  # see _taker
    halves = np.frombuffer(array.buffers()[1], "<i8")[2 * array.offset : 2 * (array.offset + len(array)) : 2]
    return _with_nulls(halves.tolist(), array)


def _take_bytes(array: pa.Array) -> Items:
    if len(array) == 0:
        return []  # Arrow promises no buffers then
    _, offsets, data = array.buffers()
    ends = np.frombuffer(offsets, np.int32, len(array) + 1, array.offset * 4).tolist()
    first = ends[0]
    content = b"" if data is None else data.slice(first, ends[-1] - first).to_pybytes()
    if first:
        ends = [end - first for end in ends]
    return _with_nulls([content[start:end] for start, end in pairwise(ends)], array)


@lru_cache(maxsize=256)
def taker_of(type_: str) -> Callable[[pa.Array], Items] | None:
    """Return what takes the values out of an array, None for types that have no simple ones."""
    if type_.startswith("decimal"):
        precision, _ = decimal_parameters(type_) or (0, 0)
        return _take_decimals if precision <= 18 else None
    return _TAKERS.get(type_)


_TAKERS: Mapping[str, Callable[[pa.Array], Items]] = {
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


def few_texts(values: FewValues) -> list[str | None]:
    """Return DuckDB's text of each value, as `spec.text.to_text` does."""
    column = values.column
    if values.items is None:
        texts: list[str | None] = scalar_to_text(values.array, column.type).to_pylist()
        return texts
    if not column.is_nested:
        quick = _QUICK_TEXTS.get(column.type) if len(values.items) > _FEW_TEXTS else None
        text = text_of(column.type)
        return quick(values) if quick else [None if item is None else text(item) for item in values.items]
    if column.type == "struct":
        return _struct_texts(values, values.items)
    return _list_texts(values, values.items)


def _struct_texts(values: FewValues, items: Items) -> list[str | None]:
    labels = [quoted_name(child.column.name).replace("%", "%%") for child in values.children]
    form = "{" + ",".join(f"{label}:%s" for label in labels) + "}"
    rows = zip(*map(_member_texts, values.children), strict=True)
    return [form % texts if is_there else None for is_there, texts in zip(items, rows, strict=True)]


def _list_texts(values: FewValues, items: Items) -> list[str | None]:
    opening, closing = "[]" if values.column.type == "list" else "{}"
    members = [_member_texts(child) for child in values.children]
    texts = members[0] if len(members) == 1 else [f"{key}={value}" for key, value in zip(*members, strict=True)]
    found: list[str | None] = []
    start = 0
    for count in items:
        end = start + (count or 0)
        found.append(None if count is None else opening + ",".join(texts[start:end]) + closing)
        start = end
    return found


def _member_texts(values: FewValues) -> list[str]:
    """Return the texts of values inside a container, `NULL` for a null."""
    texts = few_texts(values)
    if is_bare(values.column):
        return ["NULL" if text is None else text for text in texts]
    return ["NULL" if text is None else f"'{text}'" if _is_plain(text) else quoted_name(text) for text in texts]


def _is_plain(text: str) -> bool:
    return "'" not in text and "\\" not in text


def _float_texts(values: FewValues) -> list[str | None]:
    """Let Arrow write the numbers, and Python those that Arrow writes otherwise: as `1`, `1e+10` or `0.00001`."""
    pairs = zip(values.array.cast(pa.string()).to_pylist(), values.items or (), strict=True)
    return [text if text is None or _is_usual(text, item) else repr(item) for text, item in pairs]


def _is_usual(text: str, item: float) -> bool:
    return "." in text and "e" not in text and not -1e-4 < item < 1e-4


def _timestamp_texts(suffix: str) -> Callable[[FewValues], list[str | None]]:
    """Let Arrow write the moments, unless one is beyond its calendar."""

    def write(values: FewValues) -> list[str | None]:
        if not temporal.is_usual_timestamp(values.array):
            text = text_of(values.column.type)
            return [None if item is None else text(item) for item in values.items or ()]
        texts = values.array.view(pa.timestamp("us")).cast(pa.string()).to_pylist()
        return [None if text is None else text.rstrip("0").rstrip(".") + suffix for text in texts]

    return write


_FEW_TEXTS = 20  # from here on Arrow, which writes a whole column at once, is faster
_QUICK_TEXTS: Mapping[str, Callable[[FewValues], list[str | None]]] = {
    "float64": _float_texts,
    "timestamp": _timestamp_texts(""),
    "timestamptz": _timestamp_texts("+00"),
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
