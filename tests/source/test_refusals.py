"""What `format("ducklake")` cannot do yet says what to do instead."""

from collections.abc import Iterator

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


@pytest.mark.usefixtures("view")
def test_default_mode_is_refused_by_spark_itself(spark: SparkSession, catalog: Catalog) -> None:
    writer = spark.range(1).write.format("ducklake").options(catalog=catalog.url, table="t")

    with pytest.raises(PySparkException) as caught:
        writer.save()

    assert caught.value.getCondition() == "UNSUPPORTED_DATA_SOURCE_SAVE_MODE"


@pytest.mark.usefixtures("view")
def test_tables_of_sparks_catalog_are_refused(spark: SparkSession, catalog: Catalog) -> None:
    with pytest.raises(PySparkException, match="CREATE TEMPORARY VIEW name USING ducklake"):
        spark.sql(f"CREATE TABLE made USING ducklake OPTIONS (catalog '{catalog.url}', table 't')")
