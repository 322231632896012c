"""Applies a batch of events to a table that keeps all versions of its rows (SCD type 2). Runs on the driver.

The versions of the batch's keys are read, planned anew, and what differs is written: plain keys at once
(`plain_history`), the others key by key (`key_history`). Changes that no version shows are kept in a companion
(`hidden_changes`), so that what comes late finds its place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from ducklake_core.model import TableVersion
from ducklake_core.pending import PendingTable
from ducklake_core.plan.predicates import Comparison, FieldRef, Operator
from ducklake_core.row_writes import RowWriter
from ducklake_core.upsert.companion import SCHEMA
from ducklake_core.upsert.events import Arrived
from ducklake_core.upsert.hidden_changes import NOTED_AT, column_name, hidden_rows
from ducklake_core.upsert.history_columns import HistoryColumns
from ducklake_core.upsert.hits import NEW_ROW
from ducklake_core.upsert.key_history import Change, HistoryPlan, Version
from ducklake_core.upsert.keyed_rows import KeyedRows
from ducklake_core.upsert.known_history import KeptRows, KnownHistory, know_history
from ducklake_core.upsert.memory import UpsertMemory
from ducklake_core.upsert.plain_history import UNTIL_NOW
from ducklake_core.upsert.report import UpsertReport
from ducklake_core.upsert.rules import UpsertRules

# Gives the pending companion; the flag: make one if there is none.
FindHidden: TypeAlias = Callable[[bool], PendingTable | None]
Plans: TypeAlias = Mapping[int, HistoryPlan]


def hidden_name(table: TableVersion) -> str:
    """Return the name of the companion of a table; it stays when the table is renamed."""
    return f"{SCHEMA}.history_{table.table_uuid.hex}"


class HistoryBatch:
    """One batch of events on its way into a table and its companion."""

    def __init__(
        self,
        writer: RowWriter,
        pending: PendingTable,
        data: pa.Table,
        rules: UpsertRules,
        memory: UpsertMemory,
        now: datetime,
    ) -> None:
        self._writer = writer
        self._pending = pending
        self._rules = rules
        self._memory = memory
        self._now = now
        self._columns = HistoryColumns.of(pending.table, rules)
        self._arrived = Arrived.of(data, self._columns.rows, rules)

    def apply(self, find_hidden: FindHidden, *, purges: bool) -> UpsertReport:
        """Change the versions; `purges`: forget hidden changes that are old enough, where there is a companion."""
        stored = self._find()
        hidden = self._find_hidden(find_hidden(False))  # noqa: FBT003 # none is made
        companion = None if hidden is None else KeptRows(hidden.numbers, hidden.values)
        known = know_history(self._columns, self._arrived, KeptRows(stored.numbers, stored.values), companion)
        plans = known.plans()
        self._write(stored, known, plans)
        if hidden is None and any(plan.hidden for plan in plans.values()):
            hidden = self._find_hidden(find_hidden(True))  # noqa: FBT003 # made now
        if hidden is not None:
            self._hide(hidden, known, plans)
            if purges:
                self._forget_old(hidden.pending)
        return self._report(stored, known, plans)

    def _find(self) -> KeyedRows:
        columns, index = self._columns, self._arrived.index
        return KeyedRows.find(self._writer, self._pending, columns.keys, columns.start, index, self._memory.table)

    def _find_hidden(self, companion: PendingTable | None) -> KeyedRows | None:
        if companion is None:
            return None
        named = {c.name: c for c in companion.table.columns}
        keys = tuple(named[column_name(c)] for c in self._columns.keys)
        start, index = named[column_name(self._columns.start)], self._arrived.index
        return KeyedRows.find(self._writer, companion, keys, start, index, self._memory.companion)

    def _write(self, stored: KeyedRows, known: KnownHistory, plans: Plans) -> None:
        """End and add versions; one that changes keeps its row id."""
        ended: list[int] = []
        versions: list[Version] = []
        row_ids: list[int] = []
        for number, plan in plans.items():
            places = known.versions.get(number, {})
            changed = [places[before] for before, _ in plan.updated]
            ended += [*changed, *(places[gone] for gone in plan.deleted)]
            versions += [*(after for _, after in plan.updated), *plan.inserted]
            row_ids += [*stored.row_ids[changed].tolist(), *[NEW_ROW] * len(plan.inserted)]
        plain = known.plain
        ids = [np.asarray(row_ids, np.int64), stored.row_ids[plain.ended], np.full(len(plain.begun.rows), NEW_ROW)]
        rows = self._version_rows(known, versions)
        stored.change([*ended, *plain.ended.tolist()], rows, np.concatenate(ids), self._rules)

    def _version_rows(self, known: KnownHistory, versions: Sequence[Version]) -> pa.Table:
        """Return versions as rows: those that are given, then plain ones that end, then plain ones that begin."""
        plain, old, columns = known.plain, known.stored, self._columns
        planned = np.asarray([(v.row, v.start, v.end or UNTIL_NOW) for v in versions], np.int64).reshape(-1, 3)
        ended = np.stack([old.rows[plain.ended], old.starts[plain.ended], plain.ended_at], axis=1)
        begun = np.stack([plain.begun.rows, plain.begun.ranks, np.full(len(plain.begun.rows), UNTIL_NOW)], axis=1)
        places, starts, ends = np.concatenate([planned, ended, begun]).T
        rows = known.rows.take(pa.array(places))
        rows = rows.append_column(columns.start.name, known.ranks.take(starts))
        rows = rows.append_column(columns.end.name, known.ranks.take(ends))
        return rows.select([c.name for c in self._pending.table.columns])

    def _hide(self, hidden: KeyedRows, known: KnownHistory, plans: Plans) -> None:
        """Keep the changes that no version shows, and forget those that one shows now."""
        gone: list[int] = []
        new: list[tuple[int, Change]] = []
        for number, plan in plans.items():
            kept, wanted = known.hidden.get(number, {}), set(plan.hidden)
            gone += [place for change, place in kept.items() if change not in wanted]
            new += [(number, change) for change in plan.hidden if change not in kept]
        is_delete = np.asarray([change.row is None for _, change in new], bool)
        rows = known.rows.take(pa.array([change.row for _, change in new], pa.int64()))
        keys = self._arrived.keys().take(pa.array([number for number, _ in new], pa.int64()))
        starts = known.ranks.take([change.rank for _, change in new])
        added = hidden_rows(self._columns, keys, rows, starts, is_delete, self._now)
        hidden.change(gone, added, np.full(len(new), NEW_ROW), self._rules)

    def _forget_old(self, companion: PendingTable) -> None:
        column = companion.table.column(NOTED_AT)
        assert column is not None  # noqa: S101 # each companion has it
        limit = pa.scalar(self._now - self._rules.keep_deleted, pa.timestamp("us", "UTC"))
        self._writer.delete(companion, Comparison(FieldRef(column, (NOTED_AT,)), Operator.LT, limit))

    def _report(self, stored: KeyedRows, known: KnownHistory, plans: Plans) -> UpsertReport:
        count, changes, plain = self._arrived.event_count, known.changes.values(), known.plain
        counted = int(plain.is_plain.sum()) + sum(len({change.rank for change in of_key}) for of_key in changes)
        return UpsertReport(
            events=count,
            superseded=count - counted,
            inserted=len(plain.begun.rows) + sum(len(plan.inserted) for plan in plans.values()),
            updated=len(plain.ended) + sum(len(plan.updated) for plan in plans.values()),
            deleted=sum(len(plan.deleted) for plan in plans.values()),
            unchanged=sum(not plan.changes_versions for plan in plans.values()),
            files_opened=stored.found.files_opened,
            files_pruned=stored.found.files_pruned,
        )
