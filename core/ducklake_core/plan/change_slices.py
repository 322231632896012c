"""What of a table changed in a range of snapshots: files and inlined rows, shared out into tasks. Pure.

Values here travel from the driver to executors. A task has all it needs to read its changes without the catalog.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from ducklake_core.model import Column, DataFile, RowSpan, SnapshotId
from ducklake_core.plan.feed import SnapshotSpan

ROWS_PER_TASK = 250_000


@dataclass(frozen=True, slots=True)
class ChangedFile:
    """A data file of which rows may have been inserted or deleted in a range.

    It comes with all its delete files. `inlined_deletes` are positions, each with the snapshot that deleted it.
    `span` None: all of it.
    """

    file: DataFile
    holds_new_rows: bool
    inlined_deletes: tuple[tuple[int, SnapshotId], ...] = ()
    span: RowSpan | None = None

    @property
    def rows(self) -> int:
        return self.file.record_count if self.span is None else self.span.end - self.span.first

    def may_tell_of(self, snapshots: Collection[int]) -> bool:
        """Tell whether some of these snapshots may have inserted or deleted rows of it."""
        file, last = self.file, self.file.partial_max or self.file.begin_snapshot
        if self.holds_new_rows and any(file.begin_snapshot <= i <= last for i in snapshots):
            return True
        if file.end_snapshot in snapshots or any(i in snapshots for _, i in self.inlined_deletes):
            return True
        return bool(file.delete_files) and min(d.begin_snapshot for d in file.delete_files) <= max(
            snapshots, default=-1
        )

    def within(self, span: SnapshotSpan) -> ChangedFile | None:
        """Return the file as a part of the range sees it; None when nothing can have happened to it there."""
        file = self.file
        last = file.partial_max or file.begin_snapshot
        is_new = self.holds_new_rows and file.begin_snapshot <= span.end and last > span.start
        has_ended = file.end_snapshot is not None and file.end_snapshot in span
        has_deletes = any(delete_file.begin_snapshot <= span.end for delete_file in file.delete_files)
        if is_new or has_ended or has_deletes or any(snapshot in span for _, snapshot in self.inlined_deletes):
            return replace(self, holds_new_rows=is_new)
        return None


@dataclass(frozen=True, slots=True)
class InlinedChanges:
    """Inlined row versions that a range began or ended, as an Arrow stream: columns, then row id, begin and end.

    `numbers` is such a stream without the columns: all that other tasks need to know of them.
    """

    stream: bytes
    numbers: bytes
    rows: int


@dataclass(frozen=True, slots=True)
class ChangeTask:
    """Some changes of one table, to be read by one task.

    `mixed` are the snapshots in which rows may have been updated; `others` have what else happened in these, in other
    tasks: their row ids tell which deletes and inserts are halves of an update. With `net`, all snapshots are mixed.
    When it `has_gap`, only the snapshots of `times` are left: events of others are not told, though some may be there.
    """

    table: str
    columns: tuple[Column, ...]
    table_columns: tuple[Column, ...]
    span: SnapshotSpan
    times: tuple[tuple[SnapshotId, datetime], ...]
    rewrites: frozenset[int]
    mixed: frozenset[int]
    files: tuple[ChangedFile, ...] = ()
    inlined: tuple[InlinedChanges, ...] = ()
    other_files: tuple[ChangedFile, ...] = ()
    other_inlined: tuple[InlinedChanges, ...] = ()
    net: bool = False
    has_gap: bool = False
    weights: tuple[tuple[int, float], ...] = ()  # about how many rows of files each snapshot has changed
    is_state: bool = False  # no changes, but the rows that are there at the end of the span, as if inserted by it

    def tells_of_inserts(self, snapshot: SnapshotId) -> bool:
        """Tell whether rows that a snapshot wrote are inserts of this range."""
        if not self.span.start < snapshot <= self.span.end or snapshot in self.rewrites:
            return False
        return not self.has_gap or any(retained == snapshot for retained, _ in self.times)

    @property
    def rows(self) -> int:
        """How many rows there may be to look at, at most."""
        return sum(f.rows for f in self.files) + sum(i.rows for i in self.inlined)


def share_out(task: ChangeTask, rows_per_task: int = ROWS_PER_TASK) -> tuple[ChangeTask, ...]:
    """Split a task that has everything into tasks of about so many rows.

    A task that is small enough stays whole: then no file is opened twice. Where rows may have been updated it is split
    by snapshots, so that both halves of an update are in one task; what is too much for that is split by files.
    """
    if task.rows <= rows_per_task:
        return (task,) if task.rows else ()
    if not task.mixed or task.net or task.inlined:
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
        mixed=frozenset(snapshot for snapshot in task.mixed if snapshot in span),
        files=tuple(changed for changed in found if changed is not None),
    )


def _by_file(task: ChangeTask, rows_per_task: int) -> Iterator[ChangeTask]:
    """Share out the rows of files, in spans where a file has more than enough for one task."""
    spans = [span for file in task.files for span in _spans(file, rows_per_task)]
    needs_others = bool(task.mixed) or task.net
    start = 0
    for files, inlined in _bins(spans, task.inlined, rows_per_task):
        others = [*spans[:start], *spans[start + len(files) :]] if needs_others else []
        start += len(files)
        other_rows = tuple(replace(i, stream=i.numbers) for i in task.inlined) if needs_others and not inlined else ()
        yield replace(
            task,
            files=files,
            inlined=inlined,
            other_files=tuple(f for f in others if task.net or f.may_tell_of(task.mixed)),
            other_inlined=other_rows,
        )


def _spans(file: ChangedFile, rows: int) -> Iterator[ChangedFile]:
    count = max(1, -(-file.file.record_count // rows))
    size = -(-file.file.record_count // count)
    if count == 1:
        yield file
        return
    for first in range(0, file.file.record_count, size):
        yield replace(file, span=RowSpan(first, min(first + size, file.file.record_count)))


def _bins(
    files: Sequence[ChangedFile], inlined: Sequence[InlinedChanges], rows_per_task: int
) -> Iterator[tuple[tuple[ChangedFile, ...], tuple[InlinedChanges, ...]]]:
    """Fill one bin after the other, in order: what a commit wrote together is mostly read together."""
    if inlined:
        yield (), tuple(inlined)
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
