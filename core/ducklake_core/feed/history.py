"""Which snapshots a change feed reads, and whether they are all still there. Pure.

A range is `(start, end]`: the changes of every snapshot after `start`, up to and with `end`. Snapshot ids have no
holes, so an id that is missing has expired.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial

from ducklake_core.errors import SnapshotsExpired
from ducklake_core.model import SnapshotId, SnapshotSpan, TableId
from ducklake_core.spec.changes import ROW_DELETES, ROW_INSERTS, ChangeKind, TableChange, parse_changes
from ducklake_core.spec.rows import HistoryRow

_REWRITES = frozenset({ChangeKind.REWRITE_DELETE, ChangeKind.COMPACTED_TABLE})
# What follows from other fields is worked out once: a feed asks it of each snapshot several times.
_derived = partial(field, init=False, repr=False, compare=False)
_set = object.__setattr__


@dataclass(frozen=True, slots=True)
class TableSnapshot:
    """A snapshot, and what its changes text says that it did to the rows of one table."""

    snapshot_id: SnapshotId
    time: datetime
    schema_version: int
    next_file_id: int
    kinds: frozenset[ChangeKind]
    inserts: bool = _derived()
    may_delete: bool = _derived()  # rows, or update them; a flush that moves deletes of before says so, too
    deletes: bool = _derived()  # rows, or updates them; a flush alone deletes nothing
    may_update: bool = _derived()  # a row: one version of it deleted, and another inserted
    is_rewrite: bool = _derived()  # files were ended and begun only to leave deleted rows behind: no row has changed

    def __post_init__(self) -> None:
        inserts, may_delete = bool(self.kinds & ROW_INSERTS), bool(self.kinds & ROW_DELETES)
        is_flush = ChangeKind.INLINE_FLUSH in self.kinds and ChangeKind.INLINED_DELETE not in self.kinds
        _set(self, "inserts", inserts)
        _set(self, "may_delete", may_delete)
        _set(self, "deletes", may_delete and not is_flush)
        _set(self, "may_update", inserts and may_delete)
        _set(self, "is_rewrite", bool(self.kinds & _REWRITES))

    @property
    def may_be_flush(self) -> bool:
        """Tell whether it may be a flush that moves deletes and deletes nothing: only its rows can tell."""
        return ChangeKind.INLINE_FLUSH in self.kinds or self.kinds == {ChangeKind.DELETED_FROM_TABLE}

    @property
    def may_end_files(self) -> bool:
        """Tell whether all rows of a file may have been deleted at once, which leaves no trace in the catalog.

        A flush may be one such: in the reference, a transaction can both flush a table and delete from it.
        """
        return ChangeKind.DELETED_FROM_TABLE in self.kinds


@dataclass(frozen=True, slots=True)
class History:
    """The snapshots of a range that are still there, oldest first, and the newest one that is not after its start."""

    span: SnapshotSpan
    base: TableSnapshot | None
    snapshots: tuple[TableSnapshot, ...]
    kinds: frozenset[ChangeKind] = _derived()  # everything that was done to the table
    rewrites: frozenset[int] = _derived()
    update_snapshots: frozenset[int] = _derived()
    first_new_file_id: int = _derived()  # every file registered after the start has it at least: ids are given once

    def __post_init__(self) -> None:
        _set(self, "kinds", frozenset([kind for snapshot in self.snapshots for kind in snapshot.kinds]))
        _set(self, "rewrites", frozenset([s.snapshot_id for s in self.snapshots if s.is_rewrite]))
        _set(self, "update_snapshots", frozenset([s.snapshot_id for s in self.snapshots if s.may_update]))
        _set(self, "first_new_file_id", self.base.next_file_id if self.base else 0)

    def only(self, snapshot: TableSnapshot) -> History:
        """Return the history of one of its snapshots alone."""
        index = self.snapshots.index(snapshot)
        base = self.snapshots[index - 1] if index else self.base
        return History(SnapshotSpan(SnapshotId(snapshot.snapshot_id - 1), snapshot.snapshot_id), base, (snapshot,))


def history_of(span: SnapshotSpan, rows: Sequence[HistoryRow], table_id: TableId) -> History:
    """Sort out what the catalog has of the snapshots from the newest one not after the start to the end."""
    texts = [row.changes_made for row in rows]
    changes = [None if text is None else parse_changes(text) for text in texts]
    found = [_table_snapshot(row, did, table_id) for row, did in zip(rows, changes, strict=True)]
    base = next((s for s in found if s.snapshot_id <= span.start), None)
    return History(span, base, tuple(s for s in found if s.snapshot_id > span.start))


def _table_snapshot(row: HistoryRow, changes: Iterable[TableChange] | None, table_id: TableId) -> TableSnapshot:
    # A commit without a text may have done anything; one with an empty text has done nothing.
    kinds = ROW_INSERTS | ROW_DELETES
    if changes is not None:
        kinds = frozenset(change.kind for change in changes if change.object_id == table_id)
    return TableSnapshot(row.snapshot_id, row.snapshot_time, row.schema_version, row.next_file_id, kinds)


def find_gap(history: History, table_begin: SnapshotId) -> tuple[SnapshotId, SnapshotId] | None:
    """Return the first and last snapshot whose changes are not, or perhaps not, complete; None when all are.

    `table_begin` is the snapshot that created the table: nothing before it is needed. The rows that a snapshot has
    inserted are there as long as it is. Those that it has deleted are as long as the one before it is: when that has
    expired, files that ended here are gone with it, and the catalog does not tell whether there were any.
    """
    first = max(history.span.start + 1, table_begin)
    there = {s.snapshot_id: s for s in history.snapshots}
    missing = [i for i in range(first, history.span.end + 1) if i not in there]
    if missing:
        return SnapshotId(missing[0]), SnapshotId(missing[-1])
    has_base = history.base is not None and history.base.snapshot_id == first - 1
    if first in there and there[SnapshotId(first)].may_end_files and not has_base and first > table_begin:
        return SnapshotId(first), SnapshotId(first)
    return None


def gap_error(table: str, span: SnapshotSpan, gap: tuple[SnapshotId, SnapshotId]) -> SnapshotsExpired:
    """Return the error for changes that are lost, with what helps."""
    first, last = gap
    lost = f"snapshot {first}" if first == last else f"snapshots {first} to {last}"
    return SnapshotsExpired(
        f"cannot read the changes of table '{table}' after snapshot {span.start} up to {span.end}: {lost} or the one "
        "before has expired, so that rows are missing. Read the table as it is now and go on from there (with Spark: a "
        "new checkpoint without 'startingVersion'), or accept the loss and begin behind it (with Spark: "
        "failOnDataLoss=false); to prevent it, keep snapshots for longer than any reader may stand still",
        table=table,
        start=span.start,
        end=span.end,
        first_lost=first,
        last_lost=last,
    )
