"""The changes of `feed` as a stream with `availableNow`, from a new checkpoint, into the same function."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from uuid import uuid4

from pyspark.sql import SparkSession

from benchmarks import spark_feed
from benchmarks.peers.feed import Arm, place_of


def _by_delta(spark: SparkSession, place: Path) -> None:
    options = {"readChangeFeed": "true", "startingVersion": "2"}
    changes = spark.readStream.format("delta").options(**options).load(f"{place}/delta")
    writer = changes.writeStream.foreachBatch(spark_feed.write_nowhere).trigger(availableNow=True)
    writer.option("checkpointLocation", f"{place_of(place).folder}/{uuid4()}").start().awaitTermination()


ARMS: Mapping[str, Arm] = {
    "stream_changes": lambda spark, place: spark_feed.stream_natively(spark, place_of(place)),
    "format": lambda spark, place: spark_feed.stream_by_format(spark, place_of(place)),
    "Delta": _by_delta,
}
