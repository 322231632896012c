"""The benchmark of first reads runs: in a session that is there, so that it cannot rot. No time is asserted."""

import pytest
from pyspark.sql import SparkSession

from benchmarks import cold
from benchmarks.read import make_lake
from tests.fixtures.catalogs import Catalog


@pytest.mark.slow
@pytest.mark.parametrize("make_catalog", ["sqlite"], indirect=True)
def test_all_contenders_read_and_are_shown(spark: SparkSession, catalog: Catalog) -> None:
    make_lake(catalog.url, catalog.data_path, 100)
    for read in cold.READS.values():
        read(spark, catalog.url)

    shown = cold.show({"unzipped": {name: [2.0] for name in cold.READS}}, cold.measure_programs(1))

    assert shown.count("| unzipped | 2.00 | 1.00 |") == len(cold.READS)
