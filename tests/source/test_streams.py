"""Streams of changes by Spark itself: `spark.readStream.format("ducklake")` is found, followed and restarted."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 # Spark's own convention
from pyspark.sql.streaming.query import StreamingQuery

from ducklake_core import Lake
from tests.fixtures.catalogs import Catalog
from tests.fixtures.oracle import Oracle
from tests.fixtures.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

Row = tuple[Any, ...]  # Any: values of a row


class Stream:
    """A query that keeps the rows of each batch, and a checkpoint to start it from again."""

    def __init__(self, spark: SparkSession, catalog: Catalog, folder: Path) -> None:
        self.spark = spark
        self.catalog = catalog
        self.checkpoint = folder / "checkpoint"
        self.batches: dict[int, list[Row]] = {}
        self.queries: list[StreamingQuery] = []

    def start(self, *, ends: bool = False, **options: str) -> StreamingQuery:
        chosen = {"catalog": self.catalog.url, "table": "t", "readChangeFeed": "true", **options}
        frame = self.spark.readStream.format("ducklake").options(**chosen).load()
        writer = frame.writeStream.foreachBatch(self._keep).option("checkpointLocation", str(self.checkpoint))
        writer = writer.trigger(availableNow=True) if ends else writer.trigger(processingTime="0 seconds")
        self._begin = writer.start
        self.queries.append(writer.start())
        return self.queries[-1]

    def end(self, **options: str) -> None:
        """Read all that is there."""
        self.start(ends=True, **options)
        self._await(lambda: False)

    def _keep(self, frame: DataFrame, batch_id: int) -> None:
        self.batches[batch_id] = sorted((tuple(row) for row in frame.drop("_commit_timestamp").collect()), key=repr)

    @property
    def rows(self) -> list[Row]:
        return [row for batch_id in sorted(self.batches) for row in self.batches[batch_id]]

    def wait(self, count: int) -> None:
        self._await(lambda: len(self.rows) >= count)
        assert len(self.rows) >= count

    def _await(self, is_done: Callable[[], bool]) -> None:
        """Wait for rows or for the end; Spark gives its Python process ten seconds to come up: then start again."""
        error = None
        for _ in range(5):
            query = self.queries[-1]
            wait_until(
                lambda: is_done() or not query.isActive,  # noqa: B023 # called at once
                lambda: f"{len(self.rows)} rows; {query.lastProgress}",  # noqa: B023 # called at once
                seconds=120,
            )
            error = query.exception()
            if error is None or "failed to connect back" not in str(error):
                break
            self.queries.append(self._begin())
        if error is not None:
            raise AssertionError(str(error))

    def stop(self) -> None:
        for query in self.queries:
            query.stop()


@pytest.fixture
def lake(catalog: Catalog) -> Iterator[Lake]:
    """Give a lake with a table of two columns: up to five rows at once are inlined."""
    with Lake.create(catalog.url, data_path=catalog.data_path) as made:
        made.set_option("data_inlining_row_limit", 5)
        made.create_table("t", {"i": "int64", "s": "varchar"})
        yield made


@pytest.fixture
def stream(spark: SparkSession, catalog: Catalog, tmp_path: Path) -> Iterator[Stream]:
    made = Stream(spark, catalog, tmp_path)
    yield made
    made.stop()


def add(lake: Lake, *numbers: int) -> None:
    lake.append("t", pa.table({"i": list(numbers), "s": ["a"] * len(numbers)}))


def test_running_stream_follows_every_commit_and_goes_on_from_its_checkpoint(
    stream: Stream, lake: Lake, oracle: Oracle, catalog: Catalog
) -> None:
    add(lake, 1, 2, 3)
    stream.start()
    stream.wait(3)
    lake.update("t", {"s": "b"}, "i = 2")
    stream.wait(5)
    oracle.attach(catalog.attach)
    oracle.execute("INSERT INTO t SELECT range, 'duck' FROM range(100, 120)")
    stream.wait(25)
    stream.stop()
    lake.flush_inlined("t")
    oracle.execute("DELETE FROM t WHERE i >= 110")

    stream.start()
    stream.wait(35)

    assert stream.rows[:3] == [(i, "a", "insert", 2, i - 1) for i in (1, 2, 3)]
    assert stream.rows[3:5] == [(2, "a", "update_preimage", 3, 1), (2, "b", "update_postimage", 3, 1)]
    assert [row[:3] for row in stream.rows[5:25]] == [(i, "duck", "insert") for i in range(100, 120)]
    assert [row[:4] for row in stream.rows[25:]] == [(i, "duck", "delete", 6) for i in range(110, 120)]


@pytest.mark.parametrize("make_catalog", ["postgres"], indirect=True)
def test_running_stream_outlives_its_connections(stream: Stream, lake: Lake, catalog: Catalog) -> None:
    add(lake, 1)
    query = stream.start(consumerId="c")
    stream.wait(1)

    for number in (2, 3, 4):
        others = "FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        assert catalog.query(f"SELECT pg_terminate_backend(pid, 10000) {others}")
        add(lake, number)
        stream.wait(number)

    assert query.isActive
    assert [row[0] for row in stream.rows] == [1, 2, 3, 4]


@pytest.mark.parametrize("make_catalog", ["sqlite"], indirect=True)
def test_batch_that_spark_forgot_is_read_again_the_same(
    stream: Stream, lake: Lake, oracle: Oracle, catalog: Catalog
) -> None:
    add(lake, 1, 2, 3)
    add(lake, *range(10, 20))
    lake.update("t", {"s": "b"}, "i = 2 OR i = 12")
    stream.end(startingVersion="earliest")
    before = dict(stream.batches)
    commits = stream.checkpoint / "commits"
    last = max(int(file.name) for file in commits.glob("[0-9]*"))
    for name in (f"{last}", f".{last}.crc"):
        (commits / name).unlink(missing_ok=True)
    lake.flush_inlined("t")
    oracle.attach(catalog.attach)
    oracle.execute("CALL ducklake_merge_adjacent_files('lake')")
    add(lake, 99)
    stream.batches.clear()

    stream.end(startingVersion="earliest")
    stream.end(startingVersion="earliest")  # before 4.2, a run that repeats a batch ends with it

    assert stream.batches[last] == before[last]
    assert [row[0] for row in stream.rows[len(before[last]) :]] == [99]


@pytest.mark.parametrize("make_catalog", ["postgres"], indirect=True)
def test_large_range_is_shared_out_among_tasks(stream: Stream, lake: Lake, spark: SparkSession) -> None:
    lake.append("t", pa.table({"i": range(600_000), "s": ["x"] * 600_000}))
    lake.update("t", {"s": "y"}, "i < 300000")
    chosen = {"catalog": stream.catalog.url, "table": "t", "readChangeFeed": "true", "startingVersion": "3"}

    frame = spark.read.format("ducklake").options(**chosen).load()

    assert frame.rdd.getNumPartitions() > 2
    grouped = frame.groupBy("_change_type").agg(F.sum("i"), F.min("s"), F.max("s"))
    total = sum(range(300_000))
    assert {tuple(row) for row in grouped.collect()} == {
        ("update_preimage", total, "x", "x"),
        ("update_postimage", total, "y", "y"),
    }


@pytest.mark.parametrize("make_catalog", ["sqlite"], indirect=True)
def test_error_on_an_executor_names_table_file_and_snapshot(stream: Stream, lake: Lake) -> None:
    add(lake, *range(10))
    [file] = lake.table("t").files()
    shutil.rmtree(Path(file.path).parent)
    with pytest.raises(AssertionError) as caught:
        stream.end(startingVersion="earliest")

    message = str(caught.value)
    assert "table 'main.t'" in message
    assert file.path in message
    assert "up to 2" in message


@pytest.mark.parametrize("make_catalog", ["sqlite"], indirect=True)
def test_changes_are_read_as_a_temporary_view(lake: Lake, spark: SparkSession, catalog: Catalog) -> None:
    add(lake, 1, 2)
    lake.delete("t", "i = 1")

    spark.sql(
        f"CREATE OR REPLACE TEMPORARY VIEW changes USING ducklake OPTIONS (catalog '{catalog.url}', table 't', "
        "readChangeFeed 'true', startingVersion '2', endingVersion '3')"
    )

    found = spark.sql("SELECT i, _change_type, _commit_version FROM changes ORDER BY 3, 1").collect()
    assert [tuple(row) for row in found] == [(1, "insert", 2), (2, "insert", 2), (1, "delete", 3)]
