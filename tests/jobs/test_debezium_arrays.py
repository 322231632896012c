"""Arrays that an envelope of Debezium does not tell are known by what stands for them."""

from base64 import b64encode
from datetime import date, timedelta
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from ducklake_streaming.jobs.debezium_changes import KEPT, UNAVAILABLE, unwrap_sql

pytestmark = pytest.mark.slow

ROW = "days array<date>, parts array<binary>, texts array<string>, digits array<string>"
BYTES = UNAVAILABLE.encode()


def test_arrays_of_dates_and_of_bytes_that_are_not_told_are_kept(spark: SparkSession) -> None:
    """Dates have the numbers of an array of whole numbers; bytes come as they are, or as one of their texts."""
    types: Any = StructType.fromDDL(f"op string, before struct<{ROW}>, after struct<{ROW}>")
    days = [date(1970, 1, 1) + timedelta(byte) for byte in BYTES]
    untold = days, [BYTES], [b64encode(BYTES).decode()], [BYTES.hex()]
    told: tuple[Any, ...] = (days[1:], [BYTES, b""], [], None)
    changes = spark.createDataFrame([("u", None, untold), ("u", None, told)], types).coalesce(1)

    changes.createOrReplaceTempView("input")
    found = [row[KEPT] for row in spark.sql(unwrap_sql(types, ())).collect()]
    spark.catalog.dropTempView("input")

    assert found == [["days", "parts", "texts", "digits"], []]
