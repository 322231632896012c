"""Twin of `inlined_stats` for few rows: compared with the statistics of their table before any text is made. Pure.

Most rows lie within the bounds that their table has already: then there is nothing to write, and no text to be made.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from ducklake_core.model import ColumnId, ColumnStats, TableColumnStats
from ducklake_core.plan.bounds import UNKNOWN, BoundTexts, find_bounds, without_nul
from ducklake_core.plan.order import Key, key_of_item, key_of_text
from ducklake_core.spec.kinds import Kind
from ducklake_core.spec.scalar_text import text_of
from ducklake_core.spec.small_rows import Items, SmallColumn, SmallRows

# Looked up once: with Python 3.11 that takes longer than to compare texts, and a small commit asks dozens of times.
_BLOB, _FLOAT, _TEXT = Kind.BLOB, Kind.FLOAT, Kind.TEXT


class SmallStats(NamedTuple):
    """One leaf of some rows: how many are null, and its smallest and largest value, None where only texts compare."""

    leaf: SmallColumn
    value_count: int
    null_count: int
    extremes: tuple[Any, Any] | None  # Any: values of one type

    def to_stats(self) -> ColumnStats:
        """Return the statistics as the catalog has them."""
        low, high = self._bounds() if self.value_count else UNKNOWN
        return ColumnStats(self.leaf.column.column_id, self.value_count, self.null_count, low, high)

    def _bounds(self) -> BoundTexts:
        column = self.leaf.column
        if self.extremes is None:
            return find_bounds(self.leaf.array, column.type)
        text = text_of(column.type)
        low, high = text(self.extremes[0]), text(self.extremes[1])
        return without_nul(low, high) if column.kind is _TEXT else (low, high)


def small_stats(rows: SmallRows) -> tuple[SmallStats, ...]:
    """Return the statistics of each leaf."""
    return tuple([_measure(leaf) for column in rows for leaf in (column.leaves() if column.children else (column,))])


def _measure(leaf: SmallColumn) -> SmallStats:
    null_count = leaf.array.null_count
    value_count = len(leaf.array) - null_count
    kind = leaf.column.kind
    if not value_count or leaf.items is None or kind is _BLOB:  # whose bounds are the smallest and largest text
        return SmallStats(leaf, value_count, null_count, None)
    items = [item for item in leaf.items if item is not None] if null_count else leaf.items
    find = _float_extremes if kind is _FLOAT else _extremes
    return SmallStats(leaf, value_count, null_count, find(items))


def _extremes(items: Items) -> tuple[Any, Any]:  # Any: see SmallStats
    return min(items), max(items)


def _float_extremes(items: Items) -> tuple[float, float]:
    """Return the smallest and the largest number; NaN is larger than all others."""
    if not math.isnan(sum(items)):
        return min(items), max(items)
    numbers = [item for item in items if not math.isnan(item)]
    return min(numbers, default=math.nan), math.nan if len(numbers) < len(items) else max(items)


def is_covered(stats: SmallStats, known: Mapping[ColumnId, TableColumnStats]) -> bool:
    """Tell for certain that a table's own statistics stay as they are when rows with these are added."""
    table = known.get(stats.leaf.column.column_id)
    if table is None:
        return True  # a column that has no entry gets none
    if table.contains_nan is not None or table.extra_stats is not None:
        return False
    if stats.null_count and table.contains_null is False:
        return False
    return stats.value_count == 0 or (stats.extremes is not None and _is_within(stats, stats.extremes, table))


def _is_within(stats: SmallStats, extremes: tuple[Any, Any], table: TableColumnStats) -> bool:  # Any: see SmallStats
    low, high = extremes
    column = stats.leaf.column
    if column.kind is _TEXT and (b"\x00" in low or b"\x00" in high):  # see `without_nul`
        return False
    limits = _limits(column.type, table.min_value, table.max_value)
    if limits is None:
        return False
    key = key_of_item(column.type)
    try:
        return bool(limits[0] <= key(low) and key(high) <= limits[1])
    except ValueError:  # bytes that are no text
        return False


@lru_cache(maxsize=4096)  # the bounds of a table meet those of every append
def _limits(type_: str, low: str | None, high: str | None) -> tuple[Key, Key] | None:
    """Return the keys of a table's bounds; None where one is unknown or no value of the type."""
    if low is None or high is None:
        return None
    key = key_of_text(type_)
    try:
        return key(low), key(high)
    except ValueError:
        return None
