"""Batches of 1,000 updates of a table of 5 million rows in 20 files, applied by key in `foreachBatch`.

Keys are recent ones that follow each other, or some of every file. Each arm has a table of its own and applies the same
batches. Delta's tables have deletion vectors; one of them has its change data feed, too, which a lake always has.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

from benchmarks.peers.batches import Write, by_arm, run_batches
from benchmarks.peers.session import copy_to_delta
from benchmarks.peers.tables import Column, Result
from ducklake_core import Lake
from ducklake_sinks import DuckLakeSink

ROWS, QUICK_ROWS = 5_000_000, 50_000
BATCH = 1_000
KINDS = "clustered", "spread"
_FILES = 20
_WARM_UP = 3  # batches
_DELTAS = {"Delta": "delta", "Delta with its feed": "delta_feed"}


def make(spark: SparkSession, place: Path, rows: int) -> None:
    """Make the same files by all formats."""
    url = _url(place / "lake.sqlite")
    size = rows // _FILES
    with Lake.create(url, f"{place}/data/") as lake:
        lake.create_table("t", {"id": "int64", "name": "varchar", "c0": "float64", "c1": "float64"})
        for first in range(0, rows, size):
            with lake.transaction() as tx:
                tx.append("t", _first_rows(spark, first, first + size), inline_rows=0)
        files = [file.path for file in lake.table("t").files()]
    for name in _DELTAS.values():
        feed = str(name == "delta_feed").lower()
        copy_to_delta(spark, files, place / name, {"enableDeletionVectors": "true", "enableChangeDataFeed": feed})


def measure(spark: SparkSession, place: Path, rows: int, rounds: int) -> Result:
    """Return the seconds of a batch of each kind of keys, without the first ones, in which the JVM compiles."""
    work = place / f"work-{uuid4()}"
    columns = []
    try:
        _copy(place, work)
        for kind in KINDS:
            with _arms(work, kind) as arms:
                checkpoint = work / f"checkpoint-{kind}"
                found = run_batches(spark, checkpoint, BATCH, changes(kind, rows), _WARM_UP + rounds, arms)
            columns.append(Column(kind, by_arm(found[_WARM_UP:])))
        _check(spark, work)
    finally:
        shutil.rmtree(work)
    return Result(f"{BATCH:,} updates of {rows:,} rows in {_FILES} files", columns, ["Delta"])


def changes(kind: str, rows: int) -> list[str]:
    """Return what makes changes of a number that counts on: each batch has other keys."""
    key = f"{rows} - 1 - id" if kind == "clustered" else f"id % {BATCH} * {rows // BATCH} + id div {BATCH}"
    return [f"{key} AS id", f"concat('{kind} ', id) AS name", "id * 0.5D AS c0", "id * 1.5D AS c1"]


@contextmanager
def _arms(work: Path, kind: str) -> Iterator[Mapping[str, Write]]:
    with ExitStack() as stack:
        sink = stack.enter_context(
            closing(DuckLakeSink(_url(work / "sink.sqlite"), "t", stream=kind, mode="upsert", keys=["id"], flush=None))
        )
        lake = stack.enter_context(Lake.open(_url(work / "lake.sqlite")))
        arms: dict[str, Write] = {
            "DuckLakeSink": sink,
            "lake.upsert": lambda frame, _: lake.upsert("t", frame.toArrow(), keys="id"),
        }
        yield arms | {name: _merge_into(work / folder) for name, folder in _DELTAS.items()}


def _merge_into(path: Path) -> Write:
    merge = f"MERGE INTO delta.`{path}` t USING updates s ON t.id = s.id"
    merge += " WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"

    def write(frame: DataFrame, _: int) -> None:
        frame.createOrReplaceTempView("updates")
        frame.sparkSession.sql(merge)

    return write


def _copy(place: Path, work: Path) -> None:
    """Let the tables as they were made be; data files are the same ones, as nobody changes them."""
    work.mkdir()
    for name in ("sink.sqlite", "lake.sqlite"):
        shutil.copy(place / "lake.sqlite", work / name)
    for name in _DELTAS.values():
        shutil.copytree(place / name, work / name, copy_function=os.link)


def _check(spark: SparkSession, work: Path) -> None:
    """See that all arms made the same table."""
    found = {}
    for name in ("sink", "lake"):
        with Lake.open(_url(work / f"{name}.sqlite")) as lake:
            rows = lake.table("t").read(["id", "name", "c0"])
        found[name] = rows.num_rows, pc.sum(rows["id"]).as_py(), pc.count_distinct(rows["name"]).as_py()
    for name, folder in _DELTAS.items():
        frame = spark.read.format("delta").load(str(work / folder))
        found[name] = tuple(frame.selectExpr("count(*)", "sum(id)", "count(DISTINCT name)").collect()[0])
    assert len(set(found.values())) == 1, found


def _first_rows(spark: SparkSession, first: int, end: int) -> pa.Table:
    rows = spark.range(first, end, 1, 1)
    return rows.selectExpr("id", "concat('first ', id) AS name", "id * 0.5D AS c0", "id * 1.5D AS c1").toArrow()


def _url(file: Path) -> str:
    return f"sqlite:///{file}"
