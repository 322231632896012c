"""Many inlined rows of a range: the driver leaves them in the catalog, and tasks read their own."""

import pickle
from collections.abc import Iterator

import pyarrow as pa
import pytest

from ducklake_core import Lake
from ducklake_core.errors import TransientError
from ducklake_core.feed.change_types import ChangeType
from ducklake_core.feed.listing import FeedRequest, InlinedLimits, list_range, list_state
from ducklake_core.feed.sharing import share_out
from ducklake_core.feed.task import CatalogChanges, ChangeTask, FeedMode
from ducklake_core.model import SnapshotId, SnapshotSpan
from ducklake_sources.partitions import FeedPartition, rows_of
from tests.fixtures.catalogs import Catalog
from tests.fixtures.feeds import Events, read

MARK = "a text that only rows have"
LIMITS = InlinedLimits(rows=10, surely_few=3, piece_rows=4)
START = 4


@pytest.fixture
def lake(catalog: Catalog) -> Iterator[Lake]:
    """Give a lake with rows in a file and many inlined ones, of old and new columns, some updated, some deleted."""
    with Lake.create(catalog.url, data_path=catalog.data_path) as lake:
        lake.set_option("data_inlining_row_limit", 20)
        lake.create_table("t", {"i": "int64", "s": "varchar"})
        add(lake, range(100))
        add(lake, range(100, 110))
        add(lake, range(110, 120))
        assert lake.snapshots()[-1].snapshot_id == START
        for first in range(200, 260, 10):
            add(lake, range(first, first + 10))
        lake.update("t", {"s": f"{MARK}, updated"}, "i < 15")  # in the file, and from there inlined
        lake.update("t", {"s": f"{MARK}, again"}, "i > 95 AND i < 205")
        lake.add_column("t", "n", "int64")
        lake.append("t", pa.table({"i": [*range(300, 315)], "s": [MARK] * 15, "n": [*range(15)]}))
        lake.delete("t", "i > 240 AND i < 305")
        lake.update("t", {"n": 7}, "i = 310 OR i = 5 OR i = 99")
        yield lake


def add(lake: Lake, numbers: range) -> None:
    lake.append("t", pa.table({"i": [*numbers], "s": [MARK] * len(numbers)}))


def listed(lake: Lake, mode: FeedMode, limits: InlinedLimits | None, end: int | None = None) -> ChangeTask:
    """List what happened up to the head, or another snapshot; of inserts, without those of one snapshot."""
    found = lake.table("t", at=end)
    span = SnapshotSpan(SnapshotId(START), found.snapshot.snapshot_id)
    request = FeedRequest(found.version, found.version.columns, span, mode, inlined=limits)
    if mode is FeedMode.STATE:
        return list_state(lake.database, request)
    task = list_range(lake.database, request).task
    return task.only_inserts(frozenset({START + 1})) if mode is FeedMode.INSERTS else task


def shared(task: ChangeTask, rows: int = 10) -> tuple[ChangeTask, ...]:
    found: tuple[ChangeTask, ...] = pickle.loads(pickle.dumps(share_out(task, rows)))  # noqa: S301 # our own
    return found


def expected(lake: Lake, mode: FeedMode) -> Events:
    return read(lake, [listed(lake, mode, None)])


@pytest.mark.parametrize("mode", FeedMode)
@pytest.mark.parametrize("rows", [1, 10, 10_000])
def test_many_inlined_rows_are_read_by_tasks_and_do_not_pass_through_the_driver(
    lake: Lake, mode: FeedMode, rows: int
) -> None:
    tasks = shared(listed(lake, mode, LIMITS), rows)

    inlined = [part for task in tasks for part in task.inlined]
    assert all(isinstance(part, CatalogChanges) for part in inlined)
    assert len(inlined) == 1 if rows == 10_000 else len(inlined) > 5
    assert MARK.encode() not in pickle.dumps(tasks)
    found = read(lake, tasks)
    assert found == expected(lake, mode)
    assert sum(found.values()) > 50


def test_row_whose_versions_are_in_several_inlined_tables_is_one_row(lake: Lake) -> None:
    tasks = shared(listed(lake, FeedMode.NET, LIMITS), 5)

    of_310 = [event for event in read(lake, tasks) if event.values[0] == 310]

    assert [(event.kind, event.values[2]) for event in of_310] == [("insert", 7)]


def test_few_inlined_rows_travel(lake: Lake) -> None:
    for limits in (InlinedLimits(), InlinedLimits(surely_few=3), InlinedLimits(surely_few=3, rows=150)):
        task = listed(lake, FeedMode.CHANGES, limits)

        assert MARK.encode() in pickle.dumps(task)
        assert read(lake, [task]) == expected(lake, FeedMode.CHANGES)
    assert MARK.encode() not in pickle.dumps(listed(lake, FeedMode.CHANGES, InlinedLimits(surely_few=3, size_bytes=99)))


@pytest.mark.parametrize("mode", FeedMode)
def test_commits_between_planning_and_reading_change_nothing(lake: Lake, mode: FeedMode) -> None:
    tasks, before = shared(listed(lake, mode, LIMITS)), expected(lake, mode)

    lake.append("t", pa.table({"i": [1000], "s": ["new"], "n": [1]}))
    lake.update("t", {"s": "later"}, "i < 250")
    lake.delete("t", "i = 310")
    lake.drop_column("t", "n")

    assert read(lake, tasks) == before


@pytest.mark.parametrize("mode", FeedMode)
@pytest.mark.parametrize("keep", ["1h", 0])
def test_flush_between_planning_and_reading_is_told_and_reading_again_helps(
    lake: Lake, mode: FeedMode, keep: str | int
) -> None:
    tasks, before = shared(listed(lake, mode, LIMITS)), expected(lake, mode)

    lake.flush_inlined("t", keep_superseded=keep)

    for task in tasks:
        if task.inlined:
            with pytest.raises(TransientError, match=r"have been flushed since .* begin the read again"):
                read(lake, [task])
    again = shared(listed(lake, mode, LIMITS, end=tasks[0].span.end))
    assert read(lake, again) == before


@pytest.mark.parametrize("mode", [FeedMode.CHANGES, FeedMode.NET])
def test_tasks_of_files_notice_a_flush_when_they_need_the_inlined_halves_of_updates(lake: Lake, mode: FeedMode) -> None:
    tasks = [task for task in shared(listed(lake, mode, LIMITS)) if task.files]
    assert tasks
    assert any(task.counterpart_inlined for task in tasks)

    lake.flush_inlined("t")

    with pytest.raises(TransientError, match="begin the read again"):
        read(lake, tasks)


def test_partition_names_the_table_when_rows_have_moved_and_shows_no_address(lake: Lake, catalog: Catalog) -> None:
    task = next(task for task in shared(listed(lake, FeedMode.CHANGES, LIMITS)) if task.inlined)
    partition = FeedPartition(lake.storage, task, frozenset(ChangeType))
    assert catalog.url.split("://")[1] not in f"{partition!r} {task!r}"
    assert next(rows_of(partition)).num_rows

    lake.flush_inlined("t")

    with pytest.raises(TransientError, match=r"changes of table 'main.t' after snapshot 4 up to \d+: inlined rows"):
        list(rows_of(partition))
