"""Statistics of the rows that a commit inlines, as texts of the catalog (format §10). Pure.

`files.statistics` has those of data files, where bounds ignore NaN and long texts are cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import pyarrow as pa

from ducklake_core.model import Column, ColumnStats, TableStats
from ducklake_core.plan.bounds import UNKNOWN, find_bounds
from ducklake_core.plan.small_stats import SmallStats, is_covered, small_stats
from ducklake_core.spec.arrays import leaves, single
from ducklake_core.spec.small_rows import SmallRows

Measured: TypeAlias = Sequence[ColumnStats] | Sequence[SmallStats]


def measure_rows(table: pa.Table, columns: Sequence[Column], small: SmallRows | None) -> Measured:
    """Return the statistics of each leaf; `small` are the values of the rows when these are few."""
    return inlined_stats(table, columns) if small is None else small_stats(small)


def stats_beyond(known: TableStats | None, measured: Measured) -> list[ColumnStats]:
    """Return the statistics of each leaf, of few rows only those that change what is known of their table."""
    columns = None if known is None else known.columns
    return [
        stats if isinstance(stats, ColumnStats) else stats.to_stats()
        for stats in measured
        if isinstance(stats, ColumnStats) or columns is None or not is_covered(stats, columns)
    ]


def inlined_stats(table: pa.Table, columns: Sequence[Column]) -> tuple[ColumnStats, ...]:
    """Return the statistics of each leaf of the columns, in the texts of inlined rows.

    The table's columns are those of `columns`, in that order and of type `arrow_type`. A NaN is the largest number, and
    `contains_nan` stays unknown, as the extension has it for inlined rows.
    """
    return tuple(
        _leaf_stats(leaf, values)
        for index, column in enumerate(columns)
        for leaf, values in leaves(single(table.column(index)), column)
    )


def _leaf_stats(leaf: Column, values: pa.Array) -> ColumnStats:
    null_count = values.null_count
    value_count = len(values) - null_count
    low, high = find_bounds(values, leaf.type) if value_count else UNKNOWN
    return ColumnStats(leaf.column_id, value_count, null_count, low, high)
