"""Spark itself: that this environment's Java, pyspark and pyarrow work together."""

import pytest
from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow


def test_spark_starts_and_returns_arrow(spark: SparkSession) -> None:
    table = spark.range(3).toArrow()

    assert table.column("id").to_pylist() == [0, 1, 2]
