"""The changes of a task by the places of their rows, for who reads the files by another reader. Runs on the driver.

Which rows have events is decided as for our own reader, of the same numbers: positions, row ids and snapshots. Only
these are read of the files, and of those whose rows are all inserted by one snapshot not even they are.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from ducklake_core.feed.change_types import ChangeType
from ducklake_core.feed.events import Events, read_file_events, snapshot_of_all
from ducklake_core.feed.rows import ChangeBatchBuilder, inlined_events, settle
from ducklake_core.feed.task import ChangedFile, ChangeTask, InlinedChanges, InlinedPart
from ducklake_core.files.parquet_reader import POSITIONS
from ducklake_core.files.storage import Storage
from ducklake_core.model import SnapshotId


@dataclass(frozen=True, slots=True, eq=False)
class LocatedChanges:
    """Rows of a file that were inserted, or that were deleted: where they are, when, and which are halves of an update.

    `positions` are sorted. None: all rows, by one snapshot, none of them updated.
    """

    changed: ChangedFile
    is_delete: bool
    positions: np.ndarray | None
    snapshots: np.ndarray
    are_updates: np.ndarray

    @classmethod
    def of_all(cls, changed: ChangedFile, snapshot: SnapshotId) -> LocatedChanges:
        return cls(changed, False, None, np.array([snapshot], np.int64), np.zeros(1, bool))  # noqa: FBT003 # a field


@dataclass(frozen=True, slots=True)
class Located:
    """What some files of a task and its inlined rows tell: the files' by places, the inlined ones as rows."""

    files: tuple[LocatedChanges, ...]
    inlined: tuple[pa.RecordBatch, ...]  # of the feed's schema


def locate_changes(storage: Storage, task: ChangeTask, files: Sequence[ChangedFile], *, threads: int = 1) -> Located:
    """Return the changes of some files of a task that has everything, and of the inlined rows that travel in it.

    What else the task has is only asked for the other halves of updates.
    """
    located, read = [], []
    for changed in files:
        snapshot = snapshot_of_all(changed, task)
        if snapshot is None:
            read.append(changed)
        else:
            located.append(LocatedChanges.of_all(changed, snapshot))
    found = _Found(task)
    with ThreadPoolExecutor(threads) as pool:
        for changed, events in zip(read, pool.map(lambda one: _events(storage, one, task), read), strict=True):
            for one in events:
                found.add(one, changed)
    for part in task.inlined:
        if isinstance(part, InlinedChanges):
            for one in inlined_events(part, task, task.columns):
                found.add(one, None)
    found.settle(storage, _with_rest_as_counterparts(task, files))
    return Located((*located, *found.files()), tuple(found.inlined))


def _events(storage: Storage, changed: ChangedFile, task: ChangeTask) -> list[Events]:
    return list(read_file_events(storage, changed, task, (), with_positions=True))


def _with_rest_as_counterparts(task: ChangeTask, files: Sequence[ChangedFile]) -> ChangeTask:
    known = {changed.file.data_file_id for changed in files}
    rest = tuple(changed for changed in task.files if changed.file.data_file_id not in known)
    left: tuple[InlinedPart, ...] = tuple(
        p.without_columns() for p in task.inlined if not isinstance(p, InlinedChanges)
    )
    return replace(task, counterpart_files=rest, counterpart_inlined=left)


class _Found:
    """Events with their codes, as far as they are known."""

    def __init__(self, task: ChangeTask) -> None:
        self.inlined: list[pa.RecordBatch] = []
        self._task = task
        self._builder = ChangeBatchBuilder(task)
        self._held: list[tuple[Events, ChangedFile | None]] = []
        self._of_files: defaultdict[tuple[int, bool], list[tuple[ChangedFile, Events, np.ndarray]]] = defaultdict(list)

    def add(self, events: Events, changed: ChangedFile | None) -> None:
        """Take events of a file, or of inlined rows."""
        told, still_open = events.split(self._task)
        if still_open is not None:
            self._held.append((still_open, changed))
        if told is not None:
            code = ChangeType.delete if told.is_delete else ChangeType.insert
            self._tell(told, np.full(len(told.row_ids), code, np.int8), changed)

    def settle(self, storage: Storage, task: ChangeTask) -> None:
        """Find out what the events are that depend on others."""
        if not self._held:
            return
        codes = settle(storage, task, [events for events, _ in self._held])
        for (events, changed), own in zip(self._held, codes, strict=True):
            kept = own >= 0
            if kept.any():
                self._tell(events.filter(kept), own[kept], changed)
        self._held.clear()

    def files(self) -> Iterator[LocatedChanges]:
        for (_, is_delete), found in self._of_files.items():
            positions = np.concatenate([events.rows.column(POSITIONS).to_numpy() for _, events, _ in found])
            snapshots = np.concatenate([events.snapshots for _, events, _ in found])
            codes = np.concatenate([codes for *_, codes in found])
            order = np.argsort(positions, kind="stable")
            are_updates = codes[order] >= ChangeType.update_postimage
            yield LocatedChanges(found[0][0], is_delete, positions[order], snapshots[order], are_updates)

    def _tell(self, events: Events, codes: np.ndarray, changed: ChangedFile | None) -> None:
        if changed is None:
            self.inlined.append(self._builder.record_batch(events, codes))
        else:
            self._of_files[changed.file.data_file_id, events.is_delete].append((changed, events, codes))
