"""Runs the demonstration: Spark, a stream of small batches, then of large ones, and what is in the lake at the end."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from ducklake_core import Lake
from ducklake_core.clock import SYSTEM_CLOCK, Clock
from ducklake_core.errors import ObjectNotFound
from ducklake_sinks import DuckLakeSink, FlushPolicy
from ducklake_streaming.demo.display import Display, how_to_open, summary, where_to_watch
from ducklake_streaming.demo.readings import read_stream
from ducklake_streaming.demo.workspace import WORKSPACES, DemoError, Workspace
from ducklake_streaming.java import require_java
from ducklake_streaming.metrics.start import start_metrics
from ducklake_streaming.session import make_session

TABLE = "main.readings"
QUERY = "SELECT vehicle, count(*), max(speed_kmh) FROM lake.readings GROUP BY ALL ORDER BY ALL LIMIT 10;"
SMALL_ROWS = 10
SMALL_EVERY_MS = 100
INLINE_ROWS = 1_000
FLUSH_ROWS = 200
FLUSH_SECONDS = 5
LARGE_ROWS = 50_000
LARGE_BATCHES = 4
LARGE_SECONDS = 20.0  # then the batch that runs is the last: a slow machine need not do all
SMALL_TEXT = f"""
Vehicles send {SMALL_ROWS} readings every {SMALL_EVERY_MS} ms. Each batch is one snapshot, and its rows are inlined
in the catalog. When {FLUSH_ROWS} are there, or one is {FLUSH_SECONDS} seconds old, they are flushed to Parquet.
"""
LARGE_TEXT = f"""
Now the stream is stopped, and started again with {LARGE_ROWS:,} readings in a batch: it goes on where it ended.
Executors write the rows to Parquet, and the commit only registers the files. Spark starts their Python processes
first, which can take a quarter of a minute without a word.
"""
PAGE_SECONDS = 2.0  # from one question to the catalog to the next
PATIENCE_SECONDS = 120.0  # without any batch, something is wrong
SPARK_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.numRecentProgressUpdates": "1000",
}


@dataclass(frozen=True, slots=True)
class Demo:
    """Where the lake goes, what its catalog is, and for how long small batches come."""

    directory: Path
    catalog: str
    seconds: float


def run_demo(demo: Demo, show: Callable[[str], None]) -> None:
    """Make the lake anew, stream into it and show what happens. Raises DemoError, or InvalidInput without Java."""
    require_java()
    with WORKSPACES[demo.catalog](demo.directory) as workspace:
        what = "Spark and PostgreSQL" if workspace.start_again else "Spark"
        show(f"Starting {what}; the lake will be in {demo.directory}/.")
        with _spark(workspace) as spark:
            _Show(workspace, spark, show).run(demo.seconds)
    show("")
    for line in how_to_open(workspace, QUERY):
        show(line)


class _Show:
    """One run, with all that it needs."""

    def __init__(
        self, workspace: Workspace, spark: SparkSession, show: Callable[[str], None], clock: Clock = SYSTEM_CLOCK
    ) -> None:
        self._workspace = workspace
        self._spark = spark
        self._show = show
        self._clock = clock
        self._display = Display(show, clock)
        self._sink = DuckLakeSink(
            workspace.catalog,
            table=TABLE,
            data_path=f"{workspace.data}/",
            stream="demo",
            partition_by="date(measured_at)",
            inline_rows=INLINE_ROWS,
            flush=FlushPolicy(rows=FLUSH_ROWS, age=FLUSH_SECONDS),
            recorder=self._display,
        )
        self._trigger_ms: list[float] = []

    def run(self, seconds: float) -> None:
        """Show both parts and the end; Ctrl-C goes on to the end at once."""
        with start_metrics(self._sink, port=0, every=PAGE_SECONDS) as exporter:
            self._show(where_to_watch(exporter.url))
            try:
                self._stream_small(seconds)
                self._stream_large()
            except KeyboardInterrupt:
                self._show("  stopped by Ctrl-C")
            finally:
                self._sink.close()
        self._show_end()

    def _stream_small(self, seconds: float) -> None:
        self._show(SMALL_TEXT)
        with self._query(SMALL_ROWS, f"{SMALL_EVERY_MS} milliseconds") as query:
            self._wait_for(query, lambda: bool(self._display.batches))
            self._display.start_clock()
            self._display.show_header()
            for second in range(1, round(seconds) + 1):
                self._wait_until(query, second)
                self._display.show_line()
            self._trigger_ms += [one["durationMs"]["triggerExecution"] for one in query.recentProgress]

    def _stream_large(self) -> None:
        self._show(LARGE_TEXT)
        end = self._clock.seconds() + LARGE_SECONDS

        def is_enough() -> bool:
            done = sum(batch.rows == LARGE_ROWS for batch in self._display.batches)
            return done >= LARGE_BATCHES or (done > 0 and self._clock.seconds() > end)

        with self._query(LARGE_ROWS, "0 seconds") as query:
            self._wait_for(query, is_enough)
        self._display.show_line()

    @contextmanager
    def _query(self, rows_per_batch: int, every: str) -> Iterator[StreamingQuery]:
        stream = read_stream(self._spark, rows_per_batch).writeStream.foreachBatch(self._sink)
        writer = stream.option("checkpointLocation", self._workspace.checkpoint.as_uri())
        query = writer.trigger(processingTime=every).start()
        try:
            yield query
        finally:
            query.stop()

    def _wait_for(self, query: StreamingQuery, is_enough: Callable[[], bool]) -> None:
        deadline = self._clock.seconds() + PATIENCE_SECONDS
        while not is_enough():
            with self._display.changed:
                self._display.changed.wait(0.5)
            _refuse_dead(query)
            if self._clock.seconds() > deadline:
                raise DemoError(
                    f"no batch came for {PATIENCE_SECONDS:.0f} s; Spark's log is {self._workspace.spark_log}"
                )

    def _wait_until(self, query: StreamingQuery, second: int) -> None:
        while (rest := self._display.seconds_until(second)) > 0:
            self._clock.sleep(min(rest, 0.5))
            _refuse_dead(query)

    def _show_end(self) -> None:
        self._show("\nIn the lake now:\n")
        try:
            with Lake.open(self._workspace.catalog) as lake:
                for line in summary(self._display, lake, TABLE, self._trigger_ms, SMALL_EVERY_MS):
                    self._show(line)
        except ObjectNotFound:
            self._show("  nothing: no batch was committed")


def _refuse_dead(query: StreamingQuery) -> None:
    error = query.exception()
    if error is not None:
        raise DemoError(f"the stream has failed: {error}") from error


@contextmanager
def _spark(workspace: Workspace) -> Iterator[SparkSession]:
    """Give a Spark that writes whatever it has to say into a file."""
    try:
        with _output_to(workspace.spark_log):
            spark = make_session("ducklake-stream demo", "local[2]", local_checkpoints=True, settings=SPARK_SETTINGS)
    except PySparkException as error:
        raise DemoError(f"Spark did not start: {error}; what it said is in {str(workspace.spark_log)!r}") from error
    spark.sparkContext.setLogLevel("ERROR")
    try:
        yield spark
    finally:
        spark.stop()


@contextmanager
def _output_to(path: Path) -> Iterator[None]:
    """Send what processes print that are started meanwhile into a file, for as long as they run."""
    sys.stdout.flush()
    sys.stderr.flush()
    kept = [(number, os.dup(number)) for number in (1, 2)]
    try:
        with path.open("wb") as file:
            for number, _ in kept:
                os.dup2(file.fileno(), number)
        yield
    finally:
        for number, copy in kept:
            os.dup2(copy, number)
            os.close(copy)
