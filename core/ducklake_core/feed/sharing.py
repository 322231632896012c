"""Who reads what of a range of changes: a task that has everything becomes tasks of about as much each. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from ducklake_core.feed.task import CatalogChanges, ChangedFile, ChangeTask, FeedMode, InlinedPart
from ducklake_core.model import RowSpan, SnapshotSpan

ROWS_PER_TASK = 250_000


def share_out(task: ChangeTask, rows_per_task: int = ROWS_PER_TASK) -> tuple[ChangeTask, ...]:
    """Split a task that has everything into tasks of about so many rows.

    A task that is small enough stays whole: then no file is opened twice. Where rows may have been updated it is split
    by snapshots, so that both halves of an update are in one task; what is too much for that is split by files.
    """
    if task.rows <= rows_per_task:
        return (task,) if task.rows else ()
    if not task.update_snapshots or task.mode is FeedMode.NET or task.inlined:
        return tuple(_by_file(task, rows_per_task))
    parts = (_within(task, span) for span in _sub_spans(task, rows_per_task))
    return tuple(
        one
        for part in parts
        for one in (_by_file(part, rows_per_task) if len(part.times) == 1 else (part,))
        if one.files
    )


def _sub_spans(task: ChangeTask, rows_per_task: int) -> Iterator[SnapshotSpan]:
    """Yield spans that follow each other, in each of which about so many rows have changed."""
    weights = dict(task.weights)
    start, rows = task.span.start, 0.0
    for snapshot, _ in task.times[:-1]:
        rows += weights.get(snapshot, 0.0)
        if rows >= rows_per_task:
            yield SnapshotSpan(start, snapshot)
            start, rows = snapshot, 0.0
    yield SnapshotSpan(start, task.span.end)


def _within(task: ChangeTask, span: SnapshotSpan) -> ChangeTask:
    found = (changed.within(span) for changed in task.files)
    return replace(
        task,
        span=span,
        times=tuple((snapshot, time) for snapshot, time in task.times if snapshot in span),
        weights=(),
        update_snapshots=frozenset(snapshot for snapshot in task.update_snapshots if snapshot in span),
        files=tuple(changed for changed in found if changed is not None),
    )


def _by_file(task: ChangeTask, rows_per_task: int) -> Iterator[ChangeTask]:
    """Share out the rows of files, in ranges where a file has more than enough for one task."""
    parts = [part for file in task.files for part in _row_ranges(file, rows_per_task)]
    start = 0
    for files, inlined in _packed(parts, task.inlined, rows_per_task):
        own = replace(task, files=files, inlined=inlined)
        if task.needs_counterparts:
            others = [*parts[:start], *parts[start + len(files) :]]
            own = _with_counterparts(own, others, () if inlined else task.inlined)
        start += len(files)
        yield own


def _with_counterparts(task: ChangeTask, files: Sequence[ChangedFile], inlined: Sequence[InlinedPart]) -> ChangeTask:
    if task.mode is not FeedMode.NET:  # the other half of an update is in the same snapshot
        files = [file for file in files if file.may_tell_of(task.update_snapshots)]
    others = tuple(rows.without_columns() for rows in inlined)
    return replace(task, counterpart_files=tuple(files), counterpart_inlined=others)


def _row_ranges(file: ChangedFile, rows: int) -> Iterator[ChangedFile]:
    count = max(1, -(-file.file.record_count // rows))
    size = -(-file.file.record_count // count)
    if count == 1:
        yield file
        return
    for first in range(0, file.file.record_count, size):
        yield replace(file, span=RowSpan(first, min(first + size, file.file.record_count)))


def _packed(
    files: Sequence[ChangedFile], inlined: Sequence[InlinedPart], rows_per_task: int
) -> Iterator[tuple[tuple[ChangedFile, ...], tuple[InlinedPart, ...]]]:
    """Fill one task after the other, in order: what a commit wrote together is mostly read together."""
    shipped = tuple(part for part in inlined if not isinstance(part, CatalogChanges))
    if shipped:
        yield (), shipped
    left = (one for part in inlined if isinstance(part, CatalogChanges) for one in part.split(rows_per_task))
    yield from (((), (one,)) for one in left)
    chosen: list[ChangedFile] = []
    rows = 0
    for file in files:
        if chosen and rows + file.rows > rows_per_task:
            yield tuple(chosen), ()
            chosen, rows = [], 0
        chosen.append(file)
        rows += file.rows
    if chosen:
        yield tuple(chosen), ()
