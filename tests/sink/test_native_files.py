"""Files of large batches that Spark's own writer makes: they are where the lake is, and every reader reads the same."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from ducklake_core import Lake
from ducklake_core.files.parquet_writer import FileLayout
from ducklake_sinks import native_files
from ducklake_sinks.native_columns import NativeColumns
from tests.fixtures.catalogs import Catalog
from tests.fixtures.consistency import check_lake
from tests.fixtures.oracle import Oracle
from tests.fixtures.sinks import MakeSink

pytestmark = [pytest.mark.slow, pytest.mark.parametrize("make_catalog", ["sqlite"], indirect=True)]
TIMESTAMPS = "spark.sql.parquet.outputTimestampType"
FIRST = 1_600_000_000_000_000


@pytest.fixture
def _times_as_before_spark_4_3(spark: SparkSession) -> Iterator[None]:
    before = spark.conf.get(TIMESTAMPS)
    spark.conf.set(TIMESTAMPS, "INT96")
    yield
    spark.conf.set(TIMESTAMPS, str(before))


@pytest.mark.parametrize("partition_by", [[], ["part"]], ids=["whole", "partitioned"])
def test_batch_is_found_wherever_the_data_path_is(
    spark: SparkSession, make_sink: MakeSink, catalog: Catalog, tmp_path: Path, partition_by: list[str]
) -> None:
    folder = tmp_path / "a b+é%41#{c}:[d]"
    sink = make_sink(table="t", data_path=f"{folder}/", inline_rows=0, partition_by=partition_by)

    sink(spark.range(0, 2000, 1, 2).selectExpr("id", "id % 3 AS part"), 0)

    with Lake.open(catalog.url) as lake:
        assert sorted(lake.table("t").read(["id"]).column("id").to_pylist()) == list(range(2000))
    assert not list(tmp_path.glob("a%20*"))


def test_files_of_an_attempt_that_spark_has_given_up_are_not_taken(
    spark: SparkSession, make_sink: MakeSink, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write_and_go_on(frame: DataFrame, layout: FileLayout, directory: str, columns: NativeColumns) -> None:
        write(frame, layout, directory, columns)
        late = Path(directory) / "_temporary/0/_temporary/attempt_1"  # of a copy of a slow task, which the other outran
        late.mkdir(parents=True)
        shutil.copy(next(Path(directory).glob("*.parquet")), late)
        (late / "part-9.parquet").write_bytes(b"not whole")

    write = native_files._write
    monkeypatch.setattr(native_files, "_write", write_and_go_on)

    make_sink(table="t", inline_rows=0)(spark.range(0, 2000, 1, 2), 0)

    with Lake.open(catalog.url) as lake:
        assert sorted(lake.table("t").read(["id"]).column("id").to_pylist()) == list(range(2000))
    check_lake(catalog, orphans=0)


@pytest.mark.usefixtures("_times_as_before_spark_4_3")
def test_times_are_the_same_in_every_zone_of_a_reader(
    spark: SparkSession, make_sink: MakeSink, catalog: Catalog, oracle: Oracle
) -> None:
    make_sink(table="t", inline_rows=0)(
        spark.range(0, 1000, 1, 1).selectExpr(f"timestamp_micros({FIRST} + id) AS ts"), 0
    )

    (file,) = Path(catalog.data_path).rglob("*.parquet")
    assert pq.ParquetFile(file).schema.column(0).physical_type == "INT64"
    oracle.attach(catalog.attach)
    for zone in ("UTC", "Asia/Kathmandu"):
        oracle.execute(f"SET TimeZone = '{zone}'")
        assert oracle.query("SELECT min(epoch_us(ts)), count(*) FROM t") == [(FIRST, 1000)]


def test_collated_text_and_names_with_marks_are_written(
    spark: SparkSession, make_sink: MakeSink, oracle: Oracle, catalog: Catalog
) -> None:
    rows = spark.range(0, 1000, 1, 2).selectExpr(
        "id", "if(id % 2 = 0, 'a', 'A') COLLATE UTF8_LCASE AS k", "id AS `a.b`", "id AS `c``d`"
    )
    make_sink(table="by_spark", inline_rows=0, partition_by=["k"])(rows, 0)
    make_sink(table="by_tasks", stream="tasks", inline_rows=0, partition_by=["bucket(2, id)"])(rows, 0)

    oracle.attach(catalog.attach)
    for table in ("by_spark", "by_tasks"):
        found = oracle.query(f'SELECT k, count(*), sum("a.b"), sum("c`d") FROM {table} GROUP BY k ORDER BY k')
        assert found == [("A", 500, 250_000, 250_000), ("a", 500, 249_500, 249_500)]
