"""Applies a batch of events to a table of a transaction, and to its companion. Runs on the driver."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from ducklake_core.model import Column
from ducklake_core.pending import PendingTable
from ducklake_core.row_writes import RowWriter
from ducklake_core.upsert.companion import Companion, forget_rows
from ducklake_core.upsert.decision import decide
from ducklake_core.upsert.events import Arrived, Events, is_kept_in_table, sequence_columns
from ducklake_core.upsert.keyed_write import KeyedWrite
from ducklake_core.upsert.memory import UpsertMemory
from ducklake_core.upsert.report import UpsertReport
from ducklake_core.upsert.rules import UpsertRules
from ducklake_core.upsert.sequence import late_events

# Gives the pending companion; the flag: make one if there is none.
FindCompanion: TypeAlias = Callable[[tuple[Column, ...], bool], PendingTable | None]
# Numbers of keys, and the sequence that is known of each.
Stored: TypeAlias = Sequence[tuple[np.ndarray, pa.Table]]


class EventBatch:
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
        self._sequence = sequence_columns(pending.table, data.schema, rules)
        self._in_table = is_kept_in_table(pending.table, rules)
        self._arrived = Arrived.of(data, pending.table, rules)
        self._events = self._arrived.last()

    def apply(self, find_companion: FindCompanion, *, purges: bool) -> UpsertReport:
        """Change the rows; `purges`: forget deleted keys that are old enough, where a companion is written to."""
        events, truncated = self._events, 0
        if events.has_truncate:
            self._refuse_untold_of_no_rows(find_companion)
            truncated = self._truncate(find_companion)
        write = self._write(events)
        found = write.find(self._sequence if self._in_table else ())
        companion = self._companion(find_companion)
        known = None if companion is None else companion.find()
        stored = [*found.select([c.name for c in self._sequence])] if self._in_table else []
        if companion is not None and known is not None:
            stored += companion.sequences(known)
        is_late = self._late(stored)
        told = self._without_late(stored, is_late)
        write = write if told is events else self._write(told)
        decision = write.decide(found, is_late)
        write.refuse_untold(decision)
        updated = write.apply(found, decision)
        if companion is not None and known is not None:
            companion.remember(known, is_late)
            if purges:
                companion.forget_before(self._now - self._rules.keep_deleted)
        inserted, deleted, late = (int(m.sum()) for m in (decision.is_inserted, decision.is_deleted, is_late))
        return UpsertReport(
            events=events.event_count,
            superseded=events.event_count - events.index.count,
            inserted=inserted,
            updated=updated,
            deleted=deleted,
            unchanged=events.index.count - inserted - updated - deleted - late,
            late=late,
            truncated=truncated,
            files_opened=found.files_opened,
            files_pruned=found.files_pruned,
        )

    def _refuse_untold_of_no_rows(self, find: FindCompanion) -> None:
        """Raise UntoldValue for what rows of an emptied table cannot keep, before it is emptied."""
        if self._rules.kept_columns is None:
            return
        nobody, companion = np.zeros(self._events.index.count, bool), self._companion(find, makes_one=False)
        stored = [] if companion is None else [*companion.deleted_keys()]
        is_late = self._late(stored)
        write = self._write(self._without_late(stored, is_late))
        write.refuse_untold(decide(self._events.is_delete, nobody, is_late))

    def _truncate(self, find: FindCompanion) -> int:
        """Empty the table, and forget the sequences of its rows; return how many there were."""
        companion = find(self._sequence, False) if self._sequence else None  # noqa: FBT003 # none is made
        if companion is not None:
            forget_rows(self._writer, companion)
        return self._writer.delete_replaced(self._pending, None)

    def _companion(self, find: FindCompanion, *, makes_one: bool = True) -> Companion | None:
        """Return the companion, if the events need one: made now, where there is something to be kept in it."""
        if not self._sequence or not self._events.index.count:
            return None
        is_needed = not self._in_table or bool(self._events.is_delete.any())
        pending = find(self._sequence, is_needed and makes_one)
        if pending is None:
            return None
        return Companion(self._writer, pending, self._events, not self._in_table, self._now, self._memory.companion)

    def _write(self, events: Events) -> KeyedWrite:
        return KeyedWrite(self._writer, self._pending, events, self._rules, self._memory.table)

    def _late(self, stored: Stored) -> np.ndarray:
        """Tell of each key whether a later event than its last one is known."""
        numbers, sequence = np.arange(self._events.index.count), self._events.sequence
        return np.zeros(len(numbers), bool) if sequence is None else late_events(numbers, sequence, stored)

    def _without_late(self, stored: Stored, is_late: np.ndarray) -> Events:
        """Return the events again, without what late ones say of rows that a later one of the batch changes in part."""
        arrived, rules = self._arrived, self._rules
        says_part = rules.ignore_null_updates or rules.fill_missing or rules.kept_columns is not None
        if not says_part or arrived.sequence is None:
            return self._events
        numbers = arrived.index.numbers
        passed_over = late_events(numbers, arrived.sequence, stored) & ~is_late[numbers]
        return arrived.last(passed_over) if passed_over.any() else self._events
