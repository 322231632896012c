"""Spark's own writer keeps partitions apart just as our tasks do, whatever the values; DuckDB finds the same rows."""

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from ducklake_core import Lake
from tests.fixtures.catalogs import Catalog
from tests.fixtures.consistency import check_lake
from tests.fixtures.oracle import Oracle
from tests.fixtures.sinks import MakeSink

pytestmark = pytest.mark.slow

TEXTS = ("''", "'a'", "'A'", "'a/b=c%d'", "'__HIVE_DEFAULT_PARTITION__'", "repeat('é', 200)", "'null'", "'x'", "NULL")
MICROS = (0, -1, 86_399_999_999, 86_400_000_000, 1_709_164_800_000_000, -62_167_219_200_000_001, 4_102_444_800_000_000)
KEYS = {
    "texts": ["s"],
    "bytes": ["raw", "b"],
    "numbers": ["n", "m"],
    "dates": ["d"],
    "times": ["tz"],
    "local_times": ["ts"],
    "days": ["date(tz)"],
    "hours": ["hour(tz)"],
    "parts_of_local_times": ["year(ts)", "month(ts)", "hour(ts)"],
    "parts_of_dates": ["year(d)", "s"],
}
Partitions = dict[tuple[str | None, ...], list[int]]


def hard_rows(spark: SparkSession) -> DataFrame:
    """Return rows of two tasks that have every text, and every time at its turn."""
    ticks = f"array({', '.join(f'{micros}L' for micros in MICROS)}, NULL)"
    rows = spark.range(0, 720, 1, 2).selectExpr(
        "id", f"element_at(array({', '.join(TEXTS)}), CAST(id % 9 + 1 AS INT)) AS s", f"{ticks}[id % 8] AS tick"
    )
    return rows.selectExpr(
        "id",
        "s",
        "CAST(s AS BINARY) AS raw",
        "id % 3 = 0 AS b",
        "CAST(id % 4 - 2 AS TINYINT) AS n",
        "CAST(id % 5 / 4 AS DECIMAL(12, 2)) AS m",
        "timestamp_micros(tick) AS tz",
        "TIMESTAMP_NTZ '1970-01-01 00:00:00' + make_dt_interval(0, 0, 0, tick / 1000000) AS ts",
        "date_from_unix_date(CAST(floor(tick / 86400000000) AS INT)) AS d",
    )


@pytest.fixture(autouse=True)
def _elsewhere(spark: SparkSession) -> Iterator[None]:
    """Let the session be in a time zone where days begin at other times than in UTC."""
    spark.conf.set("spark.sql.session.timeZone", "Asia/Kathmandu")
    yield
    spark.conf.set("spark.sql.session.timeZone", "UTC")


def values_of(catalog: Catalog) -> dict[str, tuple[str | None, ...]]:
    """Return the partition values that the catalog has, by the path of the file."""
    found: defaultdict[str, tuple[str | None, ...]] = defaultdict(tuple)
    rows = catalog.query(
        "SELECT path, partition_value FROM ducklake_data_file JOIN ducklake_file_partition_value USING (data_file_id)"
        " ORDER BY data_file_id, partition_key_index"
    )
    for path, value in rows:
        found[path] += (value,)
    return found


def partitions_of(lake: Lake, table: str, values: dict[str, tuple[str | None, ...]]) -> Partitions:
    """Return the ids of the rows in the files of each partition, by its values."""
    found: defaultdict[tuple[str | None, ...], list[int]] = defaultdict(list)
    for file in lake.table(table).files():
        path = file.path.partition(f"/{table}/")[2]
        found[values[path]] += pq.read_table(file.path, columns=["id"], partitioning=None).column(0).to_pylist()
    return {key: sorted(ids) for key, ids in found.items()}


def test_spark_writes_the_same_partitions_as_our_tasks(
    spark: SparkSession, catalog: Catalog, make_sink: MakeSink, oracle: Oracle
) -> None:
    rows = hard_rows(spark).persist()

    for name, keys in KEYS.items():
        sink = make_sink(stream=None, inline_rows=10, partition_by=keys)
        sink.append(rows, f"native_{name}")
        with patch("ducklake_sinks.large_batch.can_write_natively", return_value=False):
            sink.append(rows, f"tasks_{name}")

    rows.unpersist()
    oracle.attach(catalog.attach)
    values = values_of(catalog)
    with Lake.open(catalog.url) as lake:
        for name in KEYS:
            native, tasks = f"native_{name}", f"tasks_{name}"
            assert all("/part-" in file.path for file in lake.table(native).files()), name
            assert not any("/part-" in file.path for file in lake.table(tasks).files()), name
            assert partitions_of(lake, native, values) == partitions_of(lake, tasks, values), name
            assert len(partitions_of(lake, native, values)) > 2, name
            assert oracle.query(f"SELECT count(*) FROM (FROM {native} EXCEPT FROM {tasks})") == [(0,)]
            for column in ("s", "raw", "b", "n", "m", "tz", "ts", "d", "year(tz)", "day(tz)", "hour(ts)"):
                found = "SELECT count(*), sum(id) FROM {0} WHERE {1} = (SELECT max({1}) FROM {2})"
                by_native, by_tasks = (oracle.query(found.format(table, column, tasks)) for table in (native, tasks))
                assert by_native == by_tasks, (name, column)
    check_lake(catalog, orphans=0)


def test_readers_leave_out_partitions_that_spark_wrote(
    spark: SparkSession, catalog: Catalog, make_sink: MakeSink, oracle: Oracle
) -> None:
    sink = make_sink(stream=None, inline_rows=10, partition_by=["s", "day(tz)"])
    sink.append(hard_rows(spark), "t")

    values = values_of(catalog)
    with Lake.open(catalog.url) as lake:
        for file in lake.table("t").files():
            if values[file.path.partition("/t/")[2]][0] in ("", "A", "a/b=c%d", "null", "x"):
                Path(file.path).write_bytes(b"no file of Parquet")
        by_us = lake.table("t").read(["id"], "s = 'a'")
    oracle.attach(catalog.attach)

    assert by_us.num_rows == 80
    assert oracle.query("SELECT count(*), count(DISTINCT id) FROM t WHERE s = 'a'") == [(80, 80)]


def test_rows_of_many_partitions_are_left_to_tasks_from_the_second_batch_on(
    spark: SparkSession, catalog: Catalog, make_sink: MakeSink
) -> None:
    sink = make_sink(inline_rows=10, partition_by=["n"])
    one = spark.range(0, 100_000, 1, 2).selectExpr("id", "1 AS n")
    batches = [one, one.selectExpr("id", "CAST(id % 100 AS INT) AS n"), one, one]
    by_spark = []

    for batch_id, batch in enumerate(batches):
        sink(batch, batch_id)
        with Lake.open(catalog.url) as lake:
            newest = [file.path for file in lake.table("main.events").files() if file.begin_snapshot == batch_id + 1]
        by_spark.append(all("/part-" in path for path in newest))

    assert by_spark == [True, True, False, True]
    check_lake(catalog, orphans=0)
