"""Executors that keep files on a disk of their own: the batch fails before its commit, by both writers.

`make test-cluster` has such executors. Here files go away between the tasks and the driver, which is the same to it.
"""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from ducklake_core.errors import UnwritableFile
from ducklake_sinks import large_batch, native_files
from tests.fixtures.catalogs import Catalog
from tests.fixtures.sinks import MakeSink

pytestmark = [pytest.mark.slow, pytest.mark.parametrize("make_catalog", ["sqlite"], indirect=True)]
UNSHARED = "driver and executors do not share data path"


def test_files_of_tasks_that_the_driver_does_not_find_are_not_committed(
    spark: SparkSession, make_sink: MakeSink, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = large_batch.write_by_executors

    def write_elsewhere(*arguments: Any) -> Any:  # Any: whatever it takes and gives
        results = run(*arguments)
        next(Path(catalog.data_path).rglob("*.parquet")).unlink()
        return results

    monkeypatch.setattr(large_batch, "write_by_executors", write_elsewhere)
    sink = make_sink(inline_rows=10, partition_by=["bucket(2, part)"])

    with pytest.raises(UnwritableFile, match=UNSHARED):
        sink(spark.range(0, 1000, 1, 2).selectExpr("id", "id % 2 AS part"), 0)

    check_nothing_is_left(catalog)


def test_rows_of_sparks_writer_that_the_driver_does_not_find_are_not_committed(
    spark: SparkSession, make_sink: MakeSink, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = native_files._read_facts
    monkeypatch.setattr(native_files, "_read_facts", lambda *arguments: read(*arguments)[1:])
    sink = make_sink(inline_rows=10)

    with pytest.raises(
        UnwritableFile, match=f"{UNSHARED}.*of 1000 rows that Spark's tasks have written, 500 are there"
    ):
        sink(spark.range(0, 1000, 1, 2), 0)

    check_nothing_is_left(catalog)


def test_rows_that_all_share_are_counted_and_committed(
    spark: SparkSession, make_sink: MakeSink, catalog: Catalog
) -> None:
    sink = make_sink(inline_rows=10)

    sink(spark.range(0, 1000, 1, 2), 0)
    sink(spark.range(0, 0, 1, 2), 1)

    assert catalog.query("SELECT sum(record_count) FROM ducklake_data_file") == [(1000,)]


def check_nothing_is_left(catalog: Catalog) -> None:
    assert catalog.query("SELECT count(*) FROM ducklake_data_file") == [(0,)]
    assert list(Path(catalog.data_path).rglob("*.parquet")) == []
