"""Tasks of maintenance by Spark's executors: each once and in order, and what fails is told as it was raised."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from ducklake_core import Lake
from ducklake_core.errors import UnreadableFile
from ducklake_sinks.spark_tasks import SparkRunner
from ducklake_streaming import maintain
from tests.fixtures.catalogs import Catalog
from tests.fixtures.oracle import Oracle
from tests.fixtures.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.slow

# Merges a lake over Spark Connect, which has no SparkContext.
CONNECT = """
import sys
from pyspark.sql import SparkSession
from ducklake_core import Lake
from ducklake_streaming import maintain
from tests.fixtures.driver import make_session
session = make_session("connect")
with Lake.open(sys.argv[1]) as lake:
    [report] = maintain(lake, spark=session, operations=["merge"], large_bytes=0)
    print("merged", report.total.files_before, report.total.files_after)
"""


@pytest.fixture
def lake(catalog: Catalog) -> Iterator[Lake]:
    """Give a lake with two tables of ten small files each."""
    with Lake.create(catalog.url, catalog.data_path) as lake:
        for table, parts in (("plain", []), ("parted", ["part"])):
            lake.create_table(table, {"id": "int64", "part": "int64"}, partition_by=parts)
            for first in range(0, 1000, 100):
                ids = [*range(first, first + 100)]
                lake.append(table, pa.table({"id": ids, "part": [i % 2 for i in ids]}))
        yield lake


def process_of(task: int) -> tuple[int, int]:
    return task, os.getpid()


def fail_on_two(task: int) -> int:
    if task == 2:
        raise UnreadableFile("file 2 is broken", path="2")
    return task


def fail_as_nobody_expects(_: int) -> int:
    raise ValueError("a tooth is loose")


def test_results_come_in_order_from_other_processes(spark: SparkSession) -> None:
    found = list(SparkRunner(spark)(process_of, [5, 3, 1]))

    assert [task for task, _ in found] == [5, 3, 1]
    assert os.getpid() not in {process for _, process in found}


def test_no_more_tasks_run_at_once_than_it_was_told(spark: SparkSession) -> None:
    found = list(SparkRunner(spark, at_once=1)(process_of, [1, 2, 3, 4]))

    assert [task for task, _ in found] == [1, 2, 3, 4]
    assert len({process for _, process in found}) == 1, "one Spark task did all of them"


def test_what_a_task_raises_comes_after_all_results(spark: SparkSession) -> None:
    results: list[int] = []

    with pytest.raises(UnreadableFile, match="file 2 is broken"):
        results.extend(SparkRunner(spark)(fail_on_two, [1, 2, 3]))

    assert results == [1, 3]


def test_failure_of_spark_itself_is_one_of_the_table(spark: SparkSession, lake: Lake) -> None:
    def failing(function: Any, tasks: Any) -> Iterator[Any]:  # noqa: ARG001 # named as others call it; Any: as given
        return SparkRunner(spark)(fail_as_nobody_expects, tasks)

    [work] = lake.merge_adjacent_files("plain", runner=failing).work

    assert work.error == "TransientError: Spark could not do 1 tasks: ValueError: a tooth is loose"
    assert len(lake.table("plain").files()) == 10


def test_executors_do_the_large_tables_and_the_process_the_small_ones(
    spark: SparkSession, lake: Lake, catalog: Catalog, oracle: Oracle, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = {table: sorted(lake.table(table).read().to_pylist(), key=repr) for table in ("plain", "parted")}
    asked: list[int] = []
    run = SparkRunner.__call__

    def counted(self: SparkRunner, function: Any, tasks: Any) -> Iterator[Any]:  # Any: as they are given
        asked.append(len(tasks))
        return run(self, function, tasks)

    monkeypatch.setattr(SparkRunner, "__call__", counted)

    [small] = maintain(lake, spark=spark, operations=["merge"], table="plain")
    [large] = maintain(lake, spark=spark, operations=["merge"], table="parted", large_bytes=1)

    assert asked == [2], "one task for each partition, by executors"
    assert (small.total.files_before, small.total.files_after) == (10, 1)
    assert (large.total.files_before, large.total.files_after) == (20, 2)
    assert {t: sorted(lake.table(t).read().to_pylist(), key=repr) for t in before} == before
    oracle.attach(catalog.attach)
    assert oracle.query("SELECT count(*), sum(id) FROM parted") == [(1000, 499500)]


@pytest.mark.parametrize("make_catalog", ["sqlite"], indirect=True)
def test_executors_work_over_spark_connect(lake: Lake, catalog: Catalog) -> None:
    root = str(Path(__file__).parents[2])
    done = subprocess.run(
        [sys.executable, "-c", CONNECT, catalog.url],
        check=False,
        capture_output=True,
        text=True,
        cwd=root,
        env={**os.environ, "PYTHONPATH": root, "PYSPARK_PYTHON": sys.executable, "SPARK_TESTING": "1"},  # any free port
        timeout=4 * PATIENCE_SECONDS,
    )

    assert done.returncode == 0, done.stderr[-5000:]
    assert done.stdout.splitlines()[-1] == "merged 30 3"
    assert lake.table("parted").count() == 1000
