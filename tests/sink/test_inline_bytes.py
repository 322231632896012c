"""Few rows of many bytes, and rows of many columns, become files; the batches after them are what they are."""

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 # Spark's own convention

from ducklake_core import Lake
from ducklake_sinks.collector import BatchSize
from tests.fixtures.catalogs import Catalog
from tests.fixtures.consistency import check_lake
from tests.fixtures.oracle import Oracle
from tests.fixtures.sinks import MakeSink

pytestmark = pytest.mark.slow


def frame(spark: SparkSession, start: int, rows: int, row_bytes: int) -> DataFrame:
    return spark.range(start, start + rows, 1, 2).select("id", F.expr(f"repeat('x', {row_bytes})").alias("text"))


@pytest.mark.parametrize("partition_by", [(), ("bucket(2, id)",)], ids=["by Spark's writer", "by Python tasks"])
def test_few_rows_of_many_bytes_become_files(
    spark: SparkSession, catalog: Catalog, make_sink: MakeSink, oracle: Oracle, partition_by: tuple[str, ...]
) -> None:
    sink = make_sink(inline_bytes="100kB", partition_by=partition_by)
    expected = []

    for batch_id, row_bytes in enumerate((20_000, 10, 20_000, 20_000, 10, 10)):
        sink(frame(spark, 10 * batch_id, 10, row_bytes), batch_id)
        assert sink._runtime is not None
        expected.append(sink._runtime.tables.sizes["main.events"])

    large, small = BatchSize.LARGE, BatchSize.SMALL
    assert expected == [large, small, large, large, small, small]
    with Lake.open(catalog.url) as lake:
        assert lake.inlined_state("events").rows == 30
        assert lake.table("events").count() == 60
        assert len(lake.snapshots()) == 7
    check_lake(catalog, orphans=0)
    oracle.attach(catalog.attach)
    assert oracle.query("SELECT length(text), count(*) FROM events GROUP BY 1 ORDER BY 1") == [(10, 30), (20_000, 30)]


@pytest.mark.parametrize("make_catalog", ["postgres"], indirect=True)
def test_rows_that_do_not_fit_on_a_page_of_postgresql_become_a_file_once(
    spark: SparkSession, catalog: Catalog, make_sink: MakeSink, oracle: Oracle
) -> None:
    texts = [F.concat(F.lit("a text of some length, "), "id").alias(f"c{i}") for i in range(600)]
    sink = make_sink()

    for batch_id in (0, 1, 1):
        sink(spark.range(5).select("id", *texts), batch_id)

    with Lake.open(catalog.url) as lake:
        assert lake.inlined_state("events").rows == 0
        assert lake.table("events").count() == 10
        assert len(lake.snapshots()) == 3
    check_lake(catalog, orphans=0)
    oracle.attach(catalog.attach)
    assert oracle.query("SELECT count(*), min(c599) FROM events") == [(10, "a text of some length, 0")]
