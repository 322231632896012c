"""The benchmark of reads runs: few rows, so that it cannot rot. How long things take is not asserted."""

import pytest
from pyspark.sql import SparkSession

from benchmarks import read
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
