"""How long changes take to read by Spark: by our own reader, and by Spark's scan: `python -m benchmarks.spark_feed`.

Twenty commits each update a hundredth of a table and delete a five-hundredth. All contenders take turns in one session
and read the changes of all commits into Spark's `noop` sink; streams begin with a new checkpoint each time, and end
when all was read. The first round, in which processes start and the JVM compiles, is shown by itself. No time is
asserted; README.md has some.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TypeAlias
from uuid import uuid4

from pyspark.sql import DataFrame, SparkSession

from benchmarks.read import SETTINGS, TABLE, make_lake
from ducklake_core import Lake
from ducklake_sources import native_changes, stream_changes
from ducklake_streaming.session import make_session

UPDATED, DELETED = 100, 500  # one of so many rows, by each commit


@dataclass(frozen=True, slots=True)
class Place:
    """Where the lake is, the first snapshot of the changes, and a folder for checkpoints."""

    url: str
    first: int
    folder: str


Contender: TypeAlias = Callable[[SparkSession, Place], object]


def measure(spark: SparkSession, place: Place, rounds: int) -> dict[str, dict[str, float]]:
    """Return the seconds of the first round, and the median of those that follow."""
    seconds: defaultdict[str, list[float]] = defaultdict(list)
    for _ in range(rounds + 1):
        for name, read in CONTENDERS.items():
            started = time.perf_counter()
            read(spark, place)
            seconds[name].append(time.perf_counter() - started)
    return {name: {"first": found[0], "median": median(found[1:])} for name, found in seconds.items()}


def changes_by_format(spark: SparkSession, place: Place) -> DataFrame:
    options = {"catalog": place.url, "table": TABLE, "readChangeFeed": "true", "startingVersion": str(place.first)}
    return spark.read.format("ducklake").options(**options).load()


def changes_natively(spark: SparkSession, place: Place) -> DataFrame:
    return native_changes(spark, place.url, TABLE, place.first)


def write_nowhere(frame: DataFrame, batch_id: int = 0) -> None:  # noqa: ARG001 # Spark's signature
    frame.write.format("noop").mode("overwrite").save()


def stream_by_format(spark: SparkSession, place: Place) -> None:
    options = {"catalog": place.url, "table": TABLE, "readChangeFeed": "true", "startingVersion": str(place.first)}
    changes = spark.readStream.format("ducklake").options(**options).load()
    writer = changes.writeStream.foreachBatch(write_nowhere)
    writer.option("checkpointLocation", f"{place.folder}/{uuid4()}").trigger(
        availableNow=True
    ).start().awaitTermination()


def stream_natively(spark: SparkSession, place: Place) -> None:
    writer = stream_changes(spark, place.url, TABLE, write_nowhere, startingVersion=place.first)
    writer.option("checkpointLocation", f"{place.folder}/{uuid4()}").trigger(
        availableNow=True
    ).start().awaitTermination()


CONTENDERS: Mapping[str, Contender] = {
    "native_changes": lambda spark, place: write_nowhere(changes_natively(spark, place)),
    "batch by the format": lambda spark, place: write_nowhere(changes_by_format(spark, place)),
    "stream_changes": stream_natively,
    "stream by the format": stream_by_format,
}


def make_changes(url: str, data_path: str, rows: int, commits: int) -> int:
    """Make a table and commits that change rows of it everywhere; return the first snapshot of these."""
    make_lake(url, data_path, rows)
    with Lake.open(url) as lake:
        first = lake.snapshots()[-1].snapshot_id + 1
        for number in range(commits):
            with lake.transaction() as tx:
                tx.update(TABLE, {"t": f"of {number}"}, one_of(UPDATED, number, rows))
                tx.delete(TABLE, one_of(DELETED, number + UPDATED, rows))
    return first


def one_of(many: int, number: int, rows: int) -> str:
    """Return a condition for one of so many rows, in ten blocks all over the table."""
    size, distance = rows // many // 10, rows // 10
    begins = [block * distance + number * (rows // 1500) for block in range(10)]
    return " OR ".join(f"(id >= {begin} AND id < {begin + size})" for begin in begins)


def main(arguments: Sequence[str] | None = None) -> None:
    options = _parser().parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/lake.sqlite"
        first = make_changes(url, f"{folder}/data/", options.rows, options.commits)
        with Lake.open(url) as lake:
            changes = lake.changes(TABLE, first).num_rows
        spark = make_session("benchmark", "local[2]", settings=SETTINGS, local_checkpoints=True)
        found = measure(spark, Place(url, first, folder), options.rounds)
    print(json.dumps(found, indent=2) if options.json else _table(found, changes))


def _table(found: Mapping[str, Mapping[str, float]], changes: int) -> str:
    lines = [f"{changes} changes", "", "| contender | first s | s | M changes/s |", "|---|--:|--:|--:|"]
    lines += [
        f"| {name} | {seconds['first']:.2f} | {seconds['median']:.2f} | {changes / seconds['median'] / 1e6:.2f} |"
        for name, seconds in found.items()
    ]
    return "\n".join(lines)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make bench-spark-feed", description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000, help="of the table (default: %(default)s)")
    parser.add_argument("--commits", type=int, default=20, help="that change it (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="that count (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="print seconds as JSON")
    return parser


if __name__ == "__main__":
    main()
