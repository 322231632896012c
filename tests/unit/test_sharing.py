"""Tasks of a change feed: every row in exactly one, and what pairs with it known to each, however they are split."""

import datetime as dt
import pickle
from collections import Counter
from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from ducklake_core.feed.sharing import share_out
from ducklake_core.feed.task import ChangedFile, ChangeTask, FeedMode, InlinedChanges
from ducklake_core.model import (
    Column,
    ColumnId,
    DataFile,
    DataFileId,
    DeleteFile,
    DeleteFileId,
    NameMapping,
    NameMappingEntry,
    RowSpan,
    SnapshotId,
    SnapshotSpan,
)

TIME = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
SNAPSHOTS = st.integers(1, 6).map(SnapshotId)


@st.composite
def changed_files(draw: st.DrawFn, number: int) -> ChangedFile:
    begin = draw(SNAPSHOTS)
    deletes = draw(st.lists(SNAPSHOTS, max_size=1))
    file = DataFile(
        DataFileId(number),
        f"{number}.parquet",
        begin,
        draw(st.integers(1, 40)),
        100,
        0,
        partial_max=draw(st.none() | st.integers(begin, 6).map(SnapshotId)),
        end_snapshot=draw(st.none() | SNAPSHOTS),
        delete_files=tuple(
            DeleteFile(DeleteFileId(100 + number), DataFileId(number), "d.parquet", "parquet", d, 1) for d in deletes
        ),
    )
    inlined = draw(st.lists(st.tuples(st.integers(0, 5), SNAPSHOTS), max_size=2))
    return ChangedFile(file, holds_new_rows=draw(st.booleans()), inlined_deletes=tuple(inlined))


@st.composite
def change_tasks(draw: st.DrawFn) -> ChangeTask:
    files = tuple(draw(changed_files(i)) for i in range(draw(st.integers(0, 6))))
    inlined = tuple(
        InlinedChanges(bytes([i]), bytes([i]), draw(st.integers(1, 40))) for i in range(draw(st.integers(0, 3)))
    )
    return ChangeTask(
        table="main.t",
        columns=(),
        table_columns=(),
        span=SnapshotSpan(SnapshotId(0), SnapshotId(6)),
        times=tuple((SnapshotId(i), TIME) for i in range(1, 7)),
        rewrites=frozenset(),
        update_snapshots=frozenset(draw(st.sets(SNAPSHOTS))),
        files=files,
        inlined=inlined,
        mode=draw(st.sampled_from([FeedMode.CHANGES, FeedMode.NET])),
        weights=tuple((i, float(draw(st.integers(0, 60)))) for i in range(1, 7)),
    )


def rows_of(files: tuple[ChangedFile, ...]) -> Iterator[tuple[int, int]]:
    for changed in files:
        span = changed.span or RowSpan(0, changed.file.record_count)
        yield from ((changed.file.data_file_id, position) for position in range(span.first, span.end))


@given(change_tasks(), st.integers(1, 50))
def test_what_a_snapshot_did_to_a_row_is_in_exactly_one_task(task: ChangeTask, rows_per_task: int) -> None:
    tasks = share_out(task, rows_per_task)

    told = Counter((row, snapshot) for part in tasks for row in rows_of(part.files) for snapshot in told_by(part))
    assert max(told.values(), default=1) == 1
    assert {(row, i) for f in task.files for row in rows_of((f,)) for i in may_tell_of(f, task)} <= told.keys()
    assert Counter(i for part in tasks for i in part.inlined) == Counter(task.inlined)
    assert all(part.rows for part in tasks)
    assert all({snapshot for snapshot, _ in part.times} == set(told_by(part)) for part in tasks)
    assert all(part.update_snapshots == task.update_snapshots & set(told_by(part)) for part in tasks)


@given(change_tasks(), st.integers(1, 50))
def test_every_task_knows_what_may_pair_with_its_rows(task: ChangeTask, rows_per_task: int) -> None:
    for part in share_out(task, rows_per_task):
        known = Counter([*rows_of(part.files), *rows_of(part.counterpart_files)])
        assert max(known.values(), default=1) == 1
        missing = {file_id for file_id, _ in Counter(rows_of(task.files)) - known}
        open_ = set(told_by(part)) if task.mode is FeedMode.NET else part.update_snapshots
        assert not any(may_tell_of(f, task) & open_ for f in task.files if f.file.data_file_id in missing)
        others = [*part.inlined, *part.counterpart_inlined]
        assert Counter(others) == Counter(task.inlined) or not task.needs_counterparts


@given(change_tasks(), st.integers(1, 50))
def test_a_part_of_a_range_reads_new_rows_where_it_has_some(task: ChangeTask, rows_per_task: int) -> None:
    for part in share_out(task, rows_per_task):
        given_new = {f.file.data_file_id: f.holds_new_rows for f in task.files}
        for changed in part.files:
            file = changed.file
            born = set(range(file.begin_snapshot, (file.partial_max or file.begin_snapshot) + 1))
            is_new = given_new[file.data_file_id] and bool(born & set(told_by(part)))
            assert changed.holds_new_rows == (given_new[file.data_file_id] if part.span == task.span else is_new)


def told_by(task: ChangeTask) -> range:
    return range(task.span.start + 1, task.span.end + 1)


def may_tell_of(changed: ChangedFile, task: ChangeTask) -> set[int]:
    """Return the snapshots that may have inserted or deleted rows of a file; said otherwise than the code."""
    file = changed.file
    last = file.begin_snapshot if file.partial_max is None else file.partial_max
    born = set(range(file.begin_snapshot, last + 1)) if changed.holds_new_rows else set()
    deleted: set[int] = {snapshot for _, snapshot in changed.inlined_deletes}
    ended = {file.end_snapshot} if file.end_snapshot is not None else set()
    if file.delete_files:  # which snapshots they are of only the files tell
        deleted |= set(range(min(d.begin_snapshot for d in file.delete_files), task.span.end + 1))
    return born | deleted | ended


def test_a_file_with_rows_of_many_snapshots_is_shared_out_evenly() -> None:
    """As a flush makes it."""
    file = DataFile(DataFileId(1), "f", SnapshotId(3), 5_000_000, 1, 0, partial_max=SnapshotId(5000))
    task = ChangeTask(
        table="main.t",
        columns=(),
        table_columns=(),
        span=SnapshotSpan(SnapshotId(0), SnapshotId(5000)),
        times=tuple((SnapshotId(i), TIME) for i in range(1, 5001)),
        rewrites=frozenset(),
        update_snapshots=frozenset({70}),
        files=(ChangedFile(file, holds_new_rows=True),),
        weights=tuple((i, 5_000_000 / 4998) for i in range(3, 5001)),
    )

    sizes = [part.span.end - part.span.start for part in share_out(task, 250_000)]

    assert len(sizes) == 20
    assert max(sizes) < 2 * min(sizes)


@given(change_tasks())
def test_a_task_that_is_small_enough_stays_whole(task: ChangeTask) -> None:
    assert share_out(task, max(1, task.rows)) == ((task,) if task.rows else ())


@given(change_tasks(), st.integers(1, 50))
def test_tasks_travel(task: ChangeTask, rows_per_task: int) -> None:
    tasks = share_out(task, rows_per_task)

    assert pickle.loads(pickle.dumps(tasks)) == tasks  # noqa: S301 # our own


def test_everything_that_a_task_may_hold_travels() -> None:
    column = Column(ColumnId(1), "s", "struct", children=(Column(ColumnId(2), "a", "int32"),))
    mapping = NameMapping(4, (NameMappingEntry("a", ColumnId(1)),))
    file = DataFile(DataFileId(3), "f", SnapshotId(1), 5, 10, None, mapping=mapping, encryption_key="key")
    task = ChangeTask(
        "main.t",
        (column,),
        (column,),
        SnapshotSpan(SnapshotId(0), SnapshotId(2)),
        ((SnapshotId(1), TIME),),
        frozenset({1}),
        frozenset({2}),
        (ChangedFile(file, holds_new_rows=True, inlined_deletes=((1, SnapshotId(2)),), span=RowSpan(0, 3)),),
        (InlinedChanges(b"stream", b"numbers", 2),),
    )

    assert pickle.loads(pickle.dumps(task)) == task  # noqa: S301 # our own
