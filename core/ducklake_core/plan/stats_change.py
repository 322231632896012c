"""The statistics of a table that gets rows: from what they were to what they will be. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from ducklake_core.model import TableStats, TableVersion
from ducklake_core.plan.staged import TableWrites
from ducklake_core.plan.statistics import merge_table_stats


@dataclass(frozen=True, eq=False)
class StatsChange:
    """Worked out when it is asked for: the rows can be on their way by then, for nothing depends on it."""

    table: TableVersion
    writes: TableWrites
    old: TableStats | None
    next_row_id: int

    @cached_property
    def new(self) -> TableStats:
        """The statistics once the rows are there: only ever wider than before."""
        files, inlined = self.writes.files, self.writes.inlined
        added = [s for rows in inlined for s in rows.stats(self.old)] + [s for f in files for s in f.column_stats]
        row_count = sum(r.rows.num_rows for r in inlined) + sum(f.record_count for f in files)
        return TableStats(
            (self.old.record_count if self.old else 0) + row_count,
            self.next_row_id,
            (self.old.file_size_bytes if self.old else 0) + sum(f.file_size_bytes for f in files),
            merge_table_stats(self.old, added, self.table.columns),
        )
