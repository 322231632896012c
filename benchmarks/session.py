"""What each setting of a Spark session saves per micro-batch: `python -m benchmarks.session --help`.

Two Sparks run side by side, one with a setting and one without, and take turns: what else the machine does hits both.
Each turn is one query of small batches; the first ones of a turn warm up and do not count. Ratios are medians of the
ratios of the turns. Time on the clock depends on what else the machine does; processor time, of Spark, Python and the
programs they start, hardly does.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from itertools import count
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from ducklake_streaming.session import LOCAL_CHECKPOINTS, TIMESTAMPS, UNIX_SOCKETS, make_session

ROWS = 100
WARM_BATCHES = 5
QUIET = {"spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1", "spark.driver.memory": "1g"}
# What Spark does without our settings.
SPARKS_OWN = {
    "spark.python.unix.domain.socket.enabled": "false",
    "spark.sql.parquet.outputTimestampType": "INT96",
}

CHANGES: Mapping[str, Mapping[str, str]] = {
    "none": {},  # how far two equal Sparks differ: what is below that is noise
    "unix_sockets": UNIX_SOCKETS,
    "local_checkpoints": LOCAL_CHECKPOINTS,
    "timestamps": TIMESTAMPS,
    "no_checksums": {"spark.sql.streaming.checkpoint.fileChecksum.enabled": "false"},
    "small_arrow_batches": {"spark.sql.execution.arrow.maxRecordsPerBatch": "1000"},
    "no_progress_on_console": {"spark.ui.showConsoleProgress": "false"},
    "all": {**UNIX_SOCKETS, **TIMESTAMPS, **LOCAL_CHECKPOINTS},
}


def collect(frame: DataFrame, _: int) -> None:
    """Do what the sink does with a small batch."""
    frame.toArrow()


def through_python(frame: DataFrame, _: int) -> None:
    """Do what the sink does with a large batch: every row goes through a Python task."""
    frame.mapInArrow(_unchanged, frame.schema).toArrow()


def _unchanged(record_batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from record_batches


WORKS = {"collect": collect, "python": through_python}


def main() -> None:
    options = _parser().parse_args()
    if options.worker is not None:
        work(json.loads(options.worker), options.batches)
        return
    print(f"{'setting':24} {'work':8} {'of':9} {'without':>9} {'with':>9} {'ratio':>7}   in {options.turns} turns")
    for name in options.settings or CHANGES:
        compare(name, options.turns, options.batches)


def compare(name: str, turns: int, batches: int) -> None:
    """Run both Sparks in turns and print one line per kind of work."""
    with _Spark({}, batches) as without, _Spark(CHANGES[name], batches) as with_it:
        for kind in WORKS:
            pairs = []
            for turn in range(turns):
                order = (without, with_it) if turn % 2 == 0 else (with_it, without)
                times = {spark: spark.turn(kind) for spark in order}
                pairs.append((times[without], times[with_it]))
            for index, measure_name in enumerate(("clock", "processor")):
                line = compared([(a[index], b[index]) for a, b in pairs])
                print(f"{name:24} {kind:8} {measure_name:9} {line}", flush=True)


def compared(pairs: list[tuple[float, float]]) -> str:
    """Return the medians of both, and the median and range of their ratios."""
    ratios = sorted(b / a for a, b in pairs)
    medians = " ".join(f"{statistics.median(column):6.1f} ms" for column in zip(*pairs, strict=True))
    return f"{medians} {statistics.median(ratios):7.2f}   {ratios[0]:.2f} to {ratios[-1]:.2f}"


class _Spark:
    """A process of its own with one Spark, which runs a query when asked."""

    def __init__(self, settings: Mapping[str, str], batches: int) -> None:
        command = [sys.executable, "-m", "benchmarks.session", "--worker", json.dumps(dict(settings))]
        self._process = subprocess.Popen(
            [*command, "--batches", str(batches)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.turn("collect")  # the first query of a JVM is slow

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    def turn(self, kind: str) -> tuple[float, float]:
        """Return the milliseconds of a batch: the median by the clock, the mean of processor time."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{kind}\n")
        self._process.stdin.flush()
        while not (line := self._process.stdout.readline()).startswith("median "):
            assert line, "the worker has ended"
        _, clock, processor = line.split()
        return float(clock), float(processor)


def work(settings: Mapping[str, str], batches: int) -> None:
    """Answer each line of the input with the time of a batch, until it ends."""
    own = SPARKS_OWN | dict(settings)
    spark = make_session("benchmark", "local[2]", settings=QUIET | own)
    numbers = count()
    with tempfile.TemporaryDirectory() as directory:
        for kind in sys.stdin:
            checkpoint = Path(directory) / str(next(numbers))
            print("median", *measure(spark, kind.strip(), checkpoint, batches), flush=True)
        spark.stop()


def measure(spark: SparkSession, kind: str, checkpoint: Path, batches: int) -> tuple[float, float]:
    """Run one query for some batches and return the milliseconds of a batch, from trigger to checkpoint."""
    stream = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", ROWS).load()
    writer = stream.writeStream.foreachBatch(WORKS[kind]).option("checkpointLocation", str(checkpoint))
    query = writer.trigger(processingTime="0 seconds").start()
    try:
        warm = len(_wait_for(query, WARM_BATCHES))
        before = processor_ms()
        progress = _wait_for(query, warm + batches)
        processor = (processor_ms() - before) / (len(progress) - warm)
    finally:
        query.stop()
    times: list[float] = [one["durationMs"]["triggerExecution"] for one in progress[warm:]]
    return statistics.median(times), processor


def processor_ms() -> float:
    """Return the processor time of this process and all below it, those that have ended included; Linux only."""
    fields = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            number, rest = int(path.parent.name), path.read_text().rpartition(") ")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue  # ended meanwhile
        fields[number] = (
            int(rest[1]),
            sum(map(int, rest[11:15])),
        )  # https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html
    family = {os.getpid()}
    while grown := {number for number, (parent, _) in fields.items() if parent in family} - family:
        family |= grown
    return sum(fields[number][1] for number in family) * 1000 / os.sysconf("SC_CLK_TCK")


def _wait_for(query: StreamingQuery, batches: int) -> list[Any]:  # Any: Spark's own type, or a dict over Connect
    while len(progress := list(query.recentProgress)) < batches:
        assert query.exception() is None
        time.sleep(0.1)
    return progress


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="benchmarks.session", description=__doc__)
    parser.add_argument("settings", nargs="*", choices=[*CHANGES, []], help="default: all, one after another")
    parser.add_argument("--turns", type=int, default=6, help="of each Spark (default: %(default)s)")
    parser.add_argument("--batches", type=int, default=30, help="that count, per turn (default: %(default)s)")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    return parser


if __name__ == "__main__":
    main()
