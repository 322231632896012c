"""The way out after SnapshotsExpired: silver is built anew as of a snapshot of bronze, and followed from the next."""

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from ducklake_core import Lake
from ducklake_sinks import DuckLakeSink
from tests.fixtures.catalogs import Catalog
from tests.fixtures.consistency import check_files
from tests.fixtures.oracle import Oracle

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def make_silver(bronze: DataFrame) -> DataFrame:
    return bronze.selectExpr("id", "2 * id AS twice")


def follow(spark: SparkSession, catalog: Catalog, sink: DuckLakeSink, checkpoint: Path, **start: object) -> None:
    """Read all that is new in bronze into silver."""
    bronze = spark.readStream.format("ducklake").options(catalog=catalog.url, table="main.bronze")
    rows = make_silver(bronze.options(**{name: str(value) for name, value in start.items()}).load())
    writer = rows.writeStream.foreachBatch(sink).option("checkpointLocation", str(checkpoint))
    writer.trigger(availableNow=True).start().awaitTermination()


def test_feed_whose_snapshots_expired_starts_anew_into_its_table_without_doubling_it(
    spark: SparkSession, catalog: Catalog, oracle: Oracle, tmp_path: Path
) -> None:
    with Lake.create(catalog.url, catalog.data_path) as lake:
        lake.create_table("main.bronze", {"id": "int64"})
        lake.append("main.bronze", pa.table({"id": [1, 2, 3]}))
        first = DuckLakeSink(catalog.url, "main.silver", stream="silver")
        follow(spark, catalog, first, tmp_path / "first", startingVersion="earliest")
        first.close()
        lost = [lake.append("main.bronze", pa.table({"id": [n]})) for n in (4, 5)]
        last = lake.append("main.bronze", pa.table({"id": [6]}))
        assert last is not None
        oracle.attach(catalog.attach)
        gone = [snapshot.snapshot_id for snapshot in lost if snapshot is not None]
        oracle.execute(f"CALL ducklake_expire_snapshots('lake', versions => {gone})")
        with pytest.raises(Exception, match="expired, so that rows are missing"):
            follow(spark, catalog, first, tmp_path / "first", startingVersion="earliest")

        version = lake.snapshots()[-1].snapshot_id
        bronze = spark.read.format("ducklake").options(catalog=catalog.url, table="main.bronze")
        sink = DuckLakeSink(catalog.url, "main.silver", stream="silver-2")
        sink.replace(make_silver(bronze.option("versionAsOf", version).load()))
        lake.append("main.bronze", pa.table({"id": [7]}))
        for _ in range(2):
            follow(spark, catalog, sink, tmp_path / "second", startingVersion=version + 1)
        sink.close()
        first.close()

        silver = lake.table("main.silver").read()
    rows = sorted(zip(silver.column("id").to_pylist(), silver.column("twice").to_pylist(), strict=True))
    assert rows == [(n, 2 * n) for n in range(1, 8)]
    check_files(catalog)  # snapshots have gaps, where some have expired
