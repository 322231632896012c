"""What metrics add to a micro-batch of 100 rows: `python -m benchmarks.metrics`.

One query writes through one sink; blocks of its batches take turns, with metrics and without. With them, events are
counted, Spark's progress is listened to, catalog and JVM are polled, and somebody scrapes. A block tells its median of
whole batches, from one to the next, and the CPU time of driver and JVM for each batch. It is compared with the blocks
before and after it, for a JVM gets faster all the time. No time is asserted; README.md has some.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from pyspark.sql import DataFrame, SparkSession

from benchmarks.contenders import TABLE, Place, Places
from benchmarks.sink import SETTINGS, WARM_UP
from ducklake_core import Lake
from ducklake_core.observe import LOG_RECORDER, Event, Recorder, Recorders
from ducklake_sinks import DuckLakeSink
from ducklake_sinks.report import BatchReport
from ducklake_streaming.demo.readings import read_stream
from ducklake_streaming.metrics.exporter import JVM_SECONDS, Exporter
from ducklake_streaming.metrics.jvm import JvmPoll
from ducklake_streaming.metrics.lake_poll import LakePoll
from ducklake_streaming.metrics.server import Address
from ducklake_streaming.session import make_session
from tests.fixtures.postgres import run_postgres

NAME = "readings"
BLOCK = 40  # batches
SETTLE = 4  # of which the first do not count: what was registered for the block before may still work
POLL_SECONDS, SCRAPE_SECONDS = 30.0, 15.0


class Switched:
    """A recorder that hears while metrics are on."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self.is_on = False
        self.seconds, self.batches = 0.0, 0  # of CPU, in the batches' own thread

    def record(self, event: Event) -> None:
        if self.is_on:
            start = time.thread_time()
            self._recorder.record(event)
            self.seconds += time.thread_time() - start
            self.batches += isinstance(event, BatchReport)

    def gated(self, ask: Callable[[], object]) -> Callable[[], None]:
        """Return what asks while metrics are on."""
        return lambda: None if not self.is_on else (ask(), None)[1]


class Blocks:
    """Takes the time of batches, and switches metrics on and off after each block of them."""

    def __init__(self, switch: Callable[[bool], None], cpu_seconds: Callable[[], float]) -> None:
        self._switch = switch
        self._cpu_seconds = cpu_seconds
        self._cpu_start = 0.0
        self._last: float | None = None
        self._seconds: list[float] = []
        self._waiting = WARM_UP
        self.medians: list[float] = []  # of blocks, the first without metrics
        self.cpu: list[float] = []  # of the same: milliseconds of a batch

    def note(self) -> None:
        """Take notice that a batch begins."""
        now = time.perf_counter()
        if self._last is not None:
            self._seconds.append(now - self._last)
        self._last = now
        if self._waiting:
            self._waiting -= 1
            self._seconds.clear()
        elif len(self._seconds) == SETTLE:
            self._cpu_start = self._cpu_seconds()
        elif len(self._seconds) == BLOCK + SETTLE:
            self.cpu.append(1000 * (self._cpu_seconds() - self._cpu_start) / BLOCK)
            self.medians.append(1000 * statistics.median(self._seconds[SETTLE:]))
            self._seconds.clear()
            self._switch(len(self.medians) % 2 == 1)
            self._last = None


def measure(spark: SparkSession, place: Place, rows: int, pairs: int) -> Mapping[str, float]:
    """Return the medians of batches without metrics and with them, and what those add, by neighbours."""
    Lake.create(place.url, place.data_path).close()
    with ExitStack() as stack:
        exporter = stack.enter_context(Exporter(Address(port=0)).start())
        switched = Switched(exporter.pipeline_recorder(NAME))
        _ask(spark, place, exporter, switched, stack)
        recorder = Recorders(LOG_RECORDER, switched)
        sink = stack.enter_context(closing(DuckLakeSink(place.url, TABLE, stream=NAME, recorder=recorder)))

        def switch(is_on: bool) -> None:  # noqa: FBT001 # it is all that there is to say
            switched.is_on = is_on
            exporter.listen_to(spark) if is_on else exporter.stop_listening()

        blocks = Blocks(switch, cpu_of(spark))

        def write(frame: DataFrame, batch_id: int) -> None:
            blocks.note()
            sink(frame, batch_id)

        checkpoint = stack.enter_context(tempfile.TemporaryDirectory())
        writer = read_stream(spark, rows).writeStream.foreachBatch(write).queryName(NAME)
        query = writer.option("checkpointLocation", checkpoint).start()
        while len(blocks.medians) < 2 * pairs + 1 and not query.awaitTermination(1):
            pass  # it raises what the query fails of
        query.stop()
    return {
        **_compared("batch", blocks.medians[: 2 * pairs + 1]),
        **_compared("CPU of a batch", blocks.cpu[: 2 * pairs + 1]),
        "counting events of a batch, ms": 1000 * switched.seconds / max(1, switched.batches),
    }


def cpu_of(spark: SparkSession) -> Callable[[], float]:
    """Return what tells the CPU seconds of this process and of its JVM."""
    jvm: Any = spark.sparkContext._jvm  # Any: Java's classes # noqa: SLF001 # there is no public way
    ticks, files = os.sysconf("SC_CLK_TCK"), [f"/proc/{pid}/stat" for pid in (os.getpid(), _pid(jvm))]
    return lambda: sum(sum(map(int, Path(one).read_text().rpartition(")")[2].split()[11:13])) for one in files) / ticks


def _pid(jvm: Any) -> int:  # Any: Java's classes
    return int(jvm.java.lang.ProcessHandle.current().pid())


def _ask(spark: SparkSession, place: Place, exporter: Exporter, switched: Switched, stack: ExitStack) -> None:
    """Ask catalog and JVM as a job does, and scrape as Prometheus does, while metrics are on."""
    lake = LakePoll(lambda: Lake.open(place.url), exporter.numbers)
    exporter.poll("catalog", POLL_SECONDS, switched.gated(lake), lake.close)
    exporter.poll("jvm", JVM_SECONDS, switched.gated(JvmPoll(spark, exporter.numbers)))
    stop = threading.Event()
    scrape = switched.gated(lambda: urlopen(exporter.url + "metrics").read())  # noqa: S310 # our own

    def run() -> None:
        while not stop.wait(SCRAPE_SECONDS):
            scrape()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    stack.callback(thread.join)
    stack.callback(stop.set)


def _compared(what: str, medians: Sequence[float]) -> Mapping[str, float]:
    """Compare each block with metrics to those before and after it, which are without."""
    without, with_metrics = medians[::2], medians[1::2]
    shares = [2 * b / (a + c) - 1 for a, b, c in zip(without, with_metrics, without[1:], strict=False)]
    low, high = statistics.quantiles(shares, n=4)[::2] if len(shares) > 1 else (shares[0], shares[0])
    return {
        f"{what} without metrics, ms": statistics.median(without),
        f"{what} with metrics, ms": statistics.median(with_metrics),
        f"{what}: metrics add, share (median of blocks)": statistics.median(shares),
        f"{what}: lower quartile": low,
        f"{what}: upper quartile": high,
    }


def main(arguments: Sequence[str] | None = None) -> None:
    options = _parse(arguments)
    directory = Path(tempfile.mkdtemp())
    spark = make_session("benchmark", "local[2]", local_checkpoints=True, settings=SETTINGS)
    try:
        with ExitStack() as stack:
            server = stack.enter_context(run_postgres()) if options.catalog == "postgres" else None
            found = measure(spark, Places(directory, server).make(), options.rows, options.pairs)
    finally:
        spark.stop()
        shutil.rmtree(directory)
    print(json.dumps(found, indent=2) if options.json else "\n".join(f"{name}: {n:.4f}" for name, n in found.items()))


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench-metrics", description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--catalog", choices=["postgres", "sqlite"], default="postgres")
    parser.add_argument("--rows", type=int, default=100, help="rows of a batch")
    parser.add_argument("--pairs", type=int, default=12, help="blocks with metrics, each between two without")
    parser.add_argument("--json", action="store_true", help="print JSON instead of lines")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
