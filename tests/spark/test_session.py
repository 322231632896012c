"""Spark itself: that this environment's Java, pyspark and pyarrow work together."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow


@pytest.fixture
def spark() -> Iterator[SparkSession]:
    session = (
        SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.memory", "512m")
        .getOrCreate()
    )
    yield session
    session.stop()


def test_spark_starts_and_returns_arrow(spark: SparkSession) -> None:
    table = spark.range(3).toArrow()

    assert table.column("id").to_pylist() == [0, 1, 2]
