"""The benchmark of reads runs: few rows, so that it cannot rot. How long things take is not asserted."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from benchmarks import read, spark_feed
from ducklake_core import Lake
from tests.fixtures.catalogs import Catalog


@pytest.mark.slow
@pytest.mark.parametrize("make_catalog", ["sqlite"], indirect=True)
def test_all_contenders_are_measured(spark: SparkSession, catalog: Catalog) -> None:
    read.make_lake(catalog.url, catalog.data_path, 1000)
    with Lake.open(catalog.url) as lake:
        lake.delete(read.TABLE, "a < 100")

    found = read.measure(spark, catalog.url, rounds=1)

    assert set(found) == set(read.WORKS)
    for seconds in found.values():
        assert set(seconds) == set(read.CONTENDERS)
        assert all(seconds.values())


@pytest.mark.slow
@pytest.mark.parametrize("make_catalog", ["sqlite"], indirect=True)
def test_contenders_read_the_same(spark: SparkSession, catalog: Catalog) -> None:
    read.make_lake(catalog.url, catalog.data_path, 1000)

    counts = {name: make(spark, catalog.url, read.SUMMED).count() for name, make in read.CONTENDERS.items()}

    assert set(counts.values()) == {1000}


@pytest.mark.slow
@pytest.mark.parametrize("make_catalog", ["sqlite"], indirect=True)
def test_changes_are_read_by_all_contenders(spark: SparkSession, catalog: Catalog, tmp_path: Path) -> None:
    first = spark_feed.make_changes(catalog.url, catalog.data_path, 15_000, 2)
    place = spark_feed.Place(catalog.url, first, str(tmp_path))

    found = spark_feed.measure(spark, place, rounds=1)

    assert set(found) == set(spark_feed.CONTENDERS)
    counts = {spark_feed.changes_by_format(spark, place).count(), spark_feed.changes_natively(spark, place).count()}
    assert counts == {2 * (2 * 150 + 30)}
