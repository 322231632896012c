"""Scans of ten columns of a table of 3 million rows in files of a million: all rows, or with a tenth deleted.

Spark's own scan of the same files knows nothing of deletes: it reads them, too. Delta deletes by deletion vectors,
Iceberg by those of its format 3, which are merged on read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TypeAlias

from pyspark.sql import DataFrame, SparkSession

from benchmarks import read
from benchmarks.peers.session import CATALOG, copy_to_delta, copy_to_iceberg
from benchmarks.peers.tables import Column, Result, take_turns
from ducklake_core import Lake

ROWS, QUICK_ROWS = 3_000_000, 30_000
SHAPES = {"whole": "all rows", "deleted": "a tenth deleted"}
_DELETED = "a < 100"
# Delta cannot read a table with deletion vectors into `noop`, so all columns go into a hash.
WORKS: Mapping[str, tuple[read.Columns, str]] = {
    "all columns": (None, "max(xxhash64(*))"),
    "sums of five": (read.SUMMED, ", ".join(f"sum({name})" for name in read.SUMMED)),
}
Reader: TypeAlias = Callable[[SparkSession, Path, str, read.Columns], DataFrame]


def make(spark: SparkSession, place: Path, rows: int) -> None:
    """Make two tables by each format."""
    for shape in SHAPES:
        url = _url(place, shape)
        read.make_lake(url, f"{place}/data-{shape}/", rows)
        with Lake.open(url) as lake:
            files = [file.path for file in lake.table(read.TABLE).files()]
        delta, iceberg = place / f"delta-{shape}", f"{CATALOG}.{place.name}.{shape}"
        copy_to_delta(spark, files, delta, {"enableDeletionVectors": "true"})
        copy_to_iceberg(spark, files, iceberg, {"format-version": "3", "write.delete.mode": "merge-on-read"})
        if shape == "deleted":
            with Lake.open(url) as lake:
                lake.delete(read.TABLE, _DELETED)
            spark.sql(f"DELETE FROM delta.`{delta}` WHERE {_DELETED}")
            spark.sql(f"DELETE FROM {iceberg} WHERE {_DELETED}")


def check(spark: SparkSession, place: Path, rows: int) -> None:
    """See that all arms read the same rows."""
    for shape in SHAPES:
        expected = rows if shape == "whole" else rows * 9 // 10
        for name, reader in ARMS.items():
            if name != "Spark's scan":
                assert reader(spark, place, shape, ["id"]).count() == expected, f"{name}, {shape}"


def measure(spark: SparkSession, place: Path, rows: int, rounds: int) -> list[Result]:
    """Return the seconds of each work, without a first round, in which the JVM compiles."""
    results = []
    for shape, name in SHAPES.items():
        columns = []
        for work in WORKS:
            arms = {arm: partial(_run, work, reader, spark, place, shape) for arm, reader in ARMS.items()}
            take_turns(arms, 1)
            columns.append(Column(work, take_turns(arms, rounds)))
        results.append(Result(f"scan of {rows:,} rows: {name}", columns, ["Spark's scan", "Delta", "Iceberg"]))
    return results


def _run(work: str, reader: Reader, spark: SparkSession, place: Path, shape: str) -> None:
    columns, aggregate = WORKS[work]
    reader(spark, place, shape, columns).createOrReplaceTempView("scanned")
    spark.sql(f"SELECT {aggregate} FROM scanned").collect()


def _by_delta(spark: SparkSession, place: Path, shape: str, columns: read.Columns) -> DataFrame:
    return _select(spark.read.format("delta").load(f"{place}/delta-{shape}"), columns)


def _by_iceberg(spark: SparkSession, place: Path, shape: str, columns: read.Columns) -> DataFrame:
    return _select(spark.table(f"{CATALOG}.{place.name}.{shape}"), columns)


def _select(frame: DataFrame, columns: read.Columns) -> DataFrame:
    return frame if columns is None else frame.select(*columns)


ARMS: Mapping[str, Reader] = {
    "format": lambda spark, place, shape, columns: read.read_ducklake(spark, _url(place, shape), columns),
    "native_table": lambda spark, place, shape, columns: read.read_natively(spark, _url(place, shape), columns),
    "Spark's scan": lambda spark, place, shape, columns: read.read_parquet(spark, _url(place, shape), columns),
    "Delta": _by_delta,
    "Iceberg": _by_iceberg,
}


def _url(place: Path, shape: str) -> str:
    return f"sqlite:///{place}/{shape}.sqlite"
