"""What `format("ducklake")` cannot do yet says what to do instead."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from ducklake_core import Lake
from tests.fixtures.catalogs import Catalog

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.parametrize("make_catalog", ["sqlite"], indirect=True),
]


@pytest.fixture
def view(spark: SparkSession, catalog: Catalog) -> Iterator[str]:
    """Give the name of a view of a table."""
    with Lake.create(catalog.url, catalog.data_path) as lake:
        lake.create_table("t", {"id": "int64"})
    options = f"OPTIONS (catalog '{catalog.url}', table 't')"
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW refusals USING ducklake {options}")
    yield "refusals"
    spark.catalog.dropTempView("refusals")


@pytest.mark.parametrize("way", ["save", "insert"])
def test_batch_writes_say_what_to_do_instead(spark: SparkSession, catalog: Catalog, view: str, way: str) -> None:
    writer = spark.range(1).write.format("ducklake").options(catalog=catalog.url, table="t").mode("append")

    act = writer.save if way == "save" else lambda: spark.sql(f"INSERT INTO {view} VALUES (1)")

    with pytest.raises(PySparkException) as caught:
        act()

    assert 'format("ducklake") only reads: nothing was written.' in str(caught.value)
    assert "DuckLakeSink(catalog, table, data_path=…).append(df)" in str(caught.value)


@pytest.mark.usefixtures("view")
def test_default_mode_is_refused_by_spark_itself(spark: SparkSession, catalog: Catalog) -> None:
    writer = spark.range(1).write.format("ducklake").options(catalog=catalog.url, table="t")

    with pytest.raises(PySparkException) as caught:
        writer.save()

    assert caught.value.getCondition() == "UNSUPPORTED_DATA_SOURCE_SAVE_MODE"


@pytest.mark.usefixtures("view")
def test_stream_writes_say_what_to_do_instead(spark: SparkSession, catalog: Catalog, tmp_path: Path) -> None:
    stream = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load().writeStream
    writer = stream.format("ducklake").options(catalog=catalog.url, table="t").trigger(once=True)

    with pytest.raises(PySparkException, match=r"df\.writeStream\.foreachBatch\(DuckLakeSink\("):
        writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start().awaitTermination()


@pytest.mark.usefixtures("view")
def test_tables_of_sparks_catalog_are_refused(spark: SparkSession, catalog: Catalog) -> None:
    with pytest.raises(PySparkException, match="CREATE TEMPORARY VIEW name USING ducklake"):
        spark.sql(f"CREATE TABLE made USING ducklake OPTIONS (catalog '{catalog.url}', table 't')")
