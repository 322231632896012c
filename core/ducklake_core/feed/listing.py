"""What the rows of a table did in a range of snapshots, as the catalog lists it. Runs on the driver.

The catalog is asked in one transaction; `rows` reads what a task has, anywhere, without the catalog. A flush, a merge
or a rewrite in between, or between two readings, changes no row of the feed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from ducklake_core.catalog import queries
from ducklake_core.catalog.database import Database
from ducklake_core.catalog.file_reader import read_data_files, read_touched_files
from ducklake_core.catalog.inlined_reader import count_inlined_changes, read_inlined_changes
from ducklake_core.catalog.reader import read_snapshot
from ducklake_core.catalog.session import Session
from ducklake_core.errors import SnapshotsExpired
from ducklake_core.feed.history import History, find_gap, gap_error, history_of
from ducklake_core.feed.sizes import ChangeSize, change_sizes
from ducklake_core.feed.task import ChangedFile, ChangeTask, InlinedChanges
from ducklake_core.model import Column, SnapshotId, SnapshotSpan, TableVersion
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
    rows = queries.history(session.tables).ask(session, start=span.start, end=span.end)
    return history_of(span, rows, table.table_id)


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
        return change_sizes(history, changed_files(session, table, history), inlined)

    return ask_catalog(database, table, ask)


def changed_files(session: Session, table: TableVersion, history: History) -> list[ChangedFile]:
    """Return the data files that may have rows inserted or deleted in a range, each with all deletes up to its end."""
    kinds = frozenset(kind for snapshot in history.snapshots for kind in snapshot.kinds)
    found = read_touched_files(session, table, history.span, history.first_new_file_id, kinds)
    return [ChangedFile(one.file, holds_new_rows=one.is_new, inlined_deletes=one.inlined_deletes) for one in found]


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
        update_snapshots=frozenset(),
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
    files = () if is_quiet else tuple(changed_files(session, table, history))
    return ChangeTask(
        table=table.qualified_name,
        columns=request.columns,
        table_columns=table.columns,
        span=span,
        times=tuple((s.snapshot_id, s.time) for s in history.snapshots),
        rewrites=history.rewrites,
        update_snapshots=history.update_snapshots,
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
        if len(versions):
            rows = as_table_columns(versions.rows, len(versions), present, request.columns)
            yield InlinedChanges.encode(rows, versions.row_ids, versions.begins, versions.ends)
