"""`df.write` and `df.writeStream` by `format("ducklake")`, called by Spark: one snapshot each, exactly once."""

from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, DataFrameWriter, SparkSession
from pyspark.sql import functions as F  # noqa: N812 # Spark's own convention

from ducklake_core import Lake
from tests.fixtures.catalogs import Catalog
from tests.fixtures.consistency import check_lake
from tests.fixtures.oracle import Oracle
from tests.fixtures.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
ONLY_SQLITE = pytest.mark.parametrize("make_catalog", ["sqlite"], indirect=True)
MANY = 40_000


def writer_of(frame: DataFrame, catalog: Catalog, mode: str = "append", **options: object) -> DataFrameWriter:
    given = {"catalog": catalog.url, "table": "t", "dataPath": catalog.data_path, **options}
    return frame.write.format("ducklake").options(**{name: str(value) for name, value in given.items()}).mode(mode)


def head(catalog: Catalog) -> int:
    with Lake.open(catalog.url) as lake:
        return lake.snapshots()[-1].snapshot_id


def rows(oracle: Oracle, catalog: Catalog, what: str = "count(*), count(DISTINCT id), min(id), max(id)") -> object:
    oracle.attach(catalog.attach)
    [found] = oracle.query(f"SELECT {what} FROM t")
    oracle.detach()
    return found


def test_frames_and_inserts_are_written(spark: SparkSession, catalog: Catalog, oracle: Oracle) -> None:
    ids = spark.range(0, MANY, 1, 2).select("id", F.current_timestamp().alias("at"), F.array(F.col("id")).alias("l"))

    writer_of(ids, catalog, partitionBy="bucket(2, id)").save()
    assert (head(catalog), rows(oracle, catalog)) == (1, (MANY, MANY, 0, MANY - 1))
    writer_of(ids.where("id < 10"), catalog, "overwrite", replaceWhere="id < 20").save()
    assert (head(catalog), rows(oracle, catalog)) == (2, (MANY - 10, MANY - 10, 0, MANY - 1))
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW seen USING ducklake OPTIONS (catalog '{catalog.url}', table 't')")
    spark.sql("INSERT INTO seen (at, id) VALUES (current_timestamp(), -5)")
    assert (head(catalog), rows(oracle, catalog)) == (3, (MANY - 9, MANY - 9, -5, MANY - 1))
    spark.sql("INSERT OVERWRITE seen SELECT id, current_timestamp(), array() FROM range(3)")
    assert (head(catalog), rows(oracle, catalog)) == (4, (3, 3, 0, 2))
    spark.catalog.dropTempView("seen")
    check_lake(catalog, orphans=0)


@ONLY_SQLITE
def test_a_job_that_fails_leaves_orphans_only(spark: SparkSession, catalog: Catalog, oracle: Oracle) -> None:
    writer_of(spark.range(5), catalog).save()
    fails = spark.range(0, MANY, 1, 4).select(
        F.when(F.col("id") < MANY - 1, F.col("id")).otherwise(F.raise_error("no"))
    )

    with pytest.raises(PySparkException):
        writer_of(fails.toDF("id").select(F.col("id").cast("bigint")), catalog, "overwrite").save()

    assert (head(catalog), rows(oracle, catalog)) == (1, (5, 5, 0, 4))
    with Lake.open(catalog.url) as lake:
        wait_until(lambda: not lake.delete_orphaned_files(cleanup_all=True, dry_run=False).paths)
    check_lake(catalog, orphans=0)


def run_stream(spark: SparkSession, catalog: Catalog, source: Path, checkpoint: Path) -> None:
    read = spark.readStream.schema("id bigint").option("maxFilesPerTrigger", 1).parquet(str(source))
    writer = read.writeStream.format("ducklake").option("checkpointLocation", str(checkpoint))
    options = {"catalog": catalog.url, "table": "t", "dataPath": catalog.data_path, "stream": "ids"}
    writer.options(**options).trigger(availableNow=True).start().awaitTermination()


@ONLY_SQLITE
def test_a_stream_is_written_exactly_once(
    spark: SparkSession, catalog: Catalog, oracle: Oracle, tmp_path: Path
) -> None:
    source, checkpoint = tmp_path / "source", tmp_path / "checkpoint"
    spark.range(0, 10, 1, 1).write.parquet(str(source))
    spark.range(10, MANY, 1, 1).write.mode("append").parquet(str(source))
    run_stream(spark, catalog, source, checkpoint)
    assert (head(catalog), rows(oracle, catalog)) == (2, (MANY, MANY, 0, MANY - 1))

    for name in ("1", ".1.crc"):  # as if Spark had died after the lake's commit
        (checkpoint / "commits" / name).unlink(missing_ok=True)
    run_stream(spark, catalog, source, checkpoint)

    assert (checkpoint / "commits" / "1").exists()
    assert (head(catalog), rows(oracle, catalog)) == (2, (MANY, MANY, 0, MANY - 1))
    with pytest.raises(PySparkException, match="the checkpoint was deleted or belongs to another query"):
        run_stream(spark, catalog, source, tmp_path / "another")
    assert head(catalog) == 2
    check_lake(catalog, orphans=0)
