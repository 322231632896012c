"""The rows of a change feed: what a task has, read and called by its name. Runs anywhere.

It needs no catalog, but for inlined rows that are too many to travel.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import islice

import numpy as np
import pyarrow as pa

from ducklake_core.errors import InvalidInput
from ducklake_core.feed.change_types import (
    ChangeType,
    change_type_array,
    find_net_changes,
    find_updates,
    one_change_type,
)
from ducklake_core.feed.events import Events, events_of, read_file_events
from ducklake_core.feed.task import ChangedFile, ChangeTask, FeedMode, InlinedPart
from ducklake_core.files.storage import Storage
from ducklake_core.model import Column
from ducklake_core.spec.buffers import from_integers
from ducklake_core.spec.names import fold
from ducklake_core.spec.types import arrow_field

CHANGE_TYPE, COMMIT_VERSION, COMMIT_TIMESTAMP, ROW_ID = "_change_type", "_commit_version", "_commit_timestamp", "_rowid"
CHANGE_FIELDS = (
    pa.field(CHANGE_TYPE, pa.string()),
    pa.field(COMMIT_VERSION, pa.int64()),
    pa.field(COMMIT_TIMESTAMP, pa.timestamp("us", tz="UTC")),
    pa.field(ROW_ID, pa.int64()),
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def change_schema(columns: Sequence[Column]) -> pa.Schema:
    """Return the schema of the feed: the table's columns, then those that tell of the change."""
    own = {field.name for field in CHANGE_FIELDS}
    taken = [column.name for column in columns if fold(column.name) in own]
    if taken:
        raise InvalidInput(
            f"column '{taken[0]}' of the table has the name of a column of the change feed: "
            "choose other columns, or rename it",
            column=taken[0],
        )
    return pa.schema([*map(arrow_field, columns), *CHANGE_FIELDS])


def read_changes(storage: Storage, task: ChangeTask, *, threads: int = 1) -> Iterator[pa.RecordBatch]:
    """Yield the changes of a task, in no order; each record batch has `change_schema`.

    Events of snapshots that only insert or only delete are yielded as they are read. Those of others are held until
    all are there, since a row's update is told by both of its halves. With several threads, as many files are read at
    once, and each as a whole.
    """
    builder = ChangeBatchBuilder(task)
    held: list[Events] = []
    for events in _events(storage, task, task.columns, counterparts=False, threads=threads):
        told, still_open = events.split(task)
        if still_open is not None:
            held.append(still_open)
        if told is not None:
            yield builder.record_batch(told, ChangeType.delete if told.is_delete else ChangeType.insert)
    if held:
        yield from _settled(storage, task, held, builder)


def _settled(
    storage: Storage, task: ChangeTask, held: Sequence[Events], builder: ChangeBatchBuilder
) -> Iterator[pa.RecordBatch]:
    for events, codes in zip(held, settle(storage, task, held), strict=True):
        kept = codes >= 0
        if kept.any():
            yield builder.record_batch(events.filter(kept), codes[kept])


def settle(storage: Storage, task: ChangeTask, held: Sequence[Events]) -> Iterator[np.ndarray]:
    """Yield the codes of events whose kind depends on others: all that are held, and those of the task's counterparts.

    An event whose code is -1 is not told.
    """
    if task.mode is not FeedMode.NET:  # the other half of an update is in the same snapshot
        told = frozenset(np.unique(np.concatenate([e.snapshots for e in held])).tolist())
        task = replace(task, counterpart_files=tuple(f for f in task.counterpart_files if f.may_tell_of(told)))
    others = [e.filter(e.are_open(task)) for e in _events(storage, task, (), counterparts=True)]
    everything = [*held, *others]
    snapshots = np.concatenate([e.snapshots for e in everything])
    row_ids = np.concatenate([e.row_ids for e in everything])
    is_delete = np.concatenate([np.full(len(e.row_ids), e.is_delete) for e in everything])
    if task.mode is FeedMode.NET:
        codes = find_net_changes(snapshots, row_ids, is_delete)
    else:
        codes = is_delete + 2 * find_updates(snapshots, row_ids, is_delete)
    start = 0
    for events in held:
        yield codes[start : start + len(events.row_ids)]
        start += len(events.row_ids)


def _events(
    storage: Storage, task: ChangeTask, columns: tuple[Column, ...], *, counterparts: bool, threads: int = 1
) -> Iterator[Events]:
    """Yield the events of the task itself in the columns asked for, or only the row ids of what others read."""
    for inlined in task.counterpart_inlined if counterparts else task.inlined:
        yield from inlined_events(inlined, task, columns)
    files = task.counterpart_files if counterparts else task.files
    if threads == 1 or len(files) == 1:
        for changed in files:
            yield from read_file_events(storage, changed, task, columns)
        return
    with ThreadPoolExecutor(threads) as pool:
        waiting = deque(pool.submit(_all_events, storage, changed, task) for changed in files[: 2 * threads])
        rest = iter(files[2 * threads :])
        while waiting:
            yield from waiting.popleft().result()
            waiting.extend(pool.submit(_all_events, storage, changed, task) for changed in islice(rest, 1))


def _all_events(storage: Storage, changed: ChangedFile, task: ChangeTask) -> list[Events]:
    return list(read_file_events(storage, changed, task, task.columns))


def inlined_events(inlined: InlinedPart, task: ChangeTask, columns: Sequence[Column]) -> Iterator[Events]:
    """Yield the events of inlined rows in the columns that the task has, or without any."""
    for rows, row_ids, begins, ends in inlined.decode():
        named = rows.rename_columns([c.name for c in columns]) if columns else rows.select([])
        gone = np.where(ends == 0, np.iinfo(np.int64).max, ends)
        yield from events_of(named, row_ids, begins, gone, task)


class ChangeBatchBuilder:
    """Makes record batches of the feed's schema."""

    def __init__(self, task: ChangeTask) -> None:
        # Not `change_schema`: who leaves out what tells of the change may have a column of such a name.
        self._schema = pa.schema([*map(arrow_field, task.columns), *CHANGE_FIELDS])
        self._snapshots = np.array([snapshot for snapshot, _ in task.times], np.int64)
        self._times = _times_array([time for _, time in task.times])

    def record_batch(self, events: Events, codes: np.ndarray | ChangeType) -> pa.RecordBatch:
        """Return events with what they are, each by itself or all the same."""
        count = len(events.row_ids)
        kinds = one_change_type(codes, count) if isinstance(codes, ChangeType) else change_type_array(codes)
        numbers = from_integers(events.snapshots), from_integers(events.row_ids)
        extra = [kinds, numbers[0], self._times_of(events.snapshots), numbers[1]]
        return pa.RecordBatch.from_arrays([*events.rows.columns, *extra], schema=self._schema)

    def _times_of(self, snapshots: np.ndarray) -> pa.Array:
        if snapshots.min() == snapshots.max():
            return pa.repeat(self._times[np.searchsorted(self._snapshots, snapshots[0])], len(snapshots))
        return self._times.take(from_integers(np.searchsorted(self._snapshots, snapshots)))


def _times_array(times: Sequence[datetime]) -> pa.Array:
    """Return times as an array; those without a zone are in UTC."""
    aware = (time if time.tzinfo else time.replace(tzinfo=UTC) for time in times)
    microseconds = [(time - _EPOCH) // timedelta(microseconds=1) for time in aware]
    return from_integers(np.array(microseconds, np.int64)).view(pa.timestamp("us", tz="UTC"))
