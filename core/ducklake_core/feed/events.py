"""The row events of one data file in a range of snapshots: which rows it inserted, and which of its rows were deleted.

Runs on driver and executors; needs no catalog. A row carries the snapshot that inserted it, its file's deletes say
which one deleted it, and what happened in the range follows from these two (format §9.2). A row that one snapshot both
inserted and deleted was never seen by anyone: it has no event.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np
import pyarrow as pa

from ducklake_core.feed.task import ChangedFile, ChangeTask, FeedMode
from ducklake_core.files.delete_files import first_deletes, read_all_deletes
from ducklake_core.files.parquet_reader import (
    POSITIONS,
    ROW_IDS,
    SNAPSHOT_IDS,
    ReadRequest,
    iterate_data_file,
)
from ducklake_core.files.row_groups import WantedRows
from ducklake_core.files.storage import Storage
from ducklake_core.model import Column, SnapshotId
from ducklake_core.spec.buffers import from_mask, integers_of

_NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True, eq=False)
class Events:
    """Rows that were inserted, or that were deleted, and the snapshots that did it."""

    rows: pa.RecordBatch  # in the columns asked for
    row_ids: np.ndarray
    snapshots: np.ndarray
    is_delete: bool

    def filter(self, kept: np.ndarray) -> Events:
        if kept.all():
            return self
        rows = self.rows.filter(from_mask(kept)) if self.rows.num_columns else self.rows
        return Events(rows, self.row_ids[kept], self.snapshots[kept], self.is_delete)

    def split(self, task: ChangeTask) -> tuple[Events | None, Events | None]:
        """Return those whose kind is known by themselves, and those of which it depends on others; None for none."""
        if not task.needs_counterparts:
            return self, None
        is_open = self.are_open(task)
        if is_open.all():
            return None, self
        return self.filter(~is_open), self.filter(is_open) if is_open.any() else None

    def are_open(self, task: ChangeTask) -> np.ndarray:
        """Return of which events the kind depends on others."""
        if task.mode is FeedMode.NET:
            return np.ones(len(self.row_ids), bool)
        return np.isin(self.snapshots, list(task.update_snapshots))


def events_of(
    rows: pa.RecordBatch, row_ids: np.ndarray, born: np.ndarray, gone: np.ndarray, task: ChangeTask
) -> Iterator[Events]:
    """Yield what happened in a range to rows of which it is known when they were inserted and deleted."""
    span = task.span
    if task.mode is FeedMode.STATE:
        there = (born <= span.end) & (gone > span.end)
        if there.any():
            yield Events(rows, row_ids, np.full(len(born), span.end), is_delete=False).filter(there)
        return
    seen = born != gone
    inserted = seen & (born > span.start) & (born <= span.end)
    silent = task.silent_inserts
    if silent:
        inserted &= ~np.isin(born, list(silent))
    deleted = seen & (gone > span.start) & (gone <= span.end)
    if task.has_gap:
        retained = [snapshot for snapshot, _ in task.times]
        inserted &= np.isin(born, retained)
        deleted &= np.isin(gone, retained)
    if task.mode is not FeedMode.INSERTS and deleted.any():
        yield Events(rows, row_ids, gone, is_delete=True).filter(deleted)
    if inserted.any():
        yield Events(rows, row_ids, born, is_delete=False).filter(inserted)


def snapshot_of_all(changed: ChangedFile, task: ChangeTask) -> SnapshotId | None:
    """Return the snapshot that all rows of a file are told to be inserted by, when nothing else is told of it.

    None: the rows differ, or may differ. The catalog alone tells it, the file is not read.
    """
    file, end = changed.file, task.span.end
    if changed.inlined_deletes or any(d.begin_snapshot <= end for d in file.delete_files) or _is_over(changed, task):
        return None
    if task.mode is FeedMode.STATE:
        return end if (file.partial_max or file.begin_snapshot) <= end else None
    is_open = task.needs_counterparts and (task.mode is FeedMode.NET or file.begin_snapshot in task.update_snapshots)
    if is_open or file.partial_max is not None or not changed.holds_new_rows:
        return None
    return file.begin_snapshot if task.tells_of_inserts(file.begin_snapshot) else None


def read_file_events(
    storage: Storage,
    changed: ChangedFile,
    task: ChangeTask,
    columns: tuple[Column, ...],
    *,
    with_positions: bool = False,
) -> Iterator[Events]:
    """Yield the events of a file, of its span of it, in the columns asked for, and behind them POSITIONS if wanted."""
    file, is_partial = changed.file, changed.file.partial_max is not None
    ends = _RowEnds.of(storage, changed, task)
    wanted = _wanted_rows(changed, task, ends)
    if wanted is not None and wanted.is_empty:
        return
    names = [*(column.name for column in columns), *([POSITIONS] if with_positions else ())]
    is_new = not is_partial and ends.are_none and task.mode is not FeedMode.STATE
    is_new = is_new and task.tells_of_inserts(file.begin_snapshot)
    for record_batch in iterate_data_file(
        storage, file, _request(changed, task, columns), span=changed.span, wanted=wanted, error_snapshot=task.span.end
    ):
        rows, (row_ids, here) = record_batch.select(names), _numbers(record_batch, ROW_IDS, POSITIONS)
        if is_partial:
            [born] = _numbers(record_batch, SNAPSHOT_IDS)
        else:
            born = np.full(len(here), file.begin_snapshot, np.int64)
        if is_new:
            yield Events(rows, row_ids, born, is_delete=False)
        else:
            yield from events_of(rows, row_ids, born, ends.at(here), task)


def _request(changed: ChangedFile, task: ChangeTask, columns: tuple[Column, ...]) -> ReadRequest:
    return ReadRequest(
        columns,
        with_row_ids=True,
        with_snapshot_ids=changed.file.partial_max is not None,
        with_positions=True,
        table_columns=task.table_columns,
        with_threads=len(task.files) == 1,
    )


def _numbers(record_batch: pa.RecordBatch, *names: str) -> list[np.ndarray]:
    return [integers_of(record_batch.column(name)) for name in names]


def _wanted_rows(changed: ChangedFile, task: ChangeTask, ends: _RowEnds) -> WantedRows | None:
    """Return of which rows the row groups must be read; None: of all."""
    may_skip = changed.file.partial_max is not None or not changed.holds_new_rows
    if ends.of_all != _NEVER or task.mode is FeedMode.STATE or not may_skip:
        return None
    deleted = ends.positions[ends.snapshots > task.span.start]
    return WantedRows(deleted, task.span if changed.holds_new_rows else None)


@dataclass(frozen=True, slots=True, eq=False)
class _RowEnds:
    """Which snapshots deleted rows of a file, up to the end of a range: some by positions, and all others at once."""

    positions: np.ndarray
    snapshots: np.ndarray
    of_all: int

    @classmethod
    def of(cls, storage: Storage, changed: ChangedFile, task: ChangeTask) -> Self:
        ended = changed.file.end_snapshot
        of_all = ended if ended is not None and _is_over(changed, task) else _NEVER
        return cls(*_deletes(storage, changed, task), of_all)

    @property
    def are_none(self) -> bool:
        return self.of_all == _NEVER and not len(self.positions)

    def at(self, here: np.ndarray) -> np.ndarray:
        """Return the snapshots that deleted the rows at positions which follow each other."""
        gone = np.full(len(here), self.of_all, np.int64)
        first, last = np.searchsorted(self.positions, (here[0], here[-1] + 1))
        gone[self.positions[first:last] - here[0]] = self.snapshots[first:last]
        return gone


def _is_over(changed: ChangedFile, task: ChangeTask) -> bool:
    """Tell whether all rows that a file had left were deleted at once; a rewrite only moves them."""
    ended = changed.file.end_snapshot
    return ended is not None and ended <= task.span.end and ended not in task.rewrites


def _deletes(storage: Storage, changed: ChangedFile, task: ChangeTask) -> tuple[np.ndarray, np.ndarray]:
    """Return the positions deleted up to the end of the range, each with the first snapshot that did."""
    delete_files = [d for d in changed.file.delete_files if d.begin_snapshot <= task.span.end]
    positions, snapshots = read_all_deletes(storage, delete_files)
    if changed.inlined_deletes:
        inlined = np.asarray(changed.inlined_deletes, np.int64)
        positions, snapshots = first_deletes(
            np.concatenate([positions, inlined[:, 0]]), np.concatenate([snapshots, inlined[:, 1]])
        )
    known = (snapshots <= task.span.end) & (positions < changed.file.record_count)
    return positions[known], snapshots[known]
