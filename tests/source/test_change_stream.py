"""`stream_changes`: a query of ranges whose function gets the changes, the same as `readStream` tells them."""

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from ducklake_core import Lake
from ducklake_core.errors import InvalidInput
from ducklake_sinks import DuckLakeSink
from ducklake_sources import changes_scan, stream_changes
from ducklake_sources.driver_source import DriverSource
from ducklake_sources.feed_query import FeedQuery
from ducklake_sources.options import parse_options
from tests.fixtures.catalogs import Catalog
from tests.fixtures.oracle import Oracle

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]
ONLY_SQLITE = pytest.mark.parametrize("make_catalog", ["sqlite"], indirect=True)
Row = tuple[Any, ...]  # Any: values of a row


class Runs:
    """Reads all that is there, again and again, and keeps each batch."""

    def __init__(self, spark: SparkSession, catalog: Catalog, folder: Path) -> None:
        self._spark = spark
        self._catalog = catalog
        self._folder = folder
        self.batches: list[list[Row]] = []
        self.columns: list[list[str]] = []

    def run(self, name: str = "changes", **options: str | float) -> list[list[Row]]:
        """Return the batches of one run, those without rows left out."""
        return self.run_with(self.keep, name, **options)

    def run_with(
        self, function: Callable[[DataFrame, int], object], name: str = "changes", **options: str | float
    ) -> list[list[Row]]:
        self.batches = []
        writer = stream_changes(self._spark, self._catalog.url, "t", function, **options)
        query = writer.option("checkpointLocation", str(self._folder / name)).trigger(availableNow=True).start()
        query.awaitTermination()
        return [batch for batch in self.batches if batch]

    def keep(self, frame: DataFrame, batch_id: int) -> None:  # noqa: ARG002 # Spark's signature
        rows = frame.drop("_commit_timestamp").collect()
        self.columns.append(frame.columns)
        self.batches.append(sorted((tuple(row) for row in rows), key=repr))


@pytest.fixture
def lake(catalog: Catalog) -> Iterator[Lake]:
    """Give a lake with a table of two columns: up to five rows at once are inlined."""
    with Lake.create(catalog.url, data_path=catalog.data_path) as made:
        made.set_option("data_inlining_row_limit", 5)
        made.create_table("t", {"i": "int64", "s": "varchar"})
        yield made


@pytest.fixture
def runs(spark: SparkSession, catalog: Catalog, tmp_path: Path) -> Runs:
    return Runs(spark, catalog, tmp_path)


def add(lake: Lake, *numbers: int) -> None:
    lake.append("t", pa.table({"i": list(numbers), "s": ["a"] * len(numbers)}))


@pytest.mark.parametrize("few", [-1, 1000])
def test_runs_go_on_where_the_last_one_ended(runs: Runs, lake: Lake, monkeypatch: pytest.MonkeyPatch, few: int) -> None:
    monkeypatch.setattr(changes_scan, "_FEW_ROWS", few)  # by Spark's scan, or by the driver
    add(lake, *range(10))
    add(lake, 10, 11)
    lake.delete("t", "i = 3")

    first = runs.run(consumerId="c")
    lake.update("t", {"s": "b"}, "i IN (2, 10)")
    lake.delete("t", "i = 5")
    lake.flush_inlined("t")
    second = runs.run(consumerId="c")
    third = runs.run(consumerId="c")

    state = [(i, "a", "insert", 4, i) for i in range(12) if i != 3]
    assert [row[:3] for row in first[0]] == sorted((row[:3] for row in state), key=repr)
    assert second == [
        [
            (10, "a", "update_preimage", 5, 10),
            (10, "b", "update_postimage", 5, 10),
            (2, "a", "update_preimage", 5, 2),
            (2, "b", "update_postimage", 5, 2),
            (5, "a", "delete", 6, 5),
        ]
    ]
    assert third == []
    assert [(c.name, c.snapshot_id) for c in lake.consumers()] == [("c", lake.snapshots()[-1].snapshot_id)]


@ONLY_SQLITE
def test_options_are_those_of_read_stream(runs: Runs, lake: Lake, spark: SparkSession, catalog: Catalog) -> None:
    add(lake, *range(10))
    add(lake, 10, 11)
    lake.update("t", {"s": "b"}, "i = 2")
    lake.rename_column("t", "s", "title")

    limited = runs.run("limited", startingVersion=2, endingVersion=4, maxVersionsPerTrigger=1, columns="i")
    inserts = runs.run("inserts", startingVersion=2, readChangeFeed=False, skipChangeCommits=True, endingVersion=4)
    after = runs.run("after", startingVersion=4, changeTypes="update_postimage", netChanges=True)

    assert [len(batch) for batch in limited] == [10, 2, 2]
    assert limited[2] == [(2, "update_postimage", 4, 2), (2, "update_preimage", 4, 2)]
    assert sorted(row for batch in inserts for row in batch) == [(i, "a") for i in range(12)]
    assert after == [[(2, "b", "update_postimage", 4, 2)]]
    assert runs.columns[-1][:2] == ["i", "title"]
    with pytest.raises(InvalidInput, match="versionAsOf and readChangeFeed exclude each other"):
        stream_changes(spark, catalog.url, "t", print, versionAsOf=1)


@ONLY_SQLITE
def test_columns_are_followed_through_their_changes(runs: Runs, lake: Lake, tmp_path: Path) -> None:
    add(lake, *range(10))
    lake.rename_column("t", "s", "title")
    lake.append("t", pa.table({"i": [100], "title": ["x"]}))
    options: dict[str, Any] = {"startingVersion": 2, "schemaTrackingLocation": str(tmp_path / "columns")}

    with pytest.raises(StreamingQueryException, match="SchemaChanged"):
        runs.run(**options)
    before, columns = [batch for batch in runs.batches if batch], runs.columns[-1]
    after = runs.run(**options)

    assert [len(batch) for batch in before] == [10]
    assert columns[:2] == ["i", "s"]
    assert after == [[(100, "x", "insert", 4, 10)]]
    assert runs.columns[-1][:2] == ["i", "title"]


@ONLY_SQLITE
def test_range_has_the_columns_that_its_query_began_with(lake: Lake, catalog: Catalog) -> None:
    add(lake, 1)
    options = parse_options({"catalog": catalog.url, "table": "t", "readChangeFeed": "true", "startingVersion": "2"})
    with closing(FeedQuery(options, None)) as source:
        start = source.initial()
        end = source.latest(start, has_limits=False)
        lake.rename_column("t", "s", "title")
        with closing(FeedQuery(options, None)) as later:
            columns, task = later.range_task(start, end)

    assert [column.name for column in columns] == ["i", "s"]
    assert task is not None


def test_checkpoint_is_the_same_by_both_sources(runs: Runs, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    add(lake, *range(7))
    state = runs.run(consumerId="c")
    real = DriverSource.frame
    monkeypatch.setattr(DriverSource, "frame", lambda _: None)  # as over Spark Connect: by the format
    add(lake, 7)
    by_format = runs.run(consumerId="c")
    monkeypatch.setattr(DriverSource, "frame", real)
    add(lake, 8)
    by_driver = runs.run(consumerId="c")

    assert [len(batch) for batch in state] == [7]
    assert by_format == [[(7, "a", "insert", 3, 7)]]
    assert by_driver == [[(8, "a", "insert", 4, 8)]]
    assert [(c.name, c.snapshot_id) for c in lake.consumers()] == [("c", 4)]


def test_batch_that_failed_comes_again_and_what_is_new_waits_for_the_next_run(runs: Runs, lake: Lake) -> None:
    seen: list[tuple[int, list[Row]]] = []

    def fail_once_and_write(frame: DataFrame, batch_id: int) -> None:
        runs.keep(frame, batch_id)
        seen.append((batch_id, runs.batches[-1]))
        add(lake, 100 + len(seen))
        if len(seen) == 1:
            raise RuntimeError("not this time")

    add(lake, 1)
    with pytest.raises(StreamingQueryException, match="not this time"):
        runs.run_with(fail_once_and_write, startingVersion=2)
    runs.run_with(fail_once_and_write, startingVersion=2)
    rest = runs.run(startingVersion=2)

    assert seen == [(0, [(1, "a", "insert", 2, 0)])] * 2 + [(1, [(101, "a", "insert", 3, 1)])]
    assert rest == [[(102, "a", "insert", 4, 2), (103, "a", "insert", 5, 3)]]


@ONLY_SQLITE
def test_expired_snapshots_stop_it_or_are_an_accepted_loss(
    runs: Runs, lake: Lake, catalog: Catalog, oracle: Oracle
) -> None:
    add(lake, 1)
    runs.run()
    for number in range(2, 6):
        add(lake, number)
    oracle.attach(catalog.attach)
    oracle.execute("CALL ducklake_expire_snapshots('lake', versions => [3, 4])")
    oracle.detach()

    with pytest.raises(StreamingQueryException, match=r"snapshots 3 to 4 .*failOnDataLoss=false"):
        runs.run()
    [rows] = runs.run(failOnDataLoss=False)

    assert {4, 5} <= {row[0] for row in rows}


@ONLY_SQLITE
def test_queries_of_one_writer_run_at_once(spark: SparkSession, lake: Lake, catalog: Catalog, tmp_path: Path) -> None:
    add(lake, *range(6))
    rows: list[int] = []
    writer = stream_changes(spark, catalog.url, "t", lambda frame, _: rows.append(frame.count()), startingVersion=2)
    places = [str(tmp_path / name) for name in ("one", "other")]
    queries = [writer.option("checkpointLocation", place).trigger(availableNow=True).start() for place in places]
    for query in queries:
        query.awaitTermination()

    assert rows == [6, 6]
    told = [query.recentProgress[-1]["sources"][0]["description"] for query in queries]
    assert told == ["ducklake[t]"] * 2


def test_sink_is_such_a_function(spark: SparkSession, lake: Lake, catalog: Catalog, tmp_path: Path) -> None:
    add(lake, *range(20))
    sink = DuckLakeSink(
        catalog.url,
        "main.copy",
        stream="copy",
        mode="upsert",
        keys="_rowid",
        apply_as_deletes="_change_type IN ('delete', 'update_preimage')",
        sequence_by="_commit_version",
    )
    writer = stream_changes(spark, catalog.url, "t", sink, changeTypes="insert,update_postimage,delete")
    writer = writer.option("checkpointLocation", str(tmp_path / "copy")).trigger(availableNow=True)
    writer.start().awaitTermination()
    lake.update("t", {"s": "b"}, "i < 3")
    lake.delete("t", "i >= 15")
    writer.start().awaitTermination()
    sink.close()

    copied = lake.table("main.copy").read(columns=["i", "s"]).to_pylist()
    assert sorted(map(repr, copied)) == sorted(map(repr, lake.table("t").read().to_pylist()))
