"""The stream of the demonstration: readings of simulated vehicles, 23 columns of mixed types.

Made by Spark's own `rate-micro-batch` source and SQL, so no Python runs per row; the number of a reading fixes all its
values, so a batch that is read again is the same.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

START = "2026-01-01 06:00:00"
READINGS_PER_TASK = 25_000

COLUMNS = {
    "reading": "reading",
    "vehicle": "format_string('vehicle-%03d', pmod(xxhash64(reading, 'vehicle'), 500))",
    "measured_at": f"timestampadd(SECOND, reading, TIMESTAMP '{START}Z')",
    "received_at": f"timestampadd(MILLISECOND, 1000 * reading + 41, TIMESTAMP '{START}Z')",
    "trip": "reading DIV 100",
    "odometer_m": "1000000 + reading * 7",
    "gear": "CAST(pmod(xxhash64(reading, 'gear'), 6) AS INT)",
    "rpm": "CAST(900 + pmod(xxhash64(reading, 'rpm'), 6100) AS INT)",
    "passengers": "IF(pmod(reading, 10) = 9, NULL, CAST(pmod(xxhash64(reading, 'seats'), 5) AS INT))",
    "speed_kmh": "CAST(pmod(xxhash64(reading, 'speed'), 1400) AS DOUBLE) / 10",
    "battery_percent": "CAST(50 + pmod(xxhash64(reading, 'battery'), 951) AS DOUBLE) / 10",
    "motor_celsius": "CAST(700 + pmod(xxhash64(reading, 'motor'), 200) AS DOUBLE) / 10",
    "cabin_celsius": "IF(pmod(reading, 10) = 3, NULL, CAST(190 + pmod(xxhash64(reading, 'cabin'), 50) AS DOUBLE) / 10)",
    "tyre_bar": "CAST(200 + pmod(xxhash64(reading, 'tyre'), 60) AS FLOAT) / CAST(100 AS FLOAT)",
    "charging": "pmod(xxhash64(reading, 'charging'), 10) = 0",
    "locked": "pmod(xxhash64(reading, 'locked'), 2) = 0",
    "driver": "concat('Ωmega ', pmod(xxhash64(reading, 'driver'), 90))",
    "firmware": "concat('4.', pmod(xxhash64(reading, 'firmware'), 12), '.1')",
    "note": "IF(pmod(reading, 10) = 0, 'nothing to report', NULL)",
    "service_day": "date_add(DATE '2026-03-01', CAST(pmod(xxhash64(reading, 'service'), 200) AS INT))",
    "fare": "CAST(pmod(xxhash64(reading, 'fare'), 9999) AS DECIMAL(9,2)) / CAST(100 AS DECIMAL(3,0))",
    "position": """named_struct('lat', 52.4D + pmod(xxhash64(reading, 'lat'), 20000) / 100000D,
                                'lon', 13.2D + pmod(xxhash64(reading, 'lon'), 40000) / 100000D)""",
    "warnings": "slice(array('door', 'belt'), 1, CAST(pmod(xxhash64(reading, 'warnings'), 3) AS INT))",
}
CASTS = {"fare": "DECIMAL(9,2)", "tyre_bar": "FLOAT"}


def read_stream(spark: SparkSession, rows_per_batch: int) -> DataFrame:
    """Return a stream whose readings are numbered 0, 1, 2, …, so many in each batch."""
    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", rows_per_batch)
    tasks = min(spark.sparkContext.defaultParallelism, max(1, rows_per_batch // READINGS_PER_TASK))
    numbers = source.option("numPartitions", tasks).load().withColumnRenamed("value", "reading")
    return numbers.selectExpr(*(_typed(name, expression) for name, expression in COLUMNS.items()))


def _typed(name: str, expression: str) -> str:
    return f"CAST({expression} AS {CASTS[name]}) AS {name}" if name in CASTS else f"{expression} AS {name}"
