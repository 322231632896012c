"""How long a row takes from a commit to the reader's `foreachBatch`: `python -m benchmarks.latency`.

The change feed of a table, by `readStream` and by `stream_changes`, beside a Python source that does nothing: its only
event is that a file has grown. All run with a trigger as fast as Spark can, in turns, in one Spark; a round is one
event. What the source that does nothing takes is Spark's own. No time is asserted; README.md has some.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.readwriter import DataStreamWriter
from pyspark.sql.types import StructType

from benchmarks.contenders import Places
from ducklake_core import Lake
from ducklake_sinks import DuckLakeSink
from ducklake_sources import stream_changes
from ducklake_streaming.session import make_session
from tests.fixtures.postgres import run_postgres

WARM_UP = 10
FEED, STREAM, EMPTY = "readStream", "stream_changes", "empty Python source"
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.log.level": "ERROR",
}


class EmptySource(DataSource):
    """A source whose newest offset is the size of a file, and whose batches have one row."""

    @classmethod
    def name(cls) -> str:
        return "empty"

    def schema(self) -> str:
        return "id BIGINT"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002, N802 # Spark's
        return EmptyReader(self.options["file"])


class EmptyReader(DataSourceStreamReader):
    """Reads one row for each byte that the file has grown by."""

    def __init__(self, file: str) -> None:
        self.file = Path(file)

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 # Spark's name
        return {"size": 0}

    def latestOffset(self, start: object = None, limit: object = None) -> dict[str, int]:  # noqa: ARG002, N802 # Spark's
        return {"size": self.file.stat().st_size}

    def partitions(self, start: Mapping[str, int], end: Mapping[str, int]) -> Sequence[InputPartition]:
        return [InputPartition(range(start["size"], end["size"]))] if start != end else []

    def read(self, partition: InputPartition) -> Iterator[tuple[int]]:
        return ((number,) for number in partition.value)


class Arrivals:
    """When each number came to `foreachBatch`."""

    def __init__(self) -> None:
        self._seen: dict[int, float] = {}
        self._news = threading.Condition()

    def __call__(self, frame: DataFrame, _: int) -> None:
        ids = [row[0] for row in frame.select("id").collect()]
        now = time.perf_counter()
        with self._news:
            self._seen.update((i, now) for i in ids)
            self._news.notify_all()

    def wait(self, number: int, seconds: float = 60) -> float:
        with self._news:
            if not self._news.wait_for(lambda: number in self._seen, seconds):
                raise TimeoutError(f"row {number} has not come in {seconds} seconds")
            return self._seen[number]


@contextmanager
def running(writer_of: Callable[[Arrivals], DataStreamWriter]) -> Iterator[Arrivals]:
    arrivals = Arrivals()
    with tempfile.TemporaryDirectory() as checkpoint:
        writer = writer_of(arrivals).option("checkpointLocation", checkpoint)
        query = writer.trigger(processingTime="0 seconds").start()
        try:
            yield arrivals
        finally:
            query.stop()


def measure(spark: SparkSession, places: Places, rounds: int, turns: int) -> Mapping[str, float]:
    """Return the median milliseconds from an event to `foreachBatch`, of each way to read."""
    spark.dataSource.register(EmptySource)
    place = places.make()
    seconds: dict[str, list[float]] = {name: [] for name in (FEED, STREAM, EMPTY)}
    sink = DuckLakeSink(place.url, "main.events", data_path=place.data_path, stream="s", flush=None)
    with closing(sink):
        numbers = iter(range(10**9))
        sink(spark.range(0, 1, 1, 1), next(numbers))
        with tempfile.NamedTemporaryFile() as file:
            path = Path(file.name)

            def commit() -> tuple[int, float]:
                number = next(numbers)
                sink(spark.range(number, number + 1, 1, 1), number)
                return number, time.perf_counter()

            def grow() -> tuple[int, float]:
                number = path.stat().st_size
                with path.open("ab") as grown:
                    grown.write(b".")
                return number, time.perf_counter()

            for _ in range(turns):
                with Lake.open(place.url) as lake:
                    start = lake.snapshots()[-1].snapshot_id + 1
                options = {"catalog": place.url, "table": "main.events", "startingVersion": str(start)}
                feed = spark.readStream.format("ducklake").options(readChangeFeed="true", **options).load()
                seconds[FEED] += _round(feed.writeStream.foreachBatch, commit, rounds)
                seconds[STREAM] += _round(partial(_changes, spark, options), commit, rounds)
                empty = spark.readStream.format("empty").option("file", file.name).load()
                seconds[EMPTY] += _round(empty.writeStream.foreachBatch, grow, rounds)
    return {name: 1000 * statistics.median(values) for name, values in seconds.items()}


def _changes(spark: SparkSession, options: Mapping[str, str], arrivals: Arrivals) -> DataStreamWriter:
    return stream_changes(spark, function=arrivals, **options)


def _round(
    writer_of: Callable[[Arrivals], DataStreamWriter], happen: Callable[[], tuple[int, float]], rounds: int
) -> list[float]:
    found = []
    with running(writer_of) as arrivals:
        for _ in range(WARM_UP + rounds):
            number, begin = happen()
            found.append(arrivals.wait(number) - begin)
    return found[WARM_UP:]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args(arguments)
    spark = make_session("latency", "local[2]", local_checkpoints=True, settings=SETTINGS)
    with run_postgres() as server, tempfile.TemporaryDirectory() as directory:
        found = measure(spark, Places(Path(directory), server), chosen.rounds, chosen.turns)
    spark.stop()
    ratios = {name: found[name] / found[EMPTY] for name in (FEED, STREAM)}
    if chosen.json:
        print(json.dumps({"milliseconds": found, "ratios": ratios}))
        return
    for name, milliseconds in found.items():
        print(f"{name:30} {milliseconds:8.1f} ms")
    for name, ratio in ratios.items():
        print(f"{name + ' ÷ empty source':30} {ratio:8.2f}")


if __name__ == "__main__":
    main()
