"""A Spark program on S3, run as a process of its own: credentials are in its environment alone. It answers in JSON.

`python s3_driver.py CATALOG DATA_PATH CHECKPOINT [JAR …]`; with jars, Spark itself reaches the store.
"""

import json
import logging
import sys
from contextlib import closing

from pyspark.sql import SparkSession

from ducklake_core import Lake
from ducklake_sinks import DuckLakeSink
from ducklake_sources import native_table
from tests.fixtures.quick_spark import start_quickly
from tests.fixtures.spark import SETTINGS

LARGE = range(1_000, 21_000)
CHANGES = {"readChangeFeed": "true", "startingVersion": "earliest"}


def main(catalog: str, data_path: str, checkpoint: str, *jars: str) -> None:
    logging.basicConfig(level=logging.INFO)
    spark = make_session(jars)
    with closing(DuckLakeSink(catalog, "main.events", data_path=data_path, stream="s", flush=None)) as sink:
        sink(spark.range(3), 0)
        sink(spark.range(LARGE.start, LARGE.stop, 1, 2), 1)
        sink(spark.range(LARGE.start, LARGE.stop, 1, 2), 1)  # a replay
    upsert(spark, catalog)
    with Lake.open(catalog) as lake:
        lake.flush_inlined("main.events")
    options = {"catalog": catalog, "table": "main.events"}
    feed = spark.readStream.format("ducklake").options(**options).load()
    with closing(DuckLakeSink(catalog, "main.copy", stream="copy", flush=None)) as copy:
        query = feed.writeStream.foreachBatch(copy).option("checkpointLocation", checkpoint).trigger(availableNow=True)
        query.start().awaitTermination()
    found = {
        "read": spark.read.format("ducklake").options(**options).load().count(),
        "changes": spark.read.format("ducklake").options(**options, **CHANGES).load().count(),
        "copy": spark.read.format("ducklake").options(catalog=catalog, table="main.copy").load().distinct().count(),
        "native": native_table(spark, catalog, "main.events").count() if jars else None,
        "conf": sorted(map(str, spark.sparkContext.getConf().getAll())),
    }
    sys.stdout.write(json.dumps(found))
    spark.stop()


def upsert(spark: SparkSession, catalog: str) -> None:
    """Insert a hundred people, rename ten of them, let ten go, and bring ten more; the last batch comes twice."""
    sink = DuckLakeSink(
        catalog,
        "main.people",
        stream="people",
        flush=None,
        inline_rows=0,
        mode="upsert",
        keys=["id"],
        apply_as_deletes="name IS NULL",
    )
    with closing(sink):
        sink(spark.range(100).selectExpr("id", "'first' AS name"), 0)
        for _ in range(2):
            sink(spark.range(80, 110).selectExpr("id", "CASE WHEN id >= 90 THEN 'second' END AS name"), 1)


def make_session(jars: tuple[str, ...]) -> SparkSession:
    start_quickly()
    builder = SparkSession.builder.master("local[2]").config(map={**SETTINGS})
    if jars:
        builder = builder.config("spark.jars", ",".join(jars))
    return builder.getOrCreate()


if __name__ == "__main__":
    main(*sys.argv[1:])
