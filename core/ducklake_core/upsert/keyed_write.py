"""Applies events to one pending table: finds the rows of their keys, decides, ends old versions, adds new ones.

Runs on the driver. It reads at the transaction's base, and notes that what it writes rests on the rows it found there:
the commit is refused when another has changed rows of the table since.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from ducklake_core.errors import InvalidInput, UntoldValue
from ducklake_core.model import Column
from ducklake_core.pending import PendingTable
from ducklake_core.plan.conform import conform
from ducklake_core.row_writes import RowWriter
from ducklake_core.spec.memo import per_object_while_same
from ducklake_core.spec.names import fold
from ducklake_core.upsert.decision import Decision, decide, duplicates, first_of_each
from ducklake_core.upsert.differences import differ
from ducklake_core.upsert.events import Events, key_columns
from ducklake_core.upsert.hits import NEW_ROW, AllHits, taken
from ducklake_core.upsert.memory import SearchMemory
from ducklake_core.upsert.old_values import OldValues
from ducklake_core.upsert.row_changes import RowChanges
from ducklake_core.upsert.rules import UpsertRules
from ducklake_core.upsert.search import Found, Search
from ducklake_core.upsert.search_tasks import Compare

_SHOWN = 5


class KeyedWrite:
    """One batch of events on its way into one table."""

    def __init__(
        self, writer: RowWriter, pending: PendingTable, events: Events, rules: UpsertRules, memory: SearchMemory
    ) -> None:
        self._writer = writer
        self._pending = pending
        self._events = events
        self._rules = rules
        self._memory = memory
        self._keys = key_columns(pending.table, rules)
        self._old = OldValues(writer.storage, pending.table.columns, writer.base.snapshot_id, memory, self._keys)
        self._changes = RowChanges(writer, pending, rules)

    def find(self, read_columns: Sequence[Column] = ()) -> Found:
        """Return the rows of the events' keys; raise InvalidInput for keys that the table has twice."""
        found = self._search(read_columns).run()
        numbers = found.numbers
        if self._rules.on_duplicate_keys == "error":
            self._refuse_duplicates(duplicates(numbers, self._events.index.count))
        return found

    def decide(self, found: Found, is_late: np.ndarray) -> Decision:
        exists = np.zeros(self._events.index.count, bool)
        exists[found.numbers] = True
        return decide(self._events.is_delete, exists, is_late)

    def refuse_untold(self, decision: Decision) -> None:
        """Raise UntoldValue for values that rows should keep, where there are no such rows."""
        untold, row_of = self._events.untold, self._events.row_of
        if untold is None:
            return
        is_new = decision.is_inserted | (decision.is_matched & self._events.replaces)
        new = np.flatnonzero(is_new)
        lacking = new[untold.lacks(row_of[new])]
        if len(lacking):
            shown = self._events.keys.take(lacking[:_SHOWN]).to_pylist()
            first, columns = untold.columns_of(row_of[lacking[:1]])[0], untold.columns_of(row_of[lacking])
            raise UntoldValue(
                f"table '{self._pending.table.qualified_name}' has no row with the key {shown[0]}, whose event does not"
                f" tell column '{first}': a row that is new must have all values",
                keys=shown,
                columns=columns,
                rows=untold.events_of(lacking),
            )

    def apply(self, found: Found, decision: Decision) -> int:
        """End and add rows; return how many rows have other values now."""
        hits = AllHits.of(found.hits)
        numbers, repeated = hits.numbers, duplicates(hits.numbers, self._events.index.count)
        is_first = _is_first(hits) if repeated.any() else np.ones(len(numbers), bool)
        is_matched = decision.is_matched[numbers] & is_first
        is_ended = decision.is_deleted[numbers] | (decision.is_matched[numbers] & ~is_first)
        is_changed = self._change(hits.only(is_matched), repeated) if is_matched.any() else np.empty(0, bool)
        is_ended[np.flatnonzero(is_matched)[is_changed]] = True
        self._end(hits.only(is_ended), found)
        inserted = np.flatnonzero(decision.is_inserted)
        if len(inserted):
            self._changes.insert(self._inserted(inserted))
        self._changes.write()
        return int(is_changed.sum())

    # ---- changing

    def _change(self, matched: AllHits, repeated: np.ndarray) -> np.ndarray:
        """Add new versions of rows, those that differ or whose key is repeated; return which."""
        rows = self._new_rows(matched)
        is_changed = self._old.changed(matched, rows) | repeated[matched.numbers]
        is_changed |= self._is_reset(matched, rows, ~is_changed)
        if is_changed.any():
            changed = matched.only(is_changed)
            new = rows if is_changed.all() else rows.filter(pa.array(is_changed))
            self._changes.add(self._whole(changed, new), changed.row_ids)
        return np.asarray(is_changed)

    def _end(self, ended: AllHits, found: Found) -> None:
        """End rows: committed ones, and those that the transaction itself has added."""
        for hits in ended.parts:
            self._changes.end(hits)
        self._changes.end_in(found.committed)
        own = [hits.numbers for hits in ended.parts if hits.part is None]
        if own:
            search, gone = self._search(()), np.concatenate(own)

            def is_ended(rows: pa.Table) -> np.ndarray:
                kept, numbers = search.find(rows)
                return np.asarray(kept[np.isin(numbers, gone)])

            self._writer.change_own(self._pending, is_ended, None)

    def _new_rows(self, hits: AllHits) -> pa.Table:
        """Return what the events say of rows; a value that is not told, or a null that says nothing, is the row's."""
        places = self._events.row_of[hits.numbers]
        rows = taken(self._events.rows, places)
        if not self._rules.ignore_null_updates:
            return self._kept(hits, rows, places)
        names = set(rows.column_names)
        given = [c for c in self._pending.table.columns if c.name in names]
        old = self._old.read_all(hits, given)
        keeps = ~self._events.replaces[hits.numbers]
        columns = [_filled(new, known, keeps) for new, known in zip(rows.columns, old.columns, strict=True)]
        return pa.table(columns, names=rows.column_names)

    def _kept(self, hits: AllHits, rows: pa.Table, places: np.ndarray) -> pa.Table:
        """Return rows with what they have where their events do not tell it."""
        untold = self._events.untold
        names = [] if untold is None else untold.columns_of(places)
        if untold is None or not names:
            return rows
        old = self._old.read_all(hits, [c for c in self._pending.table.columns if c.name in names])
        for name in names:
            is_told = ~untold.cells[name][places]
            kept = _spread(rows.column(name).filter(pa.array(is_told)), old.column(name), is_told)
            rows = rows.set_column(rows.column_names.index(name), name, kept)
        return rows

    def _is_reset(self, hits: AllHits, rows: pa.Table, asked: np.ndarray) -> np.ndarray:
        """Tell of rows that are asked for whether they were deleted before and had other values than new rows get."""
        missing, found = self._missing(rows), np.asarray(self._events.replaces[hits.numbers] & asked)
        if not missing or not found.any():
            return np.zeros(len(asked), bool)
        fresh = self._completed(rows.filter(pa.array(found))).select([c.name for c in missing])
        found[found] = differ(self._old.read_all(hits.only(found), missing), fresh)
        return found

    def _whole(self, hits: AllHits, rows: pa.Table) -> pa.Table:
        """Return rows with all columns of the table: those that events lack stay as they are."""
        table, missing = self._pending.table, self._missing(rows)
        if missing:
            old, is_new = self._old.read_all(hits, missing), self._events.replaces[hits.numbers]
            fresh = self._completed(rows.filter(pa.array(is_new))) if is_new.any() else old.slice(0, 0)
            for column in missing:
                kept = _spread(fresh.column(column.name), old.column(column.name), is_new)
                rows = rows.append_column(column.name, kept)
            rows = rows.select([c.name for c in table.columns])
        return rows if self._rules.says_all else conform(rows, table.columns, table.qualified_name)

    def _missing(self, rows: pa.Table) -> Sequence[Column]:
        return _missing(self._pending.table.columns, rows.schema)

    def _completed(self, rows: pa.Table) -> pa.Table:
        """Return new rows with all columns of the table: those that events lack have their defaults."""
        table, rules = self._pending.table, self._rules
        if rules.says_all:  # the events have them, as the table has them
            return rows
        return conform(rows, table.columns, table.qualified_name, fill_missing=rules.fill_missing)

    def _inserted(self, numbers: np.ndarray) -> pa.Table:
        return self._completed(taken(self._events.rows, self._events.row_of[numbers]))

    # ---- finding

    def _search(self, read_columns: Sequence[Column]) -> Search:
        index, compare = self._events.index, self._compare()
        return Search(self._writer, self._pending, self._keys, index, self._memory, tuple(read_columns), compare)

    def _compare(self) -> Compare | None:
        """Return what tells of rows that are found whether they change; None where events say a part of a row only."""
        events, rules = self._events, self._rules
        says_part = rules.ignore_null_updates or events.untold is not None or bool(self._missing(events.rows))
        return None if says_part or not events.rows.num_rows else Compare(events.rows, events.row_of)

    def _refuse_duplicates(self, is_duplicate: np.ndarray) -> None:
        found = np.flatnonzero(is_duplicate)
        if len(found):
            shown = self._events.keys.take(found[:_SHOWN]).to_pylist()
            raise InvalidInput(
                f"table '{self._pending.table.qualified_name}' has {len(found)} keys of this batch more than once, such"
                f" as {shown}: delete the rows that should not be there, or use on_duplicate_keys='keep_first'",
                keys=shown,
            )


@per_object_while_same(pa.Schema.equals)
def _missing(columns: tuple[Column, ...], schema: pa.Schema) -> Sequence[Column]:
    """Return the columns that rows of a schema lack."""
    names = {fold(name) for name in schema.names}
    return [c for c in columns if fold(c.name) not in names]


def _is_first(hits: AllHits) -> np.ndarray:
    """Return which row of each key is kept: all, unless some key is there twice."""
    is_new = hits.row_ids == NEW_ROW  # rows of the transaction come last
    return first_of_each(hits.numbers, np.where(is_new, np.iinfo(np.int64).max, hits.row_ids))


def _filled(new: pa.ChunkedArray, old: pa.ChunkedArray, keeps: np.ndarray) -> pa.ChunkedArray:
    is_given = new.is_valid().to_numpy() | ~keeps
    return _spread(new.filter(pa.array(is_given)), old, is_given)


def _spread(some: pa.ChunkedArray, others: pa.ChunkedArray, is_some: np.ndarray) -> pa.ChunkedArray:
    """Return an array with some values, one after the other, where a mask says so; of any type."""
    both = pa.chunked_array([*some.chunks, *others.chunks], type=some.type)
    return both.take(pa.array(np.where(is_some, np.cumsum(is_some) - 1, len(some) + np.arange(len(is_some)))))
