"""The catalog rows of a table's statistics (format §10): what new rows and wider types make of the old ones. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from ducklake_core.model import TableColumnStats, TableId, TableStats, TableVersion
from ducklake_core.plan.staged import RewrittenBounds, TableWrites
from ducklake_core.plan.statistics import changed_stats, merge_table_stats, widened_float
from ducklake_core.plan.writes import DeleteRows, InsertRows, UpdateRows, Write


@dataclass(frozen=True, eq=False)
class StatsChange:
    """The statistics of a table that gets rows: from what they were to what they will be, worked out when asked for."""

    table: TableVersion
    writes: TableWrites
    old: TableStats | None
    next_row_id: int

    @cached_property
    def new(self) -> TableStats:
        """The statistics once the rows are there: only ever wider than before."""
        files, inlined = self.writes.files, self.writes.inlined
        added = [s for rows in inlined for s in rows.stats(self.old)] + [s for f in files for s in f.column_stats]
        is_within = self.old is not None and not added  # few rows within the bounds have none to add
        row_count = sum(r.rows.num_rows for r in inlined) + sum(f.record_count for f in files)
        return TableStats(
            (self.old.record_count if self.old else 0) + row_count,
            self.next_row_id,
            (self.old.file_size_bytes if self.old else 0) + sum(f.file_size_bytes for f in files),
            self.old.columns if self.old and is_within else merge_table_stats(self.old, added, self.table.columns),
        )


def stats_writes(change: StatsChange) -> Iterator[Write]:
    """Yield what makes the old statistics of a table into the new ones."""
    table, old, new = change.table, change.old, change.new
    if old is None or old.is_recovered:
        row = table_stats_row(table.table_id, new)
        if old is not None:  # what remains of it is not to be trusted
            for name in ("ducklake_table_stats", "ducklake_table_column_stats"):
                yield DeleteRows(name, ({"table_id": table.table_id},))
        yield InsertRows("ducklake_table_stats", (row,))
        if new.columns:
            yield InsertRows("ducklake_table_column_stats", tuple(_bounds(table, s) for s in new.columns.values()))
        return
    yield from changed_stats_writes(table, old, new)


def changed_stats_writes(table: TableVersion, old: TableStats, new: TableStats) -> Iterator[Write]:
    """Yield what makes the statistics that a table has into others."""
    yield UpdateRows("ducklake_table_stats", ("table_id",), (table_stats_row(table.table_id, new),))
    changed = new.columns is not old.columns and changed_stats(old, new.columns)
    if changed:
        rows = tuple(_bounds(table, s) for s in changed)
        yield UpdateRows("ducklake_table_column_stats", ("table_id", "column_id"), rows)


def table_stats_row(table_id: TableId, stats: TableStats) -> dict[str, Any]:
    return {
        "table_id": table_id,
        "record_count": stats.record_count,
        "next_row_id": stats.next_row_id,
        "file_size_bytes": stats.file_size_bytes,
    }


def bounds_writes(
    table: TableVersion, rewritten_bounds: Sequence[RewrittenBounds], stats: TableStats | None
) -> Iterator[Write]:
    """Yield the new texts of bounds that were written under a narrower type."""
    known = stats.columns if stats else {}
    for bounds in rewritten_bounds:
        if bounds.files:
            rows = tuple(
                {"data_file_id": i, "column_id": bounds.column_id, "min_value": low, "max_value": high}
                for i, low, high in bounds.files
            )
            yield UpdateRows("ducklake_file_column_stats", ("data_file_id", "column_id"), rows)
        old = known.get(bounds.column_id)
        if old is not None:
            new = replace(old, min_value=widened_float(old.min_value), max_value=widened_float(old.max_value))
            yield UpdateRows("ducklake_table_column_stats", ("table_id", "column_id"), (_bounds(table, new),))


def _bounds(table: TableVersion, stats: TableColumnStats) -> dict[str, Any]:
    return {
        "table_id": table.table_id,
        "column_id": stats.column_id,
        "contains_null": stats.contains_null,
        "contains_nan": stats.contains_nan,
        "min_value": stats.min_value,
        "max_value": stats.max_value,
        "extra_stats": stats.extra_stats,
    }
