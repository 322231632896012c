"""Which row groups of a data file are worth reading, by what its footer says of them. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ducklake_core.model import Column, SnapshotSpan

_TYPES = frozenset({"int8", "int16", "int32", "int64", "varchar"})  # whose bounds are compared as the values are


@dataclass(frozen=True, slots=True, eq=False)
class WantedRows:
    """Rows of which the row groups must be read: those at sorted positions, and those inserted in a range."""

    positions: np.ndarray
    inserted_in: SnapshotSpan | None = None  # only for files that hold rows of several snapshots

    @property
    def is_empty(self) -> bool:
        return self.inserted_in is None and not len(self.positions)

    def has_some(self, start: int, size: int, snapshots: tuple[int, int] | None) -> bool:
        """Tell whether a row group may have some; `snapshots` are its first and last, None when it does not say."""
        first, last = np.searchsorted(self.positions, (start, start + size))
        if first < last or self.inserted_in is None or snapshots is None:
            return bool(first < last) or self.inserted_in is not None
        return snapshots[0] <= self.inserted_in.end and snapshots[1] > self.inserted_in.start


@dataclass(frozen=True, slots=True)
class WantedGroups:
    """Row groups that must be read, by their numbers."""

    numbers: frozenset[int]


@dataclass(frozen=True, slots=True, eq=False)
class WantedKey:
    """Values of a column, sorted; rows with any other are not wanted."""

    column: Column
    values: Sequence[Any] | np.ndarray  # Any: integers or texts

    @classmethod
    def of(cls, column: Column, values: pa.Array) -> WantedKey | None:
        """Return what is wanted; None for values of which a footer does not tell for certain where they are."""
        if column.type not in _TYPES:
            return None
        return cls(column, sorted(values.to_pylist()) if column.type == "varchar" else np.sort(values.to_numpy()))

    def may_be_in(self, group: pq.RowGroupMetaData, leaf: int) -> bool:
        """Tell whether a row group may have one of the values in a leaf of the file."""
        return self.may_be_within(bounds_of(group, leaf))

    def may_be_within(self, bounds: tuple[Any, Any] | None) -> bool:  # Any: as above
        """Tell whether one of the values is within bounds; None: these are not known."""
        if bounds is None:
            return True
        low, high = bounds
        first = bisect_left(self.values, low)
        return bool(first < len(self.values) and self.values[first] <= high)


def bounds_of(group: pq.RowGroupMetaData, leaf: int) -> tuple[Any, Any] | None:  # Any: see WantedKey
    """Return the least and the greatest value of a row group, if it has such and they can be relied on.

    A text that is no UTF-8 is read with replacement characters: the order of such is kept among ASCII texts only.
    """
    found = group.column(leaf).statistics
    if found is None or not found.has_min_max:
        return None
    try:
        low, high = found.min, found.max
    except UnicodeDecodeError:
        return None
    if type(low) is int and type(high) is int:
        return low, high
    is_plain = isinstance(low, str) and isinstance(high, str) and low.isascii() and high.isascii()
    return (low, high) if is_plain else None


def by_group(
    read: Iterable[pa.RecordBatch], groups: Sequence[tuple[int, int]]
) -> Iterator[tuple[int, list[pa.RecordBatch]]]:
    """Yield what is read of row groups one by one; of these, number and size are given, and all rows are read."""
    left, pieces = deque(groups), list[pa.RecordBatch]()
    for record_batch in read:
        rows = record_batch
        while rows.num_rows:
            number, size = left.popleft()
            pieces.append(rows.slice(0, size))
            rows = rows.slice(pieces[-1].num_rows)
            if pieces[-1].num_rows < size:
                left.appendleft((number, size - pieces[-1].num_rows))
            else:
                yield number, pieces
                pieces = []
