"""A driver dies at each step of a batch: the next one completes it, each event is there once, only orphans are left."""

from pathlib import Path
from typing import Any, TypeAlias

import pytest

from ducklake_core import Lake
from tests.fixtures.driver_jobs import Fault
from tests.fixtures.ingests import INLINE_ROWS, Ingest, with_secret
from tests.fixtures.oracle import Oracle
from tests.fixtures.postgres import PostgresDatabase
from tests.fixtures.proxy import Fate, run_proxy
from tests.fixtures.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

SMALL = 10
LARGE = 100
ONLY_POSTGRES = pytest.mark.parametrize("make_catalog", ["postgres"], indirect=True)

# How a batch is written: the size of its two files, arguments of the sink, where its driver dies, and how many files
# a death may leave: Spark's own writer keeps a checksum beside each.
Way: TypeAlias = tuple[int, dict[str, Any], tuple[str, ...], int]  # Any: arguments of a sink
SMALL_BATCHES: Way = (SMALL, {}, ("after_collect", "after_head_read", "in_commit", "after_commit"), 0)
BY_SPARK: Way = (LARGE, {}, ("before_large_write", "after_collect", "before_commit", "after_commit"), 4)
BY_EXECUTORS: Way = (LARGE, {"partition_by": ["bucket(2, id)"]}, ("after_collect", "before_commit", "after_commit"), 4)


@pytest.mark.parametrize(
    ("make_catalog", "way"),
    [
        pytest.param("sqlite", SMALL_BATCHES, id="small batches, SQLite"),
        pytest.param("postgres", SMALL_BATCHES, id="small batches, PostgreSQL"),
        pytest.param("postgres", BY_SPARK, id="files by Spark's writer"),
        pytest.param("postgres", BY_EXECUTORS, id="files by executors"),
    ],
    indirect=["make_catalog"],
)
def test_driver_that_dies_at_any_step_is_followed_by_one_that_completes_the_batch(
    ingest: Ingest, oracle: Oracle, way: Way
) -> None:
    size, options, points, orphans = way
    if ingest.catalog.name == "postgres":  # statements and COMMIT travel together: other tests lose them on their way
        points = tuple(point for point in points if point != "in_commit")

    for batch_id, point in enumerate(points):
        ingest.feed(size, size)
        ingest.run_until_killed(Fault(point, "kill", batch_id), files_per_batch=2, **options)
        entry = ingest.ledger()
        assert (-1 if entry is None else entry.batch_id) == (batch_id if point == "after_commit" else batch_id - 1)

    last = ingest.start(files_per_batch=2, **options)
    assert last.end() is None
    assert f"batch_replayed stream=s batch={len(points) - 1}" in last.log
    ingest.check(oracle, len(points) - 1, orphans=orphans * (len(points) - 1))


def test_batch_that_spark_forgot_is_skipped(ingest: Ingest, oracle: Oracle) -> None:
    ingest.feed(SMALL, LARGE, SMALL)
    assert ingest.run() is None
    ingest.forget_last_commit()
    ingest.feed(SMALL)

    driver = ingest.start()

    assert driver.end() is None
    assert "batch_replayed stream=s batch=2" in driver.log
    ingest.check(oracle, 3)


@ONLY_POSTGRES
def test_table_gets_its_options_though_its_driver_died_right_after_creating_it(ingest: Ingest, oracle: Oracle) -> None:
    ingest.feed(SMALL)
    options = {"target_file_size": "10MB"}
    ingest.run_until_killed(Fault("after_commit", "kill", 0), table_options=options)

    assert ingest.run(table_options=options) is None

    with Lake.open(ingest.catalog.url) as lake:
        found = lake.options(table="main.events")
    assert found == {"data_inlining_row_limit": str(INLINE_ROWS), "target_file_size": "10000000"}
    ingest.check(oracle, 0)


@ONLY_POSTGRES
def test_driver_that_dies_when_some_tasks_have_written_leaves_only_orphans(ingest: Ingest, oracle: Oracle) -> None:
    ingest.feed(LARGE, LARGE)
    job: dict[str, Any] = {"files_per_batch": 2, "partition_by": ["bucket(1, id)"]}
    driver = ingest.start(orders=["hold.after_task_file_write"], **job)
    driver.wait_held("after_task_file_write")

    driver.kill()

    assert 1 <= len(ingest.orphans()) <= 2
    assert ingest.run(**job) is None
    ingest.check(oracle, 0, orphans=2)


@ONLY_POSTGRES
def test_driver_that_dies_when_sparks_writer_has_finished_some_tasks_leaves_only_orphans(
    ingest: Ingest, oracle: Oracle
) -> None:
    ingest.feed(LARGE)
    ingest.put([{"id": -1, "name": "waits"}, *({"id": -i, "name": "more"} for i in range(2, LARGE))])
    job: dict[str, Any] = {"files_per_batch": 2, "obeys_at_rows": True}
    driver = ingest.start(orders=["hold.row"], **job)
    driver.wait_held("row")
    driver.wait_for(lambda: any(Path(ingest.catalog.data_path).rglob("task_*/*.parquet")), "a task that has ended")

    driver.kill()

    assert ingest.orphans()
    assert ingest.run(**job) is None
    ingest.check(oracle, 0, orphans=4)


@ONLY_POSTGRES
def test_task_that_dies_after_writing_is_repeated_and_only_its_second_file_is_registered(
    ingest: Ingest, oracle: Oracle
) -> None:
    ingest.feed(LARGE, LARGE)

    driver = ingest.start(orders=["die.after_task_file_write"], files_per_batch=2, partition_by=["bucket(1, id)"])

    assert driver.end() is None
    assert len(ingest.orphans()) == 1
    ingest.check(oracle, 0, orphans=1)


@ONLY_POSTGRES
def test_task_of_sparks_writer_that_dies_is_repeated_and_leaves_nothing(ingest: Ingest, oracle: Oracle) -> None:
    ingest.feed(LARGE)
    ingest.put([*({"id": -i, "name": "more"} for i in range(2, LARGE)), {"id": -1, "name": "dies"}])

    driver = ingest.start(orders=["die.row"], files_per_batch=2, obeys_at_rows=True)

    assert driver.end() is None
    assert not (driver.signals / "die.row").exists()
    ingest.check(oracle, 0)


def test_query_that_is_stopped_in_the_middle_of_a_commit_goes_on_later(ingest: Ingest, oracle: Oracle) -> None:
    ingest.feed(SMALL, LARGE, SMALL)
    driver = ingest.start(Fault("before_commit", "hold", 1))
    driver.wait_held("before_commit")

    driver.stop_query()
    driver.wait_held("stop")
    driver.order("release.before_commit")

    driver.end()  # well or not: Spark interrupts what waits
    assert ingest.run() is None
    ingest.check(oracle, 2)


@ONLY_POSTGRES
def test_query_that_is_stopped_while_tasks_write_goes_on_later(ingest: Ingest, oracle: Oracle) -> None:
    ingest.feed(LARGE, LARGE)
    job: dict[str, Any] = {"files_per_batch": 2, "partition_by": ["bucket(1, id)"]}
    driver = ingest.start(orders=["hold.after_task_file_write"], **job)
    driver.wait_held("after_task_file_write")

    driver.stop_query()

    driver.end()
    assert ingest.run(**job) is None
    ingest.check(oracle, 0, orphans=2)


@ONLY_POSTGRES
@pytest.mark.parametrize("fate", [Fate.LOSE_REQUEST, Fate.LOSE_REPLY], ids=lambda fate: fate.value)
def test_stream_survives_a_commit_whose_connection_is_lost(ingest: Ingest, oracle: Oracle, fate: Fate) -> None:
    ingest.feed(SMALL, LARGE, SMALL)
    with run_proxy(_database(ingest)) as proxy:
        driver = ingest.start(Fault("after_collect", "hold", 1), catalog=with_secret(proxy.database.url))
        driver.wait_held("after_collect")
        proxy.lose(fate, then_refuse=2)
        driver.order("release.after_collect")

        assert driver.end() is None

    assert proxy.fate is Fate.PASS
    ingest.check(oracle, 2)


@ONLY_POSTGRES
def test_commit_of_a_dead_driver_that_lands_late_and_that_of_its_follower_are_one(
    ingest: Ingest, oracle: Oracle
) -> None:
    ingest.feed(SMALL, LARGE)
    with run_proxy(_database(ingest)) as proxy:
        dead = ingest.start(Fault("after_collect", "hold", 1), catalog=with_secret(proxy.database.url))
        dead.wait_held("after_collect")
        proxy.lose(Fate.HOLD_REQUEST)
        dead.order("release.after_collect")
        wait_until(proxy.held.is_set)
        dead.kill()
        follower = ingest.start(Fault("after_collect", "hold", 1))
        follower.wait_held("after_collect")

        follower.order("release.after_collect")
        follower.wait_for(lambda: _is_somebody_waiting(ingest), "the follower to meet the lock of the dead")
        proxy.release()

        assert follower.end() is None
    assert follower.log.count("batch_replayed stream=s batch=1") == 1
    ingest.check(oracle, 1, orphans=0)


def _is_somebody_waiting(ingest: Ingest) -> bool:
    return ingest.catalog.query("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'") != [(0,)]


def _database(ingest: Ingest) -> PostgresDatabase:
    database = getattr(ingest.catalog, "database", None)
    assert isinstance(database, PostgresDatabase)
    return database
