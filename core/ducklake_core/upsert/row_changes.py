"""Rows of one pending table that an upsert ends and adds. Runs on the driver."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from ducklake_core.committed_rows import CommittedRows
from ducklake_core.pending import PendingTable
from ducklake_core.read.parts import FileRows
from ducklake_core.read.positions import RowPositions
from ducklake_core.row_writes import INLINE_BYTES, RowWriter
from ducklake_core.upsert.hits import NEW_ROW, Hits
from ducklake_core.upsert.rules import UpsertRules


@dataclass(slots=True)
class RowChanges:
    """Collects them: committed rows that end, new versions with the ids of the old, and rows that are new."""

    writer: RowWriter
    pending: PendingTable
    rules: UpsertRules
    _ended: RowPositions = field(default_factory=RowPositions)
    _rows: list[pa.Table] = field(default_factory=list)
    _row_ids: list[np.ndarray] = field(default_factory=list)
    _fresh: list[pa.Table] = field(default_factory=list)

    def end(self, hits: Hits) -> None:
        """End committed rows; those that the transaction has added itself are the caller's."""
        if not len(hits.positions) or hits.part is None:
            return
        if isinstance(hits.part, FileRows):
            self._ended.add_of_file(hits.part.file.data_file_id, hits.positions)
        else:
            self._ended.add_inlined(hits.part.inlined.name, hits.positions)

    def add(self, rows: pa.Table, row_ids: np.ndarray) -> None:
        """Add rows with their ids, which are NEW_ROW for those that have none."""
        has_id = row_ids != NEW_ROW
        if has_id.all():
            self._rows.append(rows)
            self._row_ids.append(row_ids)
            return
        if has_id.any():
            self._rows.append(rows.filter(pa.array(has_id)))
            self._row_ids.append(row_ids[has_id])
        self.insert(rows.filter(pa.array(~has_id)))

    def insert(self, rows: pa.Table) -> None:
        self._fresh.append(rows)

    def end_in(self, committed: CommittedRows) -> None:
        committed.end(self._ended)

    def write(self) -> None:
        """Put what was added into the transaction."""
        limits = self._limits()
        if self._rows:
            self.writer.add(self.pending, _joined(self._rows), np.concatenate(self._row_ids), *limits)
        if self._fresh:
            self.writer.add(self.pending, _joined(self._fresh), None, *limits)

    def _limits(self) -> tuple[int, int]:
        rules = self.rules
        row_limit = self.pending.options.row_limit if rules.inline_rows is None else rules.inline_rows
        return row_limit, INLINE_BYTES if rules.inline_bytes is None else rules.inline_bytes


def _joined(tables: Sequence[pa.Table]) -> pa.Table:
    """Return rows as one; they may differ in nullability."""
    return tables[0] if len(tables) == 1 else pa.concat_tables(tables, promote_options="default")
