"""Column statistics of a table, before and after rows come to it. Pure.

A table's bounds only ever widen: DuckDB trusts them so far that a bound narrower than the data gives wrong results,
while an unknown bound (None) costs nothing but speed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import gt, lt
from typing import TypeAlias

import numpy as np

from ducklake_core.model import Column, ColumnId, ColumnStats, TableColumnStats, TableStats
from ducklake_core.plan.bounds import UNKNOWN, BoundTexts
from ducklake_core.plan.order import Key, key_of_text
from ducklake_core.spec.kinds import Kind
from ducklake_core.spec.memo import per_object

Leaf: TypeAlias = tuple[Column, bool]  # and whether it is inside a list or map


def merge_table_stats(
    old: TableStats | None, added: Sequence[ColumnStats], columns: Sequence[Column]
) -> dict[ColumnId, TableColumnStats]:
    """Return the column statistics of a table after rows with the statistics `added` came to it.

    The first rows of a table make one entry per leaf. Later ones widen the entries there are; a column that was added
    in between has none, and gets none, since nobody knows the rows before.
    """
    leaf_of = _leaves_by_id(tuple(columns))
    by_id = _together(added, leaf_of)
    if old is None:
        return {column_id: _first(by_id.get(column_id, ColumnStats(column_id))) for column_id in leaf_of}
    return {
        column_id: _widened(bounds, by_id[column_id], leaf_of[column_id], old.record_count)
        if column_id in by_id and column_id in leaf_of
        else bounds
        for column_id, bounds in old.columns.items()
    }


@per_object
def _leaves_by_id(columns: tuple[Column, ...]) -> dict[ColumnId, Leaf]:
    return {leaf.column_id: (leaf, repeated) for leaf, repeated in _leaves(columns, repeated=False)}


def _together(added: Sequence[ColumnStats], leaves_: Mapping[ColumnId, Leaf]) -> dict[ColumnId, ColumnStats]:
    """Return one entry per column for the rows of several files and batches together."""
    found: dict[ColumnId, ColumnStats] = {}
    for stats in added:
        known = found.get(stats.column_id)
        leaf = leaves_.get(stats.column_id)
        if leaf is not None:
            found[stats.column_id] = stats if known is None else _summed(known, stats, leaf[0])
    return found


def _summed(one: ColumnStats, other: ColumnStats, leaf: Column) -> ColumnStats:
    if one.value_count == 0 or other.value_count == 0:
        bounds = other if one.value_count == 0 else one
        low, high = bounds.min_value, bounds.max_value
    else:
        low, high = _wider(one, other, leaf)
    return ColumnStats(
        one.column_id,
        _sum(one.value_count, other.value_count),
        _sum(one.null_count, other.null_count),
        low,
        high,
        _either(one.contains_nan, other.contains_nan),
        extra_stats=one.extra_stats if one.extra_stats == other.extra_stats else None,
    )


def _sum(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other


def widened_float(text: str | None) -> str | None:
    """Return a bound of a float32 column as the float64 that its values become: `1.1` is 1.100000023841858."""
    return None if text is None else repr(float(np.float32(text)))


def changed_stats(old: TableStats | None, new: Mapping[ColumnId, TableColumnStats]) -> list[TableColumnStats]:
    """Return the entries that are not already in the catalog."""
    known = {} if old is None else old.columns
    return [
        stats for column_id, stats in new.items() if known.get(column_id) is not stats and known.get(column_id) != stats
    ]


def _leaves(columns: Sequence[Column], *, repeated: bool) -> Iterator[tuple[Column, bool]]:
    """Yield each leaf, and whether it is inside a list or map, where a row may hold none of its values."""
    for column in columns:
        if column.is_nested:
            yield from _leaves(column.children, repeated=repeated or column.kind is not Kind.STRUCT)
        else:
            yield column, repeated


def _first(stats: ColumnStats) -> TableColumnStats:
    return TableColumnStats(
        stats.column_id,
        _has_nulls(stats),
        stats.contains_nan,
        stats.min_value,
        stats.max_value,
        stats.extra_stats,
    )


def _widened(old: TableColumnStats, added: ColumnStats, leaf: Leaf, record_count: int) -> TableColumnStats:
    """Return the bounds that hold for both; the old ones themselves when they do."""
    nulls = _either(old.contains_null, _has_nulls(added))
    nan = _either(old.contains_nan, added.contains_nan)
    low, high = _wider_bounds(old, added, leaf, record_count)
    extra = old.extra_stats if old.extra_stats == added.extra_stats else None
    is_same = low == old.min_value and high == old.max_value and extra == old.extra_stats
    if is_same and nulls == old.contains_null and nan == old.contains_nan:
        return old
    return TableColumnStats(old.column_id, nulls, nan, low, high, extra)


def _has_nulls(stats: ColumnStats) -> bool | None:
    return None if stats.null_count is None else stats.null_count > 0


def _either(one: bool | None, other: bool | None) -> bool | None:  # noqa: FBT001 # two of a kind
    return None if one is None or other is None else one or other


def _wider_bounds(old: TableColumnStats, added: ColumnStats, leaf: Leaf, record_count: int) -> BoundTexts:
    if added.value_count == 0:
        return old.min_value, old.max_value
    if old.min_value is None and old.max_value is None:
        return (added.min_value, added.max_value) if _has_no_value(old, leaf, record_count) else UNKNOWN
    return _wider(old, added, leaf[0])


def _wider(one: TableColumnStats | ColumnStats, other: ColumnStats, leaf: Column) -> BoundTexts:
    key = key_of_text(leaf.type)
    try:
        low = _chosen(one.min_value, other.min_value, key, lt)
        high = _chosen(one.max_value, other.max_value, key, gt)
    except ValueError:  # a text that is no value of the type: whoever wrote it, the bounds are unknown now
        return UNKNOWN
    return low, high


def _chosen(
    old: str | None, new: str | None, key: Callable[[str], Key], is_beyond: Callable[[Key, Key], bool]
) -> str | None:
    if old is None or new is None:
        return None
    return new if old != new and is_beyond(key(new), key(old)) else old


def _has_no_value(old: TableColumnStats, leaf: Leaf, record_count: int) -> bool:
    """Tell whether missing bounds mean that there was no value so far; else they are unknown.

    The catalog does not tell the two apart, and the extension always assumes the former. Here it must be certain: nulls
    are known to be there (or the leaf is in a list, which may be empty), and values of the type always have bounds.
    """
    column, repeated = leaf
    if record_count == 0:
        return True
    if old.contains_null is None or old.contains_nan or column.kind is Kind.TEXT:
        return False  # a text has no bounds either when they contain NUL
    return old.contains_null or repeated
