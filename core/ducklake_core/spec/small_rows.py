"""Few rows as Python's own values: what the twins of `spec.text`, `plan.inlined_rows` and the encoders work on. Pure.

Moments and decimals are whole numbers here (ticks, days, unscaled digits), strings and blobs are bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from ducklake_core.model import Column
from ducklake_core.spec.arrays import list_lengths, list_members, plain, single
from ducklake_core.spec.kinds import Kind, decimal_parameters
from ducklake_core.spec.memo import per_object
from ducklake_core.spec.thresholds import SMALL_ROWS
from ducklake_core.spec.types import NUMPY_TYPES, arrow_type

Items: TypeAlias = list[Any]  # Any: values of one type, and None for a null
Taker: TypeAlias = Callable[[pa.Array], tuple[Items, np.ndarray | None]]


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


SmallRows: TypeAlias = tuple[SmallColumn, ...]


def small_rows(table: pa.Table, columns: Sequence[Column]) -> SmallRows | None:
    """Return what `extract_values` does, or None when there are so many rows that kernels are faster."""
    return extract_values(table, columns) if table.num_rows <= SMALL_ROWS else None


def extract_values(table: pa.Table, columns: Sequence[Column]) -> SmallRows:
    """Return the values of each column; the table's columns are those of `columns`, of type `arrow_type`."""
    batches = table.to_batches()
    arrays = batches[0].columns if len(batches) == 1 else map(single, table.itercolumns())
    return tuple([take(array) for take, array in zip(_extractors_of(columns), arrays, strict=True)])


@per_object
def _extractors_of(columns: Sequence[Column]) -> list[Callable[[pa.Array], SmallColumn]]:
    return [_value_taker(column) for column in columns]


def _value_taker(column: Column) -> Callable[[pa.Array], SmallColumn]:
    if column.is_nested:
        return partial(_extract_nested, column, _extractors_of(column.children))
    take = partial(_extract_items, column, extractor_of(column.type))
    is_stored_otherwise = isinstance(arrow_type(column), pa.BaseExtensionType)
    return (lambda array: take(plain(array))) if is_stored_otherwise else take


def _extract_items(column: Column, take: Taker | None, array: pa.Array) -> SmallColumn:
    if take is None:
        return SmallColumn(column, array, None)
    items, numbers = take(array)
    return SmallColumn(column, array, items, numbers)


def _extract_nested(
    column: Column, extractors: Sequence[Callable[[pa.Array], SmallColumn]], array: pa.Array
) -> SmallColumn:
    if column.kind is Kind.STRUCT:
        items, parts = validity(array) or [True] * len(array), array.flatten()
    else:
        items, parts = _with_nulls(list_lengths(array).tolist(), array), list_members(array)
    children = tuple([take(part) for take, part in zip(extractors, parts, strict=True)])
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


def _extractor(dtype: str) -> Taker:
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


def _extract_booleans(array: pa.Array) -> tuple[Items, np.ndarray]:
    if len(array) == 0:
        return [], np.empty(0, np.uint8)  # Arrow promises no buffers then
    bits = np.unpackbits(np.frombuffer(array.buffers()[1], np.uint8), bitorder="little")
    numbers = bits[array.offset : array.offset + len(array)]
    return _with_nulls(numbers.tolist(), array), numbers


def _extract_decimals(array: pa.Array) -> tuple[Items, None]:
    """Take the lower half of Arrow's 128 bits, which holds up to 18 digits."""
    if len(array) == 0:
        return [], None  # see _extractor
    halves = np.frombuffer(array.buffers()[1], "<i8")[2 * array.offset : 2 * (array.offset + len(array)) : 2]
    return _with_nulls(halves.tolist(), array), None


def extract_bytes(array: pa.Array) -> tuple[Items, None]:
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
def extractor_of(type_: str) -> Taker | None:
    """Return what takes the values out of an array, None for types that have no simple ones."""
    decimal = decimal_parameters(type_)
    if decimal is not None:
        return _extract_decimals if decimal.fits_int64 else None
    return _TAKERS.get(type_)


_TAKERS: Mapping[str, Taker] = {
    "boolean": _extract_booleans,
    **{type_: _extractor(dtype) for type_, dtype in NUMPY_TYPES.items()},
    **dict.fromkeys(("varchar", "json", "blob"), extract_bytes),
}
