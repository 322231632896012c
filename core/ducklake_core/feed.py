"""The change feed of a table: what its rows did in a range of snapshots, listed by the catalog, then read.

`list_changes` asks the catalog, on the driver, in one transaction; `read_changes` reads what a task has, anywhere,
without the catalog. A flush, a merge or a rewrite in between, or between two readings, changes no row of the feed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from ducklake_core.catalog import queries
from ducklake_core.catalog.database import Database, Session
from ducklake_core.catalog.file_reader import read_changed_files, read_data_files
from ducklake_core.catalog.inlined_reader import read_inlined_changes
from ducklake_core.catalog.reader import read_snapshot
from ducklake_core.catalog.row_versions import RowVersions
from ducklake_core.errors import InvalidInput
from ducklake_core.files.file_changes import Events, events_of, read_file_changes
from ducklake_core.files.storage import Storage
from ducklake_core.model import Column, SnapshotId, TableVersion
from ducklake_core.plan.change_slices import ChangedFile, ChangeTask, InlinedChanges
from ducklake_core.plan.change_types import ChangeType, change_type_array, find_net_changes, find_updates
from ducklake_core.plan.feed import History, SnapshotSpan, find_gap, gap_error, history_of
from ducklake_core.scan import as_table_columns, ask_catalog
from ducklake_core.spec.types import arrow_field

CHANGE_TYPE, COMMIT_VERSION, COMMIT_TIMESTAMP, ROW_ID = "_change_type", "_commit_version", "_commit_timestamp", "_rowid"
CHANGE_FIELDS = (
    pa.field(CHANGE_TYPE, pa.string()),
    pa.field(COMMIT_VERSION, pa.int64()),
    pa.field(COMMIT_TIMESTAMP, pa.timestamp("us", tz="UTC")),
    pa.field(ROW_ID, pa.int64()),
)
_NUMBERS = ("row_id", "begin", "end")


@dataclass(frozen=True, slots=True)
class FeedRequest:
    """What to read: the table and its columns as the feed shows them, and the range of snapshots."""

    table: TableVersion
    columns: tuple[Column, ...]
    span: SnapshotSpan
    net: bool = False
    accept_loss: bool = False  # read what is left when snapshots have expired


def change_schema(columns: Sequence[Column]) -> pa.Schema:
    """Return the schema of the feed: the table's columns, then those that tell of the change."""
    taken = sorted({c.name for c in columns} & {f.name for f in CHANGE_FIELDS})
    if taken:
        raise InvalidInput(
            f"column '{taken[0]}' of the table has the name of a column of the change feed: "
            "choose other columns, or rename it",
            column=taken[0],
        )
    return pa.schema([*map(arrow_field, columns), *CHANGE_FIELDS])


def read_history(session: Session, table: TableVersion, span: SnapshotSpan) -> History:
    """Return what the snapshots of a range did to the table."""
    rows = session.query(queries.history(session.tables), start=span.start, end=span.end)
    return history_of(span, [(row[0], row[1], row[2], row[3], row[4]) for row in rows], table.table_id)


def list_changes(
    database: Database, request: FeedRequest, on_loss: Callable[[str], object] = lambda _: None
) -> ChangeTask:
    """Return everything that changed in a range as one task; raise SnapshotsExpired when some of it is lost.

    `on_loss` is called with what would have been the error's message by those who accept the loss.
    """
    return ask_catalog(
        database, request.table, lambda session, table: _list(session, replace(request, table=table), on_loss)
    )


def list_state(database: Database, request: FeedRequest) -> ChangeTask:
    """Return the rows that a table has at the end of the range as a task: what a feed begins with."""
    return ask_catalog(
        database, request.table, lambda session, table: _list_state(session, replace(request, table=table))
    )


def _list_state(session: Session, request: FeedRequest) -> ChangeTask:
    table, end = request.table, request.span.end
    snapshot = read_snapshot(session, end)
    files = [
        ChangedFile(file, holds_new_rows=True, inlined_deletes=tuple((p, end) for p in file.inlined_deletes))
        for file in read_data_files(session, table, end)
    ]
    return ChangeTask(
        table=table.qualified_name,
        columns=request.columns,
        table_columns=table.columns,
        span=request.span,
        times=((end, snapshot.snapshot_time),),
        rewrites=frozenset(),
        mixed=frozenset(),
        files=tuple(files),
        inlined=tuple(_inlined_changes(session, replace(request, span=SnapshotSpan(SnapshotId(-1), end)))),
        is_state=True,
    )


def _list(session: Session, request: FeedRequest, on_loss: Callable[[str], object]) -> ChangeTask:
    table, span = request.table, request.span
    history = read_history(session, table, span)
    gap = find_gap(history, table.begin_snapshot)
    if gap is not None:
        error = gap_error(table.qualified_name, span, gap)
        if not request.accept_loss:
            raise error
        on_loss(error.message)
    is_quiet = not any(s.inserts or s.may_delete for s in history.snapshots)
    return ChangeTask(
        table=table.qualified_name,
        columns=request.columns,
        table_columns=table.columns,
        span=span,
        times=tuple((s.snapshot_id, s.time) for s in history.snapshots),
        rewrites=history.rewrites,
        mixed=history.mixed,
        files=() if is_quiet else tuple(read_changed_files(session, table, history)),
        inlined=() if is_quiet else tuple(_inlined_changes(session, request)),
        net=request.net,
        has_gap=gap is not None,
    )


def _inlined_changes(session: Session, request: FeedRequest) -> Iterator[InlinedChanges]:
    wanted = {c.column_id for c in request.columns}
    for inlined in request.table.inlined_tables:
        present = [c for c in inlined.columns if c.column_id in wanted]
        versions = read_inlined_changes(session, inlined, present, request.span)
        if len(versions.row_ids):
            yield _shipped(versions, present, request.columns)


def _shipped(versions: RowVersions, present: Sequence[Column], columns: Sequence[Column]) -> InlinedChanges:
    rows = as_table_columns(versions.rows, len(versions.row_ids), present, columns)
    numbers = [pa.array(found) for found in (versions.row_ids, versions.begins, versions.ends)]
    # By place, not by name: a column may have any name.
    places = [str(i) for i in range(len(columns))]
    table = pa.table([*rows.columns, *numbers], names=[*places, *_NUMBERS])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table.combine_chunks())
    return InlinedChanges(sink.getvalue().to_pybytes(), table.num_rows)


# ----------------------------------------------------------------------------------------- reading


def read_changes(storage: Storage, task: ChangeTask) -> Iterator[pa.RecordBatch]:
    """Yield the changes of a task, in no order; each record batch has `change_schema`.

    Events of snapshots that only insert or only delete are yielded as they are read. Those of others are held until
    all are there, since a row's update is told by both of its halves.
    """
    named = _Namer(task)
    held: list[Events] = []
    for events in _events(storage, task, task.columns, others=False):
        is_open = _is_open(task, events)
        if is_open.all():
            held.append(events)
            continue
        if is_open.any():
            held.append(events.filter(is_open))
        closed = events.filter(~is_open)
        kind = ChangeType.delete if events.is_delete else ChangeType.insert
        yield named.record_batch(closed, np.full(len(closed), kind))
    if held:
        yield from _settled(storage, task, held, named)


def _is_open(task: ChangeTask, events: Events) -> np.ndarray:
    """Return of which events the kind depends on others."""
    if task.net:
        return np.ones(len(events), bool)
    if not task.mixed:
        return np.zeros(len(events), bool)
    return np.isin(events.snapshots, list(task.mixed))


def _settled(storage: Storage, task: ChangeTask, held: Sequence[Events], named: _Namer) -> Iterator[pa.RecordBatch]:
    others = [e.filter(_is_open(task, e)) for e in _events(storage, task, (), others=True)]
    everything = [*held, *others]
    snapshots = np.concatenate([e.snapshots for e in everything])
    row_ids = np.concatenate([e.row_ids for e in everything])
    is_delete = np.concatenate([np.full(len(e), e.is_delete) for e in everything])
    if task.net:
        codes = find_net_changes(snapshots, row_ids, is_delete)
    else:
        codes = is_delete + 2 * find_updates(snapshots, row_ids, is_delete)
    start = 0
    for events in held:
        own = codes[start : start + len(events)]
        start += len(events)
        kept = own >= 0
        if kept.any():
            yield named.record_batch(events.filter(kept), own[kept])


def _events(storage: Storage, task: ChangeTask, columns: tuple[Column, ...], *, others: bool) -> Iterator[Events]:
    """Yield the events of the task itself in the columns asked for, or only the row ids of what others read."""
    for inlined in task.other_inlined if others else task.inlined:
        for found in pa.ipc.open_stream(inlined.stream):
            yield from _inlined_events(found, task, columns)
    for changed in task.other_files if others else task.files:
        yield from read_file_changes(storage, changed, task, columns)


def _inlined_events(found: pa.RecordBatch, task: ChangeTask, columns: Sequence[Column]) -> Iterator[Events]:
    row_ids, begins, ends = (found.column(name).to_numpy() for name in _NUMBERS)
    rows = found.select(list(range(len(columns))))
    if columns:
        rows = rows.rename_columns([c.name for c in columns])
    gone = np.where(ends == 0, np.iinfo(np.int64).max, ends)
    yield from events_of(rows, row_ids, begins, gone, task)


class _Namer:
    """Makes record batches of the feed's schema."""

    def __init__(self, task: ChangeTask) -> None:
        self._schema = change_schema(task.columns)
        self._snapshots = np.array([snapshot for snapshot, _ in task.times], np.int64)
        self._times = pa.array([time for _, time in task.times], pa.timestamp("us", tz="UTC"))

    def record_batch(self, events: Events, codes: np.ndarray) -> pa.RecordBatch:
        places = np.searchsorted(self._snapshots, events.snapshots)
        extra = [
            change_type_array(codes),
            pa.array(events.snapshots),
            self._times.take(pa.array(places)),
            pa.array(events.row_ids),
        ]
        return pa.RecordBatch.from_arrays([*events.rows.columns, *extra], schema=self._schema)
