"""One batch of two million rows of ten columns in `foreachBatch`, written by each arm in turn.

All arms write each batch of a query, into tables that exist. The first batch of a query is told apart: from it the sink
learns how large batches are. A query before those that count warms up the JVM.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks.peers.batches import Write, by_arm, run_batches
from benchmarks.peers.session import CATALOG
from benchmarks.peers.tables import Column, Result
from benchmarks.sink import TEN_COLUMNS
from ducklake_core import Lake
from ducklake_sinks import DuckLakeSink

ROWS, QUICK_ROWS = 2_000_000, 20_000
_BATCHES = 3  # of each query
_TABLE = "events"


def measure(spark: SparkSession, place: Path, rows: int, rounds: int) -> Result:
    """Return the seconds of first and of later batches, and the bytes that each arm wrote for a row."""
    first: list[dict[str, float]] = []
    later: list[dict[str, float]] = []
    sizes: dict[str, str] = {}
    for number in range(rounds + 1):
        folder = place / f"query{number}"
        with _arms(spark, folder) as arms:
            found = run_batches(spark, folder / "checkpoint", rows, TEN_COLUMNS, _BATCHES, arms)
        if number > 0:
            first += found[:1]
            later += found[1:]
        sizes = {name: f"{_bytes(folder / name) / rows / _BATCHES:.1f}" for name in arms}
    columns = [Column("first batch", by_arm(first)), Column("later batch", by_arm(later))]
    bases = ["write.parquet", "Delta", "Iceberg"]
    return Result(f"one batch of {rows:,} rows", columns, bases, {"bytes a row": sizes})


@contextmanager
def _arms(spark: SparkSession, folder: Path) -> Iterator[Mapping[str, Write]]:
    """Give what writes a batch into new tables, each in a folder of its name."""
    url = f"sqlite:///{folder}/lake.sqlite"
    empty = spark.range(0).selectExpr(*TEN_COLUMNS)
    empty.write.format("delta").save(f"{folder}/Delta")
    iceberg = f"{CATALOG}.{folder.parent.name}.{folder.name}.Iceberg"
    empty.writeTo(iceberg).using("iceberg").create()
    Lake.create(url, f"{folder}/DuckLakeSink/").close()
    with closing(DuckLakeSink(url, _TABLE, stream="benchmark", flush=None)) as sink:
        yield {
            "DuckLakeSink": sink,
            "write.parquet": lambda frame, _: frame.write.mode("append").parquet(f"{folder}/write.parquet"),
            "Delta": lambda frame, batch_id: (
                frame.write.format("delta")
                .mode("append")
                .option("txnAppId", "benchmark")
                .option("txnVersion", batch_id)
            ).save(f"{folder}/Delta"),
            "Iceberg": lambda frame, _: frame.writeTo(iceberg).append(),
        }


def _bytes(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*.parquet"))
