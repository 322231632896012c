"""Maintenance that is stopped in the middle: no file is left that no snapshot names, no lease, and nothing is lost."""

import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
import pytest

from ducklake_core import Lake
from ducklake_core.maintenance import compaction, removal
from ducklake_streaming import maintain
from ducklake_streaming.maintenance.maintain import run_operations
from ducklake_streaming.maintenance.pace import MaintenanceStopped, Pace
from ducklake_streaming.maintenance.request import MaintenanceRequest
from ducklake_streaming.maintenance.runners import PacedRunner, run_in_process
from tests.fixtures.catalogs import Catalog
from tests.fixtures.faults import at_fault

T = TypeVar("T")
R = TypeVar("R")


@pytest.fixture
def lake(catalog: Catalog) -> Iterator[Lake]:
    """Give a lake with a table of three partitions, in each of which there are files to merge."""
    with Lake.create(catalog.url, catalog.data_path) as lake:
        lake.create_table("t", {"id": "int64", "part": "int64"}, partition_by=["part"])
        for first in range(0, 400, 100):
            ids = [*range(first, first + 100)]
            lake.append("t", pa.table({"id": ids, "part": [i % 3 for i in ids]}))
        yield lake


def stored_files(lake: Lake) -> set[str]:
    return {str(path) for path in Path(lake.data_path).rglob("*.parquet")}


class StopsAfterOne:
    """Does tasks, and stops the pace after the first."""

    def __init__(self, stop: threading.Event) -> None:
        self._stop = stop
        self.done = 0

    def __call__(self, function: Callable[[T], R], tasks: Sequence[T]) -> Iterator[R]:
        for result in run_in_process(function, tasks):
            self.done += 1
            self._stop.set()
            yield result


def test_a_stop_between_tasks_leaves_the_lake_as_it_was(lake: Lake) -> None:
    before, stop = stored_files(lake), threading.Event()
    tasks = StopsAfterOne(stop)

    with pytest.raises(MaintenanceStopped):
        lake.merge_adjacent_files("t", runner=PacedRunner(tasks, Pace(1.0, stop)))

    assert tasks.done == 1
    assert stored_files(lake) == before, "what the first task wrote is gone again"
    again = lake.merge_adjacent_files("t")
    assert (again.held_back, again.total.files_before, again.total.files_after) == ((), 12, 3)
    assert sorted(lake.table("t").read(["id"]).column("id").to_pylist()) == [*range(400)]


def test_a_stop_keeps_what_was_committed_before(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "PORTION_SECONDS", 0.0)  # each task is committed by itself
    stop = threading.Event()

    with pytest.raises(MaintenanceStopped):
        lake.merge_adjacent_files("t", runner=PacedRunner(StopsAfterOne(stop), Pace(1.0, stop)))

    assert len(lake.table("t").files()) == 9  # of twelve: those of one partition are one now
    assert sorted(lake.table("t").read(["id"]).column("id").to_pylist()) == [*range(400)]


@pytest.mark.parametrize("operation", ["cleanup", "orphans"])
def test_a_stop_while_files_are_removed_leaves_the_rest_to_the_next_run(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, operation: str
) -> None:
    monkeypatch.setattr(removal, "BATCH_FILES", 1)
    lake.merge_adjacent_files("t")
    for number in range(3):
        Path(lake.data_path, f"orphan{number}.parquet").touch()
    before, stop = len(stored_files(lake)), threading.Event()
    request = MaintenanceRequest.of(operations=[operation], any_age=True, delete_orphans=True)

    with at_fault("files_removed", stop.set), pytest.raises(MaintenanceStopped):
        list(run_operations(lake, request, run_in_process, Pace(1.0, stop).rest))

    assert len(stored_files(lake)) == before - 1
    [again] = run_operations(lake, request, run_in_process)
    assert (again.held_back, again.total.files_before) == ((), 11 if operation == "cleanup" else 2)


def test_all_is_done_by_one_call_and_all_is_reported(lake: Lake) -> None:
    lake.set_option("data_inlining_row_limit", 10)
    lake.append("t", pa.table({"id": [400], "part": [1]}))
    lake.delete("t", "id < 200 AND part = 0")

    reports = maintain(lake, table=["t"], expire_older_than=0, keep_last=1, cleanup_older_than=0, delete_threshold=0.1)

    by_operation = {report.operation: report for report in reports}
    assert [*by_operation] == ["flush", "expire", "merge", "rewrite", "cleanup", "orphans"]
    assert not any(report.has_failed or report.held_back for report in reports)
    assert by_operation["flush"].total.rows == 1  # type: ignore[index] # an Operation is its text
    assert by_operation["orphans"].dry_run  # type: ignore[index] # likewise
    assert len(lake.snapshots()) <= 4
    assert sorted(lake.table("t").read(["id"]).column("id").to_pylist()) == [i for i in range(401) if i >= 200 or i % 3]


def test_a_table_that_is_not_there_keeps_the_named_others_not_from_their_turn(lake: Lake) -> None:
    [report] = maintain(lake, operations=["merge"], table=["no_such", "t"])

    assert [work.table for work in report.work] == ["main.no_such", "main.t"]
    assert "no_such" in (report.work[0].error or "")
    assert report.total.files_before == 12
