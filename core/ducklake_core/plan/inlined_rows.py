"""Rows that a commit inlines, and their statistics as texts of the catalog (format §10). Pure.

`files.statistics` has those of data files, where bounds ignore NaN and long texts are cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from ducklake_core.model import Column, ColumnStats, TableStats
from ducklake_core.plan.bounds import UNKNOWN, find_bounds
from ducklake_core.plan.small_stats import SmallStats, is_covered, small_stats
from ducklake_core.spec.arrays import leaves, single
from ducklake_core.spec.small_rows import SmallRows, small_rows


@dataclass(frozen=True, eq=False)
class InlinedRows:
    """Rows for the newest inlined table, in the table's columns. `row_ids` None: fresh ids."""

    rows: pa.Table
    columns: tuple[Column, ...]
    row_ids: pa.Array | None = None

    @cached_property
    def small(self) -> SmallRows | None:
        """The values one by one; None when there are so many rows that kernels are faster."""
        return small_rows(self.rows, self.columns)

    @cached_property
    def _measured(self) -> Sequence[ColumnStats] | Sequence[SmallStats]:
        return inlined_stats(self.rows, self.columns) if self.small is None else small_stats(self.small)

    def measure(self) -> None:
        """Compute now what `stats` will need."""
        _ = self._measured

    def stats(self, known: TableStats | None) -> list[ColumnStats]:
        """Return the statistics of each leaf, of few rows only those that change what is known of the table."""
        columns = None if known is None else known.columns
        return [
            stats if isinstance(stats, ColumnStats) else stats.to_stats()
            for stats in self._measured
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
