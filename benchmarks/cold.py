"""What the first read of a Spark session costs, and a command that only shows its help: `python -m benchmarks.cold`.

Each first read has a Spark of its own, whose JVM has run one small query, but no Python process. Contenders take turns:
Spark's own scan, a Python source that does nothing (what Spark takes for its processes, whoever reads), and ours. The
home is Spark's own, whose Python processes import PySpark from a zip, or the one of `make_session`, whose do not. No
time is asserted; README.md has some.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median

import pyarrow as pa
import pyspark
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from benchmarks.read import SETTINGS, TABLE, make_lake
from ducklake_core import Lake
from ducklake_streaming.session import make_session

_SETTINGS = {**SETTINGS, "spark.driver.memory": "1g"}
_FLOOR = "a source that does nothing"
_PROGRAMS = {
    "python -c pass": ["-c", "pass"],
    "python -c 'import pyspark'": ["-c", "import pyspark"],
    "ducklake-stream --help": ["-c", "from ducklake_streaming.cli import main; main()", "--help"],
}


class _OneRow(DataSourceReader):
    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(0)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:  # noqa: ARG002 # Spark's signature
        yield pa.RecordBatch.from_arrays([pa.nulls(1, pa.int64())], ["id"])


class _Nothing(DataSource):
    @classmethod
    def name(cls) -> str:
        return "nothing"

    def schema(self) -> str:
        return "id long"

    def reader(self, schema: object) -> DataSourceReader:  # noqa: ARG002 # Spark's signature
        return _OneRow()


def read_nothing(spark: SparkSession, url: str) -> None:  # noqa: ARG001 # a contender's signature
    spark.dataSource.register(_Nothing)
    _write_nowhere(spark.read.format("nothing").load())


def read_parquet(spark: SparkSession, url: str) -> None:
    with Lake.open(url) as lake:
        _write_nowhere(spark.read.parquet(*(file.path for file in lake.table(TABLE).files())))


def read_table(spark: SparkSession, url: str) -> None:
    _write_nowhere(spark.read.format("ducklake").options(catalog=url, table=TABLE).load())


def read_changes(spark: SparkSession, url: str) -> None:
    reader = spark.read.format("ducklake").options(catalog=url, table=TABLE, readChangeFeed="true")
    _write_nowhere(reader.option("startingVersion", "earliest").load())


def stream_changes(spark: SparkSession, url: str) -> None:
    reader = spark.readStream.format("ducklake").options(catalog=url, table=TABLE, readChangeFeed="true")
    writer = reader.option("startingVersion", "earliest").load().writeStream.foreachBatch(_write_nowhere)
    with tempfile.TemporaryDirectory() as folder:
        writer.option("checkpointLocation", folder).trigger(availableNow=True).start().awaitTermination()


def _write_nowhere(frame: DataFrame, batch_id: int = 0) -> None:  # noqa: ARG001 # Spark's signature
    frame.write.format("noop").mode("overwrite").save()


READS: Mapping[str, Callable[[SparkSession, str], None]] = {
    "Spark's own scan": read_parquet,
    _FLOOR: read_nothing,
    "a table by the format": read_table,
    "changes by the format": read_changes,
    "a stream by the format": stream_changes,
}


def measure(url: str, names: Sequence[str], homes: Sequence[str], rounds: int) -> dict[str, dict[str, list[float]]]:
    """Return the seconds of each first read, by the home that Spark has."""
    seconds: dict[str, dict[str, list[float]]] = {home: defaultdict(list) for home in homes}
    for _ in range(rounds):
        for name in names:
            for home in homes:
                seconds[home][name].append(_in_new_session(url, name, home))
    return seconds


def _in_new_session(url: str, name: str, home: str) -> float:
    environment = {key: value for key, value in os.environ.items() if key != "SPARK_HOME"}
    if home == "zip":
        environment["SPARK_HOME"] = str(Path(pyspark.__file__).parent)
    command = [sys.executable, "-m", "benchmarks.cold", "--lake", url, "--one", name]
    ended = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    return float(ended.stdout.split()[-1])


def measure_once(url: str, name: str) -> float:
    """Return the seconds of the first read of a session."""
    spark = make_session("benchmark", "local[2]", settings=_SETTINGS, local_checkpoints=True)
    spark.range(10).write.format("noop").mode("overwrite").save()
    started = time.perf_counter()
    READS[name](spark, url)
    return time.perf_counter() - started


def measure_programs(rounds: int) -> dict[str, float]:
    """Return the median seconds of programs that end at once."""
    seconds: defaultdict[str, list[float]] = defaultdict(list)
    for _ in range(rounds):
        for name, arguments in _PROGRAMS.items():
            started = time.perf_counter()
            subprocess.run([sys.executable, *arguments], check=True, capture_output=True)
            seconds[name].append(time.perf_counter() - started)
    return {name: median(found) for name, found in seconds.items()}


def main(arguments: Sequence[str] | None = None) -> None:
    options = _parser().parse_args(arguments)
    if options.one is not None:
        print(measure_once(options.lake, options.one))
        return
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/lake.sqlite"
        make_lake(url, f"{folder}/data/", options.rows)
        found = measure(url, options.reads or list(READS), options.homes.split(","), options.rounds)
    programs = measure_programs(2 * options.rounds + 1)
    print(json.dumps({**found, "programs": programs}, indent=2) if options.json else show(found, programs))


def show(found: Mapping[str, Mapping[str, Sequence[float]]], programs: Mapping[str, float]) -> str:
    lines = ["| first read | home | s | of the floor |", "|---|---|--:|--:|"]
    for home, reads in found.items():
        floor = median(reads[_FLOOR]) if _FLOOR in reads else None
        for name, seconds in reads.items():
            ratio = "" if floor is None else f"{median(seconds) / floor:.2f}"
            lines.append(f"| {name} | {home} | {median(seconds):.2f} | {ratio} |")
    lines += ["", "| program | s |", "|---|--:|", *(f"| {name} | {one:.3f} |" for name, one in programs.items())]
    return "\n".join(lines)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make bench-cold", description=__doc__)
    parser.add_argument("reads", nargs="*", choices=[*READS, []], help="default: all")
    parser.add_argument("--homes", default="zip,unzipped", help="of Spark (default: %(default)s)")
    parser.add_argument("--rows", type=int, default=20_000, help="of the table (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="(default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="print seconds as JSON")
    parser.add_argument("--lake", help=argparse.SUPPRESS)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    return parser


if __name__ == "__main__":
    main()
