"""What `DuckLakeSink` costs: `python -m benchmarks.sink small|large|partitioned|many|beside`.

`small`: micro-batches of 100 rows in one query, whose batches take turns: only collected, written by the sink, or
collected and inserted by DuckDB's extension. `large`: one batch of millions of rows, beside Spark's own
`write.parquet`. `partitioned`: the same into a table of days, beside `partitionBy`. `many`: whether the thousandth
batch costs what the first did, and how many files there are. `beside`: what flushing does to the slowest batches, in a
thread as the sink does it, and in the batch.
No time is asserted; README.md has some.
"""

from __future__ import annotations

import argparse
import json
import logging
import shutil
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from unittest.mock import patch

from pyspark.sql import DataFrame, SparkSession

from benchmarks.contenders import TABLE, Place, Places, extension_insert
from ducklake_core import Lake
from ducklake_sinks import DuckLakeSink, FlushPolicy
from ducklake_streaming.demo.readings import read_readings, read_stream
from ducklake_streaming.session import make_session
from tests.fixtures.postgres import run_postgres

WARM_UP = 60  # batches, until the JVM has compiled what it runs
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "4g",
    "spark.log.level": "ERROR",
}
TEN_COLUMNS = (
    "id",
    "CAST(id * 7 % 1000 AS INT) AS a",
    "rand(1) AS x",
    "rand(2) AS y",
    "concat('vehicle-', id % 500) AS s",
    "concat('note ', id) AS t",
    "id % 2 = 0 AS b",
    "timestamp_micros(id * 250000 + 1700000000000000) AS ts",
    "date_add(DATE '2026-01-01', CAST(id % 300 AS INT)) AS d",
    "CAST(id / 100 AS DECIMAL(12,2)) AS dec",
)
Milliseconds = Mapping[str, float]


class Listener(logging.Handler):
    """Keeps what the sink says of each batch."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.own_ms: list[float] = []
        self.total_ms: list[float] = []

    def emit(self, record: logging.LogRecord) -> None:
        total = getattr(record, "total_ms", None)
        if total is not None and getattr(record, "rows", None):
            self.total_ms.append(total)
            self.own_ms.append(total - getattr(record, "collect_ms", 0.0))


def measure_small(spark: SparkSession, places: Places, rows: int, rounds: int) -> Milliseconds:
    """Return medians of one micro-batch: collected, through the sink, its own part of that, and the extension's."""
    seconds: defaultdict[str, list[float]] = defaultdict(list)
    with ExitStack() as stack:
        insert = stack.enter_context(extension_insert(places.make()))
        sink, listener = stack.enter_context(_sink(places.make()))

        def take_turns(frame: DataFrame, batch_id: int) -> None:
            match batch_id % 3:
                case 0:
                    seconds["collect"].append(_timed(frame.toArrow))
                case 1:
                    seconds["sink"].append(_timed(lambda: sink(frame, batch_id)))
                    return
                case _:
                    seconds["extension"].append(insert(frame.toArrow()))
            with sink.transaction(batch_id, frame.sparkSession):
                pass  # the ledger wants every batch of the query, this one without rows

        checkpoint = stack.enter_context(tempfile.TemporaryDirectory())
        query = read_stream(spark, rows).writeStream.foreachBatch(take_turns).option("checkpointLocation", checkpoint)
        _run(query.start, lambda: min(map(len, (seconds["collect"], seconds["sink"], seconds["extension"]))), rounds)
    found = {name: 1000 * statistics.median(values[WARM_UP // 3 :]) for name, values in seconds.items()}
    return {**found, "sink's own part": statistics.median(listener.own_ms[WARM_UP // 3 :])}


def measure_large(spark: SparkSession, places: Places, rows: int, rounds: int) -> Mapping[str, float]:
    """Return the median rows per second of one large batch by each way."""
    frame = spark.range(0, rows, 1, 2).selectExpr(*TEN_COLUMNS)
    return _take_turns(places, frame, rows, rounds, frame.write.parquet)


def measure_partitioned(spark: SparkSession, places: Places, rows: int, rounds: int) -> Mapping[str, float]:
    """Return the same of a table that is partitioned by days."""
    frame = spark.range(0, rows, 1, 2).selectExpr(*TEN_COLUMNS)
    with_day = frame.selectExpr("*", "CAST(ts AS DATE) AS day")
    write = lambda path: with_day.write.partitionBy("day").parquet(path)  # noqa: E731 # used once
    return _take_turns(places, frame, rows, rounds, write, partition_by=["date(ts)"])


def _take_turns(
    places: Places, frame: DataFrame, rows: int, rounds: int, write: Callable[[str], None], **options: object
) -> Mapping[str, float]:
    seconds: defaultdict[str, list[float]] = defaultdict(list)
    by_python = patch("ducklake_sinks.large_batch.can_write_natively", return_value=False)
    options = {"inline_rows": 0, **options}
    with _sink(places.make(), **options) as (native, _), _sink(places.make(), **options) as (python, _):
        for number in range(rounds + 1):
            with tempfile.TemporaryDirectory() as directory:
                seconds["spark"].append(_timed(lambda: write(f"{directory}/out")))
            seconds["sink, by Spark's writer"].append(_timed(lambda: native(frame, number)))  # noqa: B023 # called at once
            with by_python:
                seconds["sink, by Arrow"].append(_timed(lambda: python(frame, number)))  # noqa: B023 # called at once
    return {name: rows / statistics.median(values[1:]) for name, values in seconds.items()}


def measure_many(spark: SparkSession, places: Places, batches: int, rows: int) -> Mapping[str, float]:
    """Return what the sink itself took for the first and for the last 100 batches, and the files around a flush."""
    place = places.make()
    with _sink(place) as (sink, listener):
        for number in range(WARM_UP + batches):
            sink(read_readings(spark, number * rows, rows), number)
    first, last = listener.own_ms[WARM_UP : WARM_UP + 100], listener.own_ms[-100:]
    with Lake.open(place.url) as lake:
        before = len(lake.table(TABLE).files())
        lake.flush_inlined(TABLE)
        after = len(lake.table(TABLE).files())
    return {
        "first 100, ms": statistics.median(first),
        "last 100, ms": statistics.median(last),
        "files before the flush": before,
        "files after": after,
    }


def measure_beside(spark: SparkSession, places: Places, batches: int, rows: int) -> dict[str, Milliseconds]:
    """Return the median and the 99th percentile of a batch: never flushed, flushed beside it, flushed in it."""
    policy = FlushPolicy(rows=20 * rows, bytes=None, age=None)
    ways: dict[str, FlushPolicy | None] = {"never": None, "beside": policy, "in the batch": None}
    total: defaultdict[str, list[float]] = defaultdict(list)
    for turn in range(2):
        for way, flush in ways.items():
            place = places.make()
            with _sink(place, flush=flush) as (sink, _), Lake.open(place.url) as lake:
                for number in range(WARM_UP * (1 - turn) + batches):
                    frame = read_readings(spark, number * rows, rows)
                    start = time.perf_counter()
                    sink(frame, number)
                    if way == "in the batch" and number % 20 == 19:
                        lake.flush_inlined(TABLE)
                    if number >= WARM_UP * (1 - turn):
                        total[way].append(1000 * (time.perf_counter() - start))
    return {way: {"median": statistics.median(ms), "p99": _percentile(ms, 0.99)} for way, ms in total.items()}


@contextmanager
def _sink(place: Place, **options: object) -> Iterator[tuple[DuckLakeSink, Listener]]:
    """Give a sink on a new lake, and what listens to it."""
    Lake.create(place.url, place.data_path).close()
    chosen = {"stream": place.url, "flush": None, **options}
    listener, logger = Listener(), logging.getLogger("ducklake_sinks")
    logger.setLevel(logging.INFO)
    logger.addHandler(listener)
    try:
        with closing(DuckLakeSink(place.url, TABLE, **chosen)) as sink:  # type: ignore[arg-type] # checked by the sink
            yield sink, listener
    finally:
        logger.removeHandler(listener)


def _run(start: Callable[[], object], done: Callable[[], int], rounds: int) -> None:
    query = start()
    wanted = rounds + WARM_UP // 3
    while done() < wanted and query.isActive:  # type: ignore[attr-defined] # a streaming query
        time.sleep(0.2)
    query.stop()  # type: ignore[attr-defined] # a streaming query
    if done() < wanted:
        raise RuntimeError(str(query.exception()))  # type: ignore[attr-defined] # a streaming query


def _timed(act: Callable[[], object]) -> float:
    start = time.perf_counter()
    act()
    return time.perf_counter() - start


def _percentile(values: Sequence[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def _print(found: Mapping[str, object], ratios: Mapping[str, float], *, as_json: bool) -> None:
    if as_json:
        print(json.dumps({**found, **ratios}, indent=2))
        return
    for name, value in found.items():
        print(f"{name}: {value:,.2f}" if isinstance(value, float) else f"{name}: {value}")
    for name, ratio in ratios.items():
        print(f"{name}: {ratio:.2f}")


def main(arguments: Sequence[str] | None = None) -> None:
    options = _parse(arguments)
    directory = Path(tempfile.mkdtemp())
    spark = make_session("benchmark", "local[2]", local_checkpoints=True, settings=SETTINGS)
    try:
        with ExitStack() as stack:
            server = stack.enter_context(run_postgres()) if options.catalog == "postgres" else None
            MEASURES[options.what](spark, Places(directory, server), options)
    finally:
        spark.stop()
        shutil.rmtree(directory)


def _small(spark: SparkSession, places: Places, options: argparse.Namespace) -> None:
    found = measure_small(spark, places, options.rows or 100, options.rounds or 100)
    own = found["sink's own part"]
    ratios = {
        "sink adds to collecting, share": found["sink"] / found["collect"] - 1,
        "sink's own part ÷ collecting": own / found["collect"],
        "extension ÷ sink's own part": found["extension"] / own,
    }
    _print(found, ratios, as_json=options.json)


def _large(spark: SparkSession, places: Places, options: argparse.Namespace) -> None:
    measure = measure_large if options.what == "large" else measure_partitioned
    found = measure(spark, places, options.rows or 5_000_000, options.rounds or 3)
    names = [name for name in found if name != "spark"]
    _print(found, {f"{name} ÷ spark": found[name] / found["spark"] for name in names}, as_json=options.json)


def _many(spark: SparkSession, places: Places, options: argparse.Namespace) -> None:
    found = measure_many(spark, places, options.rounds or 1000, options.rows or 10)
    _print(found, {"last ÷ first": found["last 100, ms"] / found["first 100, ms"]}, as_json=options.json)


def _beside(spark: SparkSession, places: Places, options: argparse.Namespace) -> None:
    found = measure_beside(spark, places, options.rounds or 300, options.rows or 100)
    ratios = {f"p99 {way} ÷ never": ms["p99"] / found["never"]["p99"] for way, ms in found.items() if way != "never"}
    _print(found, ratios, as_json=options.json)


MEASURES: Mapping[str, Callable[[SparkSession, Places, argparse.Namespace], None]] = {
    "small": _small,
    "large": _large,
    "partitioned": _large,
    "many": _many,
    "beside": _beside,
}


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench-sink", description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("what", choices=list(MEASURES))
    parser.add_argument("--catalog", choices=["postgres", "sqlite"], default="postgres")
    parser.add_argument("--rows", type=int, help="rows of a batch")
    parser.add_argument("--rounds", type=int, help="batches that count, by each way")
    parser.add_argument("--json", action="store_true", help="print JSON instead of lines")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
