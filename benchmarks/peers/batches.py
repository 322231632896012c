"""Micro-batches of one query that all arms write, in turns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TypeAlias

from pyspark.sql import DataFrame, SparkSession

from benchmarks.peers.tables import rotated, timed

Write: TypeAlias = Callable[[DataFrame, int], object]


def run_batches(
    spark: SparkSession, checkpoint: Path, rows: int, columns: Sequence[str], batches: int, arms: Mapping[str, Write]
) -> list[dict[str, float]]:
    """Let each arm write each batch, another one first each time; return their seconds, batch by batch.

    `columns` are made of `id`, which counts on from batch to batch.
    """
    found: list[dict[str, float]] = []

    def write(frame: DataFrame, batch_id: int) -> None:
        if batch_id < batches:  # else it is time to end
            seconds = {name: timed(partial(arms[name], frame, batch_id)) for name in rotated(list(arms), batch_id)}
            found.append({name: seconds[name] for name in arms})

    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", rows).option("numPartitions", 2)
    writer = source.load().selectExpr("value AS id").selectExpr(*columns).writeStream.foreachBatch(write)
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(processingTime="0 seconds").start()
    while len(found) < batches and not query.awaitTermination(1):
        pass  # it raises what a batch raised
    query.stop()
    return found


def by_arm(found: Sequence[Mapping[str, float]]) -> dict[str, list[float]]:
    """Return the seconds of each arm, batch by batch."""
    return {name: [one[name] for one in found] for name in found[0]}
