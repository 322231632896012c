"""What the rows of a table did in a range of snapshots, as the catalog lists it. Runs on the driver.

The catalog is asked in one transaction; `rows` reads what a task has, anywhere, without the catalog, but for many
inlined rows. A flush, a merge or a rewrite in between, or between two readings, changes no row of the feed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TypeAlias

from ducklake_core.catalog import queries
from ducklake_core.catalog.database import Database
from ducklake_core.catalog.file_reader import read_data_files, read_touched_files
from ducklake_core.catalog.inlined_reader import count_inlined_changes, read_spread
from ducklake_core.catalog.reader import read_snapshot
from ducklake_core.catalog.row_versions import RowVersions
from ducklake_core.catalog.session import Session
from ducklake_core.errors import SnapshotsExpired
from ducklake_core.feed.catalog_rows import CatalogRows, changes_of
from ducklake_core.feed.history import History, find_gap, gap_error, history_of
from ducklake_core.feed.sizes import ChangeSize, change_sizes
from ducklake_core.feed.task import CatalogChanges, ChangedFile, ChangeTask, FeedMode, InlinedChanges, InlinedPart
from ducklake_core.model import Column, SnapshotId, SnapshotSpan, TableVersion
from ducklake_core.read.listing import ask_catalog
from ducklake_core.spec.changes import ROW_DELETES, ROW_INSERTS


@dataclass(frozen=True, slots=True)
class InlinedLimits:
    """Up to which bounds inlined rows travel in a task; more of them stay in the catalog until they are read.

    Up to `surely_few` they are read at once and not counted before. Of more, `piece_rows` are never torn apart. A flush
    that comes between ends a stream's batch, so the bounds are well above those by which a sink flushes.
    """

    rows: int = 500_000
    size_bytes: int = 64 * 2**20
    surely_few: int = 1000
    piece_rows: int = 10_000


DEFAULT_INLINED_LIMITS = InlinedLimits()


@dataclass(frozen=True, slots=True)
class FeedRequest:
    """What to read: the table and its columns as the feed shows them, and the range of snapshots."""

    table: TableVersion
    columns: tuple[Column, ...]
    span: SnapshotSpan
    mode: FeedMode = FeedMode.CHANGES
    accept_loss: bool = False  # read what is left when snapshots have expired
    inlined: InlinedLimits | None = DEFAULT_INLINED_LIMITS  # None: all inlined rows travel


@dataclass(frozen=True, slots=True)
class ListedChanges:
    """Everything that changed in a range as one task, and what its snapshots did."""

    history: History
    task: ChangeTask


OnLoss: TypeAlias = Callable[[SnapshotsExpired], object]


def read_history(session: Session, table: TableVersion, span: SnapshotSpan) -> History:
    """Return what the snapshots of a range did to the table."""
    rows = queries.history(session.tables).ask(session, start=span.start, end=span.end)
    return history_of(span, rows, table.table_id)


def list_range(database: Database, request: FeedRequest, on_loss: OnLoss = lambda _: None) -> ListedChanges:
    """Return everything that changed in a range; raise SnapshotsExpired when some of it is lost.

    `on_loss` is called with what would have been the error for those who accept the loss.
    """

    def ask(session: Session, table: TableVersion) -> ListedChanges:
        history = read_history(session, table, request.span)
        gap = find_gap(history, table.begin_snapshot)
        if gap is not None:
            error = gap_error(table.qualified_name, request.span, gap)
            if not request.accept_loss:
                raise error
            on_loss(error)
        task = _task(session, replace(request, table=table), history, has_gap=gap is not None)
        return ListedChanges(history, task)

    return ask_catalog(database, request.table, ask)


def list_known(database: Database, request: FeedRequest, history: History) -> ChangeTask:
    """Return everything that changed in the range of a history as one task, without a look for what is lost."""
    return ask_catalog(
        database,
        request.table,
        lambda session, table: _task(session, replace(request, table=table), history, has_gap=False),
    )


def read_change_sizes(database: Database, table: TableVersion, history: History) -> dict[int, ChangeSize]:
    """Return about how much each snapshot of a range has changed."""

    def ask(session: Session, table: TableVersion) -> dict[int, ChangeSize]:
        inlined = count_inlined_changes(session, table, history.span)
        return change_sizes(history, changed_files(session, table, history), inlined)

    return ask_catalog(database, table, ask)


def changed_files(session: Session, table: TableVersion, history: History) -> list[ChangedFile]:
    """Return the data files that may have rows inserted or deleted in a range, each with all deletes up to its end."""
    found = read_touched_files(session, table, history.span, history.first_new_file_id, history.kinds)
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
        inlined=_inlined_changes(session, replace(request, span=SnapshotSpan(SnapshotId(-1), end))),
        mode=FeedMode.STATE,
    )


def _task(session: Session, request: FeedRequest, history: History, *, has_gap: bool) -> ChangeTask:
    table = request.table
    is_quiet = not history.kinds & (ROW_INSERTS | ROW_DELETES)
    files = () if is_quiet else tuple(changed_files(session, table, history))
    return ChangeTask(
        table=table.qualified_name,
        columns=request.columns,
        table_columns=table.columns,
        span=history.span,
        times=tuple((s.snapshot_id, s.time) for s in history.snapshots),
        rewrites=history.rewrites,
        update_snapshots=history.update_snapshots,
        files=files,
        inlined=() if is_quiet else _inlined_changes(session, request),
        mode=request.mode,
        has_gap=has_gap,
        weights=tuple((snapshot, size.even_rows) for snapshot, size in change_sizes(history, files).items()),
    )


def _inlined_changes(session: Session, request: FeedRequest) -> tuple[InlinedPart, ...]:
    """Return the inlined row versions that the range began or ended; if they are many, only where they are."""
    limits = request.inlined
    few = _changes_of_all(session, request, None if limits is None else limits.surely_few + 1)
    found = sum(len(versions.row_ids) for versions in few)
    if limits is None or found <= limits.surely_few:
        return _shipped(few)
    tables = request.table.inlined_tables
    pieces = read_spread(session, tables, request.span, limits.piece_rows)
    rows = sum(piece.rows for piece in pieces)
    size_bytes = sum(versions.rows.nbytes for versions in few) / found * rows
    if rows <= limits.rows and size_bytes <= limits.size_bytes:
        return _shipped(_changes_of_all(session, request, None))
    return (CatalogChanges(CatalogRows(session.database, tables, request.columns, request.span), pieces),)


def _changes_of_all(session: Session, request: FeedRequest, limit: int | None) -> list[RowVersions]:
    """Return the versions of each inlined table, of each at most so many."""
    tables, columns, span = request.table.inlined_tables, request.columns, request.span
    return [changes_of(session, inlined, columns, span, limit=limit) for inlined in tables]


def _shipped(found: Iterable[RowVersions]) -> tuple[InlinedPart, ...]:
    return tuple(InlinedChanges.encode(v.rows, v.row_ids, v.begins, v.ends) for v in found if len(v.row_ids))
