"""Measures values: what ranges the columns of some rows have, and whether statistics leave any of them out. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow as pa

from ducklake_core.files.statistics import LeafRange, bound_texts, leaf_ranges, merge_ranges
from ducklake_core.model import Column, ColumnId, ColumnStats, TableColumnStats
from ducklake_core.plan.file_facts import FieldFacts, facts_of_stats
from ducklake_core.plan.order import float_key, key_of_scalar
from ducklake_core.spec.kinds import Kind

_MANY = 2**62  # a number of rows that no table has


@dataclass(slots=True)
class Measure:
    """The ranges of all leaves of some columns, over the rows that were added so far."""

    columns: tuple[Column, ...]
    rows: int = 0
    _ranges: list[LeafRange] = field(default_factory=list)
    _nulls: dict[ColumnId, int] = field(default_factory=dict)  # of columns that have no parts

    def add(self, rows: pa.Table) -> None:
        """Take in rows with these columns."""
        if not rows.num_rows:
            return
        found = leaf_ranges(self.columns, rows)
        self._ranges = merge_ranges([self._ranges, found], self.columns) if self._ranges else found
        self.rows += rows.num_rows
        for column in self.columns:
            if not column.is_nested:
                nulls = rows.column(column.name).null_count
                self._nulls[column.column_id] = self._nulls.get(column.column_id, 0) + nulls

    def leaves(self) -> Iterator[tuple[Column, LeafRange, int | None]]:
        """Yield each leaf with its range and how many nulls it has; None where rows may have several or none."""
        found = (leaf for column in self.columns for leaf in column.leaves())
        for leaf, measured in zip(found, self._ranges, strict=False):  # no ranges before the first row
            yield leaf, measured, self._nulls.get(leaf.column_id)

    def stats(self) -> list[ColumnStats]:
        """Return the statistics of the rows, as the catalog has them."""
        return [_stats(leaf, measured, nulls) for leaf, measured, nulls in self.leaves()]


def _stats(leaf: Column, measured: LeafRange, nulls: int | None) -> ColumnStats:
    low, high = bound_texts(measured.extremes, leaf)
    has_nan = measured.has_nan if leaf.kind is Kind.FLOAT else None
    values = measured.value_count if nulls is not None else None
    return ColumnStats(leaf.column_id, values, nulls, low, high, has_nan)


def narrow_leaves(measure: Measure, stats: dict[ColumnId, ColumnStats], record_count: int) -> list[Column]:
    """Return the leaves of which a file's statistics leave a value out."""
    return [
        leaf
        for leaf, measured, nulls in measure.leaves()
        if leaf.column_id in stats
        and leaves_out(facts_of_stats(leaf, stats[leaf.column_id], record_count), leaf, measured, nulls)
    ]


def narrow_table_leaves(measure: Measure, stats: dict[ColumnId, TableColumnStats]) -> list[Column]:
    """Return the leaves of which a table's statistics leave a value out."""
    return [
        leaf
        for leaf, measured, nulls in measure.leaves()
        if leaf.column_id in stats and leaves_out(_facts_of_table(leaf, stats[leaf.column_id]), leaf, measured, nulls)
    ]


def _facts_of_table(leaf: Column, stats: TableColumnStats) -> FieldFacts:
    values, nulls = (_MANY, 0) if stats.contains_null is False else (None, None)
    # The reference takes no bounds of floats that may be NaN: those of a file with one are null, and so narrowed later.
    is_used = leaf.kind is not Kind.FLOAT or stats.contains_nan is False
    low, high = (stats.min_value, stats.max_value) if is_used else (None, None)
    told = ColumnStats(leaf.column_id, values, nulls, low, high, stats.contains_nan)
    return facts_of_stats(leaf, told, _MANY)


def leaves_out(facts: FieldFacts, leaf: Column, measured: LeafRange, nulls: int | None) -> bool:
    """Tell whether what is said of a column is not true of some of its values: a reader that trusts it loses rows."""
    if (nulls and not facts.may_have_nulls) or (measured.value_count and not facts.may_have_values):
        return True
    low, high = facts.range.low, facts.range.high
    keys = [key_of_scalar(extreme, leaf.type) for extreme in measured.extremes]
    keys += [float_key(float("nan"))] if measured.has_nan else []
    return any((low is not None and key < low) or (high is not None and key > high) for key in keys)
