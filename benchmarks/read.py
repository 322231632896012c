"""What `format("ducklake")` costs beside Spark's own scan of the same files: `python -m benchmarks.read --help`.

All contenders take turns in one Spark session, so what else the machine does hits all of them. Each reads all rows of
ten columns into Spark's `noop` sink, then sums five columns; then the same with a tenth of the rows deleted, of which
Spark's own scan knows nothing. No time is asserted; README.md has some.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from ducklake_core import Lake
from ducklake_sources import native_table
from ducklake_streaming.session import make_session

TABLE = "main.events"
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "4g",
    "spark.log.level": "ERROR",
}
SUMMED = ("id", "a", "x", "y", "dec")
Columns: TypeAlias = Sequence[str] | None
_ROWS_PER_APPEND = 1_000_000


def measure(spark: SparkSession, url: str, rounds: int) -> dict[str, dict[str, float]]:
    """Return the median seconds of each work by each contender, without the first round, when the JVM compiles."""
    seconds: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
    for _ in range(rounds + 1):
        for work, (columns, act) in WORKS.items():
            for name, read in CONTENDERS.items():
                started = time.perf_counter()
                act(read(spark, url, columns))
                seconds[work, name].append(time.perf_counter() - started)
    return {work: {name: statistics.median(seconds[work, name][1:]) for name in CONTENDERS} for work in WORKS}


def read_parquet(spark: SparkSession, url: str, columns: Columns) -> DataFrame:
    """Read the same files by Spark's own scan, which knows of no deletes."""
    with Lake.open(url) as lake:
        frame = spark.read.parquet(*(file.path for file in lake.table(TABLE).files()))
    return frame if columns is None else frame.select(*columns)


def read_ducklake(spark: SparkSession, url: str, columns: Columns) -> DataFrame:
    reader = spark.read.format("ducklake").option("catalog", url).option("table", TABLE)
    return (reader if columns is None else reader.option("columns", ",".join(columns))).load()


def read_natively(spark: SparkSession, url: str, columns: Columns) -> DataFrame:
    return native_table(spark, url, TABLE, columns=columns)


CONTENDERS = {"spark's parquet": read_parquet, "ducklake": read_ducklake, "native_table": read_natively}
WORKS: Mapping[str, tuple[Columns, Callable[[DataFrame], object]]] = {
    "all columns": (None, lambda frame: frame.write.format("noop").mode("overwrite").save()),
    "sums of five": (SUMMED, lambda frame: frame.selectExpr(*(f"sum({name})" for name in SUMMED)).collect()),
}


def make_lake(url: str, data_path: str, rows: int) -> None:
    """Make a table of ten columns of mixed types in files."""
    with Lake.create(url, data_path=data_path) as lake:
        lake.set_option("data_inlining_row_limit", 0)
        lake.create_table(TABLE, make_rows(0, 0).schema)
        for first in range(0, rows, _ROWS_PER_APPEND):
            lake.append(TABLE, make_rows(first, min(rows, first + _ROWS_PER_APPEND)))


def make_rows(first: int, end: int) -> pa.Table:
    numbers = np.arange(first, end)
    random = np.random.default_rng(first)
    return pa.table(
        {
            "id": numbers,
            "a": pa.array((numbers * 7 % 1000).astype(np.int32)),
            "x": random.random(len(numbers)),
            "y": random.random(len(numbers)),
            "s": pa.array([f"vehicle-{number % 500}" for number in numbers.tolist()], pa.string()),
            "t": pa.array([f"note {number}" for number in numbers.tolist()], pa.string()),
            "b": numbers % 2 == 0,
            "ts": pa.array(numbers * 250_000 + 1_700_000_000_000_000).cast(pa.timestamp("us", "UTC")),
            "d": pa.array((numbers % 300 + 20_454).astype(np.int32)).cast(pa.date32()),
            "dec": pa.array(numbers).cast(pa.decimal128(19, 0)).cast(pa.decimal128(12, 2)),
        }
    )


def main(arguments: Sequence[str] | None = None) -> None:
    options = _parser().parse_args(arguments)
    spark = make_session("benchmark", "local[2]", settings=SETTINGS)
    found: dict[str, dict[str, dict[str, float]]] = {}
    with tempfile.TemporaryDirectory() as directory:
        url = f"sqlite:///{directory}/lake.sqlite"
        make_lake(url, f"{directory}/data/", options.rows)
        found["all rows"] = measure(spark, url, options.rounds)
        with Lake.open(url) as lake:
            lake.delete(TABLE, "a < 100")  # a tenth, everywhere
        found["a tenth deleted"] = measure(spark, url, options.rounds)
    print(json.dumps(found, indent=2) if options.json else _table(found, options.rows))


def _table(found: Mapping[str, Mapping[str, Mapping[str, float]]], rows: int) -> str:
    lines = ["| rows | work | contender | s | M rows/s | of Spark's speed |", "|---|---|---|--:|--:|--:|"]
    for deleted, works in found.items():
        for work, contenders in works.items():
            base = contenders["spark's parquet"]
            lines += [
                f"| {deleted} | {work} | {name} | {seconds:.2f} | {rows / seconds / 1e6:.2f} | {base / seconds:.2f} |"
                for name, seconds in contenders.items()
            ]
    return "\n".join(lines)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="benchmarks.read", description=__doc__)
    parser.add_argument("--rows", type=int, default=5_000_000, help="of the table (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="that count (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="print seconds as JSON")
    return parser


if __name__ == "__main__":
    main()
