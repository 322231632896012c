"""Rows go to the tables that they name, all in one snapshot."""

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 # Spark's own convention

from ducklake_core import Lake
from ducklake_core.errors import DuckLakeError
from tests.fixtures.catalogs import Catalog
from tests.fixtures.consistency import check_lake
from tests.fixtures.oracle import Oracle
from tests.fixtures.sinks import MakeSink

pytestmark = pytest.mark.slow

SIZES = pytest.mark.parametrize("rows", [30, 3000], ids=["inlined", "files"])


def events(spark: SparkSession, rows: int) -> DataFrame:
    return spark.range(0, rows, 1, 2).selectExpr(
        "id", "element_at(array('Red', 'green', 'x.blue'), CAST(id % 3 AS INT) + 1) AS topic"
    )


@SIZES
def test_column_names_the_table(
    spark: SparkSession, catalog: Catalog, make_sink: MakeSink, oracle: Oracle, rows: int
) -> None:
    sink = make_sink(table=None, route="topic", inline_rows=50)

    sink(events(spark, rows), 0)
    sink(events(spark, rows), 1)

    oracle.attach(catalog.attach)
    for table, remainder in (("red", 0), ("green", 1), ("x.blue", 2)):
        query = f"SELECT count(*), count(DISTINCT id), min(id), count(topic) FROM {table}"
        assert oracle.query(query) == [(2 * rows // 3, rows // 3, remainder, 2 * rows // 3)]
    assert len(catalog.query("SELECT * FROM ducklake_snapshot")) == 3
    check_lake(catalog, orphans=0)


@SIZES
def test_function_names_the_table(
    spark: SparkSession, catalog: Catalog, make_sink: MakeSink, oracle: Oracle, rows: int
) -> None:
    sink = make_sink(table=None, route=lambda frame: F.concat(F.lit("part_"), frame.id % 2), inline_rows=50)

    sink(spark.range(rows), 0)

    oracle.attach(catalog.attach)
    assert oracle.query("SELECT count(*), min(id) FROM part_1") == [(rows // 2, 1)]
    with Lake.open(catalog.url) as lake:
        assert lake.table("part_0").schema.names == ["id"]


@SIZES
def test_row_that_names_no_table_fails_the_batch(
    spark: SparkSession, catalog: Catalog, make_sink: MakeSink, rows: int
) -> None:
    sink = make_sink(table=None, route="topic", inline_rows=50)

    with pytest.raises(Exception, match="column 'topic' is null"):
        sink(spark.range(0, rows, 1, 1).selectExpr("id", "IF(id = 7, NULL, 'red') AS topic"), 0)

    with Lake.open(catalog.url) as lake:
        assert lake.tables() == []
    check_lake(catalog, orphans=0)


@SIZES
def test_row_that_names_no_table_is_quarantined(
    spark: SparkSession, catalog: Catalog, make_sink: MakeSink, oracle: Oracle, rows: int
) -> None:
    sink = make_sink(table=None, route="topic", inline_rows=50, on_bad_row="quarantine")

    topic = "CASE id WHEN 7 THEN NULL WHEN 8 THEN 'a.b.c' WHEN 9 THEN 'Dead_Letters' ELSE 'red' END AS topic"
    sink(spark.range(rows).selectExpr("id", topic), 0)

    oracle.attach(catalog.attach)
    assert oracle.query("SELECT count(*) FROM red") == [(rows - 3,)]
    letters = oracle.query("SELECT batch_id, table_name, row->>'id', reason FROM dead_letters ORDER BY 3")
    assert [letter[:3] for letter in letters] == [(0, None, "7"), (0, "a.b.c", "8"), (0, "Dead_Letters", "9")]
    assert "is null" in letters[0][3]
    assert "the table for dead letters" in letters[2][3]
    assert len(catalog.query("SELECT * FROM ducklake_snapshot")) == 2


def test_route_must_be_a_column(spark: SparkSession, make_sink: MakeSink) -> None:
    with pytest.raises(DuckLakeError, match="the route 'topc' is no column"):
        make_sink(table=None, route="topc")(events(spark, 3), 0)
