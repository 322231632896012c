"""Which snapshots a change feed reads, and whether they are all still there. Pure.

A range is `(start, end]`: the changes of every snapshot after `start`, up to and with `end`. Snapshot ids have no
holes, so an id that is missing has expired.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from ducklake_core.errors import SnapshotsExpired
from ducklake_core.model import SnapshotId, SnapshotSpan, TableId
from ducklake_core.spec.changes import ROW_DELETES, ROW_INSERTS, ChangeKind, TableChange, parse_changes
from ducklake_core.spec.rows import HistoryRow

_REWRITES = frozenset({ChangeKind.REWRITE_DELETE, ChangeKind.COMPACTED_TABLE})


@dataclass(frozen=True, slots=True)
class TableSnapshot:
    """A snapshot, and what its changes text says that it did to the rows of one table."""

    snapshot_id: SnapshotId
    time: datetime
    schema_version: int
    next_file_id: int
    kinds: frozenset[ChangeKind]

    @property
    def inserts(self) -> bool:
        return bool(self.kinds & ROW_INSERTS)

    @property
    def may_delete(self) -> bool:
        """Tell whether rows may have been deleted or updated; a flush that moves deletes of before says so, too."""
        return bool(self.kinds & ROW_DELETES)

    @property
    def deletes(self) -> bool:
        """Tell whether rows were deleted or updated; a flush alone deletes nothing."""
        is_flush = ChangeKind.INLINE_FLUSH in self.kinds and ChangeKind.INLINED_DELETE not in self.kinds
        return self.may_delete and not is_flush

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

    @property
    def is_rewrite(self) -> bool:
        """Tell whether files were ended and begun only to leave deleted rows behind: no row has changed."""
        return bool(self.kinds & _REWRITES)

    @property
    def may_update(self) -> bool:
        """Tell whether a row may have been updated: one version of it deleted, and another inserted."""
        return self.inserts and self.may_delete


@dataclass(frozen=True, slots=True)
class History:
    """The snapshots of a range that are still there, oldest first, and the newest one that is not after its start."""

    span: SnapshotSpan
    base: TableSnapshot | None
    snapshots: tuple[TableSnapshot, ...]

    @property
    def first_new_file_id(self) -> int:
        """What every file registered after the start has at least as its id: ids are never given twice."""
        return self.base.next_file_id if self.base else 0

    def only(self, snapshot: TableSnapshot) -> History:
        """Return the history of one of its snapshots alone."""
        index = self.snapshots.index(snapshot)
        base = self.snapshots[index - 1] if index else self.base
        return History(SnapshotSpan(SnapshotId(snapshot.snapshot_id - 1), snapshot.snapshot_id), base, (snapshot,))

    @property
    def kinds(self) -> frozenset[ChangeKind]:
        """Everything that was done to the table."""
        return frozenset(kind for snapshot in self.snapshots for kind in snapshot.kinds)

    @property
    def rewrites(self) -> frozenset[int]:
        return frozenset(s.snapshot_id for s in self.snapshots if s.is_rewrite)

    @property
    def update_snapshots(self) -> frozenset[int]:
        return frozenset(s.snapshot_id for s in self.snapshots if s.may_update)


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
        "before has expired, so that rows are missing. Read the table as it is now and go on from there (a new "
        "checkpoint without 'startingVersion'), or accept the loss with failOnDataLoss=false; to prevent it, keep "
        "snapshots for longer than any reader may stand still",
        table=table,
        start=span.start,
        end=span.end,
        first_lost=first,
        last_lost=last,
    )
