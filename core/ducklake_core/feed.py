"""The change feed of a table: what its rows did in a range of snapshots, listed by the catalog, then read.

`list_changes` asks the catalog, on the driver, in one transaction; `change_rows` reads what a task has, anywhere,
without the catalog. A flush, a merge or a rewrite in between, or between two readings, changes no row of the feed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from ducklake_core.catalog import queries
from ducklake_core.catalog.database import Database
from ducklake_core.catalog.file_reader import read_changed_files, read_data_files
from ducklake_core.catalog.inlined_reader import count_inlined_changes, read_inlined_changes
from ducklake_core.catalog.reader import read_snapshot
from ducklake_core.catalog.row_versions import RowVersions
from ducklake_core.catalog.session import Session
from ducklake_core.change_rows import NUMBERS
from ducklake_core.errors import SnapshotsExpired
from ducklake_core.model import Column, SnapshotId, TableVersion
from ducklake_core.plan.change_sizes import ChangeSize, change_sizes
from ducklake_core.plan.change_slices import ChangedFile, ChangeTask, InlinedChanges
from ducklake_core.plan.feed import History, SnapshotSpan, find_gap, gap_error, history_of
from ducklake_core.read.listing import as_table_columns, ask_catalog


@dataclass(frozen=True, slots=True)
class FeedRequest:
    """What to read: the table and its columns as the feed shows them, and the range of snapshots."""

    table: TableVersion
    columns: tuple[Column, ...]
    span: SnapshotSpan
    net: bool = False
    accept_loss: bool = False  # read what is left when snapshots have expired


def read_history(session: Session, table: TableVersion, span: SnapshotSpan) -> History:
    """Return what the snapshots of a range did to the table."""
    rows = session.query(queries.history(session.tables), start=span.start, end=span.end)
    return history_of(span, [(row[0], row[1], row[2], row[3], row[4]) for row in rows], table.table_id)


def list_changes(
    database: Database, request: FeedRequest, on_loss: Callable[[SnapshotsExpired], object] = lambda _: None
) -> ChangeTask:
    """Return everything that changed in a range as one task; raise SnapshotsExpired when some of it is lost.

    `on_loss` is called with what would have been the error for those who accept the loss.
    """
    return ask_catalog(
        database, request.table, lambda session, table: _list(session, replace(request, table=table), on_loss)
    )


def read_change_sizes(database: Database, table: TableVersion, history: History) -> dict[int, ChangeSize]:
    """Return about how much each snapshot of a range has changed."""

    def ask(session: Session, table: TableVersion) -> dict[int, ChangeSize]:
        inlined = count_inlined_changes(session, table, history.span)
        return change_sizes(history, read_changed_files(session, table, history), inlined)

    return ask_catalog(database, table, ask)


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


def _list(session: Session, request: FeedRequest, on_loss: Callable[[SnapshotsExpired], object]) -> ChangeTask:
    table, span = request.table, request.span
    history = read_history(session, table, span)
    gap = find_gap(history, table.begin_snapshot)
    if gap is not None:
        error = gap_error(table.qualified_name, span, gap)
        if not request.accept_loss:
            raise error
        on_loss(error)
    is_quiet = not any(s.inserts or s.may_delete for s in history.snapshots)
    files = () if is_quiet else tuple(read_changed_files(session, table, history))
    return ChangeTask(
        table=table.qualified_name,
        columns=request.columns,
        table_columns=table.columns,
        span=span,
        times=tuple((s.snapshot_id, s.time) for s in history.snapshots),
        rewrites=history.rewrites,
        mixed=history.mixed,
        files=files,
        inlined=() if is_quiet else tuple(_inlined_changes(session, request)),
        net=request.net,
        has_gap=gap is not None,
        weights=tuple((snapshot, size.even_rows) for snapshot, size in change_sizes(history, files).items()),
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
    table = pa.table([*rows.columns, *numbers], names=[*places, *NUMBERS])
    return InlinedChanges(_stream(table), _stream(table.select(list(NUMBERS))), table.num_rows)


def _stream(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table.combine_chunks())
    found: bytes = sink.getvalue().to_pybytes()
    return found
