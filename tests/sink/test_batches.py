"""A batch becomes rows or files, one snapshot, exactly once; DuckDB reads the same."""

import json
import logging
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 # Spark's own convention

from ducklake_core import Lake
from ducklake_core.errors import CatalogUnavailable, DuckLakeError, EpochOutOfOrder, InvalidInput, LedgerBehind
from ducklake_sinks.query import QueryFinder
from tests.fixtures.catalogs import Catalog
from tests.fixtures.consistency import check_lake
from tests.fixtures.oracle import Oracle
from tests.fixtures.sinks import MakeSink

pytestmark = pytest.mark.slow


def frame(spark: SparkSession, rows: int, start: int = 0) -> DataFrame:
    return spark.range(start, start + rows, 1, 2).select("id", F.concat(F.lit("event "), "id").alias("name"))


def ids(lake: Lake, table: str = "main.events") -> list[int]:
    return sorted(lake.table(table).read(columns=["id"]).column(0).to_pylist())


def test_small_batch_becomes_rows_of_the_catalog(
    spark: SparkSession, catalog: Catalog, make_sink: MakeSink, oracle: Oracle
) -> None:
    sink = make_sink()

    sink(frame(spark, 10), 0)
    sink(frame(spark, 10, 10), 1)

    with Lake.open(catalog.url) as lake:
        assert ids(lake) == list(range(20))
        assert lake.table("main.events").files() == ()
        assert len(lake.snapshots()) == 3
    check_lake(catalog, orphans=0)
    oracle.attach(catalog.attach)
    assert oracle.query("SELECT count(*), min(id), max(id), min(name) FROM events") == [(20, 0, 19, "event 0")]


def test_large_batch_becomes_files_in_one_snapshot(
    spark: SparkSession, catalog: Catalog, make_sink: MakeSink, oracle: Oracle
) -> None:
    sink = make_sink(inline_rows=100)

    sink(frame(spark, 1000), 0)
    sink(frame(spark, 1000, 1000), 1)

    with Lake.open(catalog.url) as lake:
        assert ids(lake) == list(range(2000))
        assert sum(file.record_count for file in lake.table("main.events").files()) == 2000
        assert len(lake.snapshots()) == 3
    check_lake(catalog, orphans=0)
    oracle.attach(catalog.attach)
    assert oracle.query("SELECT count(*), min(id), max(id), max(name) FROM events") == [(2000, 0, 1999, "event 999")]
    assert oracle.query("SELECT name FROM events WHERE id = 1234") == [("event 1234",)]


def test_batch_that_shrinks_is_inlined_again(spark: SparkSession, catalog: Catalog, make_sink: MakeSink) -> None:
    sink = make_sink(inline_rows=100)

    for batch_id, rows in enumerate((1000, 10, 10, 1000, 10)):
        sink(frame(spark, rows, 1000 * batch_id), batch_id)

    with Lake.open(catalog.url) as lake:
        assert len(ids(lake)) == 2030
        assert sum(file.record_count for file in lake.table("main.events").files()) == 2000
    check_lake(catalog, orphans=0)


def test_partitioned_table_is_written_by_executors(
    spark: SparkSession, catalog: Catalog, make_sink: MakeSink, oracle: Oracle
) -> None:
    sink = make_sink(inline_rows=100, partition_by=["bucket(3, id)"], sorted_by=["name DESC"])

    sink(frame(spark, 1000), 0)

    with Lake.open(catalog.url) as lake:
        assert ids(lake) == list(range(1000))
    check_lake(catalog, orphans=0)
    values = catalog.query("SELECT DISTINCT partition_value FROM ducklake_file_partition_value ORDER BY 1")
    assert values == [("0",), ("1",), ("2",)]
    oracle.attach(catalog.attach)
    assert oracle.query("SELECT count(*) FROM events WHERE id IN (5, 6, 7)") == [(3,)]


def test_task_with_few_rows_returns_them(spark: SparkSession, catalog: Catalog, make_sink: MakeSink) -> None:
    sink = make_sink(inline_rows=100, partition_by=["bucket(2, id)"])
    skewed = spark.range(0, 2, 1, 2).selectExpr("explode(sequence(1L, IF(id = 0, 5L, 900L))) AS id")

    sink(skewed, 0)

    with Lake.open(catalog.url) as lake:
        table = lake.table("main.events")
        assert table.count() == 905
        assert sum(file.record_count for file in table.files()) == 900  # and five rows inlined, in the same snapshot
        assert len(lake.snapshots()) == 2
    check_lake(catalog, orphans=0)


def test_empty_batch_advances_the_ledger_without_a_snapshot(
    spark: SparkSession, catalog: Catalog, make_sink: MakeSink
) -> None:
    sink = make_sink(inline_rows=100)
    sink(frame(spark, 1000), 0)

    sink(frame(spark, 0), 1)  # a large one is expected here
    sink(frame(spark, 0), 2)

    with Lake.open(catalog.url) as lake:
        entry = lake.ledger_entry("s")
        assert entry is not None
        assert (entry.batch_id, entry.snapshot_id, entry.row_count) == (2, None, 0)
        assert len(lake.snapshots()) == 2


def test_empty_first_batch_creates_no_table(spark: SparkSession, catalog: Catalog, make_sink: MakeSink) -> None:
    make_sink()(frame(spark, 0), 0)

    with Lake.open(catalog.url) as lake:
        assert lake.tables() == []
        assert len(lake.snapshots()) == 1


def test_replayed_batch_reads_and_writes_nothing(spark: SparkSession, catalog: Catalog, make_sink: MakeSink) -> None:
    make_sink()(frame(spark, 10), 0)
    poison = frame(spark, 10).select(F.raise_error(F.lit("the source was read")).alias("id"))

    make_sink()(poison, 0)

    with Lake.open(catalog.url) as lake:
        assert ids(lake) == list(range(10))
        assert len(lake.snapshots()) == 2


def test_batches_out_of_order_are_refused(spark: SparkSession, make_sink: MakeSink) -> None:
    make_sink()(frame(spark, 10), 0)
    make_sink()(frame(spark, 10), 1)

    with pytest.raises(EpochOutOfOrder, match="epoch 0 of stream 's'"):
        make_sink()(frame(spark, 10), 0)
    with pytest.raises(LedgerBehind, match="epoch 3 of stream 's'"):
        make_sink()(frame(spark, 10), 3)


def test_failed_batch_leaves_no_file(spark: SparkSession, catalog: Catalog, make_sink: MakeSink) -> None:
    sink = make_sink(inline_rows=10, partition_by=["bucket(2, id)"])
    sink(frame(spark, 1000), 0)
    late = F.when(F.col("id") == 999, F.raise_error(F.lit("no"))).otherwise(F.col("id"))

    with pytest.raises(Exception, match="no"):
        sink(spark.range(0, 1000, 1, 1).select(late.alias("id"), F.lit("x").alias("name")), 1)

    check_lake(catalog, orphans=0)


def test_snapshot_tells_people_where_it_came_from(spark: SparkSession, catalog: Catalog, make_sink: MakeSink) -> None:
    make_sink(job="ingest")(frame(spark, 10), 0)

    with Lake.open(catalog.url) as lake:
        told = json.loads(lake.snapshots()[-1].extra_info or "")
    assert (told["stream"], told["batch_id"], told["job"]) == ("s", 0, "ingest")


def test_each_batch_is_told_in_one_line(
    spark: SparkSession, make_sink: MakeSink, caplog: pytest.LogCaptureFixture
) -> None:
    sink = make_sink()
    with caplog.at_level(logging.INFO, logger="ducklake_sinks"):
        sink(frame(spark, 10), 0)
        sink(frame(spark, 10), 0)

    first, second = [record.getMessage() for record in caplog.records if record.name == "ducklake_sinks"]
    for part in ("batch_committed", "stream=s", "batch=0", "rows=10", "inlined=10", "files=0", "snapshot=1"):
        assert part in first
    assert "collect_ms=" in first
    assert "commit_ms=" in first
    assert second.startswith("batch_replayed stream=s batch=0")
    assert "nothing was written" in second
    assert "sink.append(df)" in second
    assert [record.levelname for record in caplog.records if record.name == "ducklake_sinks"] == ["INFO", "WARNING"]


@pytest.mark.parametrize("where", ["when it begins", "at its rows", "at its commit"])
def test_batch_that_fails_is_told_in_one_line(
    spark: SparkSession, make_sink: MakeSink, caplog: pytest.LogCaptureFixture, where: str
) -> None:
    sink = make_sink()
    sink(frame(spark, 1), 0)
    caplog.clear()
    bad = {"when it begins": frame(spark, 1), "at its commit": spark.range(1).selectExpr("'x' AS id")}
    at_rows = spark.range(1).selectExpr("raise_error('no\\nluck') AS id")

    with pytest.raises(Exception):  # noqa: B017, PT011 # of Spark or ours: what is said of it counts
        sink(bad.get(where, at_rows), 7 if where == "when it begins" else 1)

    [line] = [message for message in caplog.messages if message.startswith("batch_failed")]
    assert f"stream=s batch={7 if where == 'when it begins' else 1} error=" in line
    assert "\n" not in line


def test_frames_are_appended_without_a_number(spark: SparkSession, catalog: Catalog, make_sink: MakeSink) -> None:
    sink = make_sink(stream=None, inline_rows=100)

    first = sink.append(frame(spark, 10))
    second = sink.append(frame(spark, 3000))
    third = sink.append(frame(spark, 10), "main.others")
    nothing = sink.append(frame(spark, 0))

    with Lake.open(catalog.url) as lake:
        assert lake.table("main.events").count() == 3010
        assert lake.table("main.others").count() == 10
        assert lake.ledger_entry("s") is None
        ids = [result.snapshot.snapshot_id for result in (first, second, third) if result.snapshot is not None]
        assert ids == [snapshot.snapshot_id for snapshot in lake.snapshots()][1:]
    assert nothing.snapshot is None
    check_lake(catalog, orphans=0)


def test_append_that_is_committed_succeeds_although_the_catalog_goes_away_then(
    spark: SparkSession,
    catalog: Catalog,
    make_sink: MakeSink,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    sink = make_sink(stream=None, inline_rows=100)

    def fail(*_: object, **__: object) -> None:
        raise CatalogUnavailable("away")

    with monkeypatch.context() as patch:
        patch.setattr(Lake, "set_option", fail)
        first = sink.append(frame(spark, 10))
    sink.append(frame(spark, 5, 10))

    assert first.snapshot is not None
    [line] = [message for message in caplog.messages if message.startswith("table_options_not_set")]
    assert line == 'table_options_not_set table=main.events error="CatalogUnavailable: away"'
    with Lake.open(catalog.url) as lake:
        assert ids(lake) == list(range(15))
        assert lake.options(table="main.events") == {"data_inlining_row_limit": "100"}


@pytest.mark.parametrize("act", ["append", "replace"])
def test_rows_without_a_number_that_fail_name_their_table(
    spark: SparkSession, make_sink: MakeSink, caplog: pytest.LogCaptureFixture, act: str
) -> None:
    sink = make_sink()
    sink.append(frame(spark, 1))

    with pytest.raises(DuckLakeError):
        getattr(sink, act)(spark.range(1).selectExpr("'x' AS id", "'y' AS name"))

    assert any('batch_failed table=main.events error="' in message for message in caplog.messages)


@pytest.mark.parametrize("act", ["append", "replace"])
def test_rows_without_a_number_are_refused_within_a_batch(
    spark: SparkSession, make_sink: MakeSink, tmp_path: Path, act: str
) -> None:
    sink = make_sink()
    stream = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()

    def write(rows: DataFrame, _: int) -> None:
        getattr(sink, act)(rows)

    writer = stream.writeStream.foreachBatch(write).trigger(once=True)

    with pytest.raises(Exception, match=rf"sink\.{act} is for rows outside of a streaming query"):
        writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start().awaitTermination()


@pytest.mark.parametrize("rows", [0, 10, 3000])
def test_rows_are_replaced_in_one_snapshot(
    spark: SparkSession, catalog: Catalog, make_sink: MakeSink, rows: int, oracle: Oracle
) -> None:
    sink = make_sink(inline_rows=100)
    sink.append(frame(spark, 2000))
    sink.append(frame(spark, 10))

    sink.replace(frame(spark, rows))

    oracle.attach(catalog.attach)
    assert oracle.query("SELECT count(*), count(DISTINCT id) FROM events") == [(rows, rows)]
    with Lake.open(catalog.url) as lake:
        assert len(lake.snapshots()) == 4  # the empty lake, two appends, and this
    check_lake(catalog, orphans=0)


def test_sink_without_a_stream_says_what_helps(spark: SparkSession, make_sink: MakeSink) -> None:
    with pytest.raises(InvalidInput, match="stream='…'"):
        make_sink(stream=None)(frame(spark, 1), 0)


def test_table_keeps_the_options_it_was_made_with(spark: SparkSession, catalog: Catalog, make_sink: MakeSink) -> None:
    make_sink(inline_rows=500, table_options={"target_file_size": "10MB"})(frame(spark, 10), 0)

    with Lake.open(catalog.url) as lake:
        options = lake.options(table="main.events")
    assert options == {"data_inlining_row_limit": "500", "target_file_size": "10000000"}


def test_several_tables_change_in_one_snapshot(spark: SparkSession, catalog: Catalog, make_sink: MakeSink) -> None:
    sink = make_sink(inline_rows=100)

    with sink.transaction(0) as tx:
        tx.append(frame(spark, 10))
        tx.append(frame(spark, 1000), "main.copies")
        tx.append(frame(spark, 5, 10), "main.events")

    with Lake.open(catalog.url) as lake:
        assert ids(lake) == list(range(15))
        assert ids(lake, "main.copies") == list(range(1000))
        assert len(lake.snapshots()) == 2
    with sink.transaction(0) as tx:
        assert tx.is_replay
        tx.append(frame(spark, 10))
    with Lake.open(catalog.url) as lake:
        assert len(lake.snapshots()) == 2


def test_transaction_that_fails_leaves_nothing(spark: SparkSession, catalog: Catalog, make_sink: MakeSink) -> None:
    sink = make_sink(inline_rows=100)

    def write() -> None:
        with sink.transaction(0) as tx:
            tx.append(frame(spark, 1000))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write()

    with Lake.open(catalog.url) as lake:
        assert lake.tables() == []
    check_lake(catalog, orphans=0)


@pytest.mark.parametrize("rows", [50, 20_000], ids=["small", "large"])
def test_first_batch_of_files_is_read_once(
    spark: SparkSession, catalog: Catalog, make_sink: MakeSink, tmp_path: Path, rows: int
) -> None:
    frame(spark, rows).coalesce(1).write.json(str(tmp_path / "input"))
    stream = spark.readStream.schema("id bigint, name string").json(str(tmp_path / "input"))
    writer = stream.writeStream.foreachBatch(make_sink(inline_rows=1000)).trigger(availableNow=True)

    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    query.awaitTermination()

    assert [progress["numInputRows"] for progress in query.recentProgress] == [rows]  # of all that Spark has run
    with Lake.open(catalog.url) as lake:
        assert ids(lake) == list(range(rows))


def test_plan_of_a_batch_tells_where_its_source_begins_and_ends(spark: SparkSession, tmp_path: Path) -> None:
    found: list[tuple[dict[str, int], dict[str, int]]] = []
    stream = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 7).load()

    def ask(rows: DataFrame, _: int) -> None:
        found.extend(QueryFinder().find(rows.sparkSession, None).offset_ranges())

    writer = stream.selectExpr("value AS id").writeStream.foreachBatch(ask).trigger(once=True)
    writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start().awaitTermination()

    assert [(start["offset"], end["offset"]) for start, end in found] == [(0, 7)]
