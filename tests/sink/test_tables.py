"""Tables appear and change by themselves, as far as they may; everything else is refused by column and type."""

import pytest
from pyspark.sql import SparkSession

from ducklake_core import Lake
from ducklake_core.errors import CommitConflict, DuckLakeError, NoLakeFound, SchemaMismatch
from tests.fixtures.catalogs import Catalog
from tests.fixtures.oracle import Oracle
from tests.fixtures.sinks import MakeSink

pytestmark = pytest.mark.slow

SIZES = pytest.mark.parametrize("rows", [3, 300], ids=["inlined", "files"])


def read(catalog: Catalog, table: str = "main.events") -> list[dict[str, object]]:
    with Lake.open(catalog.url) as lake:
        rows: list[dict[str, object]] = lake.table(table).read().to_pylist()
    return rows


@SIZES
def test_table_is_made_as_told(
    spark: SparkSession, catalog: Catalog, make_sink: MakeSink, oracle: Oracle, rows: int
) -> None:
    sink = make_sink(table="sales.events", inline_rows=10, partition_by="bucket(4, id)", sorted_by="id DESC")

    sink(spark.range(rows).selectExpr("id", "CAST(id AS INT) AS n"), 0)

    oracle.attach(catalog.attach)
    assert oracle.query("SELECT count(*), max(n) FROM sales.events") == [(rows, rows - 1)]
    assert catalog.query("SELECT transform FROM ducklake_partition_column") == [("bucket(4)",)]
    assert catalog.query("SELECT sort_direction FROM ducklake_sort_expression") == [("DESC",)]
    nullable = catalog.query("SELECT DISTINCT nulls_allowed FROM ducklake_column")
    assert [bool(flag) for (flag,) in nullable] == [True]  # although Spark knows that there are no nulls today


@SIZES
def test_merge_schema_adds_columns_and_fields_and_promotes(
    spark: SparkSession, catalog: Catalog, make_sink: MakeSink, oracle: Oracle, rows: int
) -> None:
    sink = make_sink(inline_rows=10, merge_schema=True)
    sink(spark.range(3).selectExpr("id", "CAST(1 AS INT) AS n", "named_struct('x', 1) AS s", "'old' AS gone"), 0)

    changed = ("'new' AS added", "named_struct('y', 'z', 'x', 2L) AS S", "5000000000L AS N", "id")
    sink(spark.range(rows).selectExpr(*changed), 1)

    oracle.attach(catalog.attach)
    query = "SELECT n, s.x, s.y, gone, added, count(*) FROM events GROUP BY ALL ORDER BY n"
    assert oracle.query(query) == [(1, 1, None, "old", None, 3), (5000000000, 2, "z", None, "new", rows)]
    assert len(catalog.query("SELECT * FROM ducklake_snapshot")) == 3  # the change and the rows are one snapshot


def test_batch_without_a_nested_field_fills_it(spark: SparkSession, catalog: Catalog, make_sink: MakeSink) -> None:
    sink = make_sink(merge_schema=True)
    sink(spark.range(1).selectExpr("array(named_struct('x', 1, 'y', 2)) AS l"), 0)

    sink(spark.range(1).selectExpr("array(named_struct('x', 3)) AS l"), 1)

    assert [row["l"] for row in read(catalog)] == [[{"x": 1, "y": 2}], [{"x": 3, "y": None}]]


@pytest.mark.parametrize("merging", ["merging", "not merging"])
@pytest.mark.parametrize(
    ("expression", "told"),
    [
        ("'text' AS n", ["n", "int64", "string"]),
        ("1.5D AS n", ["n", "int64", "double"]),
        ("array(1) AS n", ["n", "int64", "list"]),
        ("1 AS s", ["s", "struct", "int32"]),
    ],
)
def test_other_kind_of_column_is_refused_with_both_types(
    spark: SparkSession, catalog: Catalog, make_sink: MakeSink, merging: str, expression: str, told: list[str]
) -> None:
    sink = make_sink(merge_schema=merging == "merging")
    columns = {"n": "1L AS n", "s": "named_struct('x', 1) AS s"}
    sink(spark.range(3).selectExpr(*columns.values()), 0)

    with pytest.raises(SchemaMismatch) as caught:
        sink(spark.range(3).selectExpr(*{**columns, expression[-1]: expression}.values()), 1)

    assert all(word in str(caught.value) for word in told)
    assert len(read(catalog)) == 3


def test_new_column_without_merge_schema_is_refused_with_the_remedy(
    spark: SparkSession, catalog: Catalog, make_sink: MakeSink
) -> None:
    sink = make_sink()
    sink(spark.range(3), 0)

    with pytest.raises(SchemaMismatch, match='"more" varchar: merge_schema=True adds them'):
        sink(spark.range(3).selectExpr("id", "'x' AS more"), 1)

    assert len(read(catalog)) == 3


def test_columns_are_matched_regardless_of_case_and_order(
    spark: SparkSession, catalog: Catalog, make_sink: MakeSink
) -> None:
    sink = make_sink()
    sink(spark.range(1).selectExpr("id", "'a' AS name"), 0)

    sink(spark.range(1).selectExpr("'b' AS NAME", "id + 1 AS ID"), 1)

    assert read(catalog) == [{"id": 0, "name": "a"}, {"id": 1, "name": "b"}]


@SIZES
def test_changes_of_another_writer_are_seen_at_the_next_batch(
    spark: SparkSession, catalog: Catalog, make_sink: MakeSink, oracle: Oracle, rows: int
) -> None:
    sink = make_sink(inline_rows=10, merge_schema=True)
    sink(spark.range(3).selectExpr("id", "'a' AS name"), 0)
    oracle.attach(catalog.attach)
    oracle.execute("ALTER TABLE events ADD COLUMN place VARCHAR DEFAULT 'here'")
    oracle.execute("ALTER TABLE events RENAME COLUMN name TO title")

    sink(spark.range(rows).selectExpr("id", "'b' AS title"), 1)

    query = "SELECT title, place, count(*) FROM events GROUP BY ALL ORDER BY title"
    assert oracle.query(query) == [("a", "here", 3), ("b", "here", rows)]


def test_dropped_table_ends_the_stream_and_is_made_anew_by_the_next_run(
    spark: SparkSession, catalog: Catalog, make_sink: MakeSink, oracle: Oracle
) -> None:
    sink = make_sink()
    sink(spark.range(3), 0)
    oracle.attach(catalog.attach)
    oracle.execute("DROP TABLE events")

    with pytest.raises(CommitConflict, match=r"'main\.events' was dropped in snapshot 2"):
        sink(spark.range(3, 5), 1)
    make_sink()(spark.range(3, 5), 1)

    assert oracle.query("SELECT id FROM events ORDER BY id") == [(3,), (4,)]


def test_table_that_was_dropped_and_made_anew_by_others_ends_the_stream(
    spark: SparkSession, catalog: Catalog, make_sink: MakeSink, oracle: Oracle
) -> None:
    sink = make_sink()
    sink(spark.range(3), 0)
    oracle.attach(catalog.attach)
    oracle.execute("DROP TABLE events")
    oracle.execute("CREATE TABLE events (id BIGINT)")

    with pytest.raises(CommitConflict, match=r"'main\.events' was dropped in snapshot 2"):
        sink(spark.range(3, 5), 1)


def test_table_with_odd_names_is_written(
    spark: SparkSession, catalog: Catalog, make_sink: MakeSink, oracle: Oracle
) -> None:
    sink = make_sink(table='"my.schema"."a ""table"""', inline_rows=10)

    sink(spark.range(3).selectExpr("id AS `dotted.name`", 'id AS `quote"d`'), 0)
    sink(spark.range(300).selectExpr("id AS `dotted.name`", 'id AS `quote"d`'), 1)

    oracle.attach(catalog.attach)
    assert oracle.query('SELECT count("dotted.name"), sum("quote""d") FROM "my.schema"."a ""table"""') == [(303, 44853)]


def test_duplicate_columns_are_refused(spark: SparkSession, make_sink: MakeSink) -> None:
    with pytest.raises(DuckLakeError, match="two columns"):
        make_sink()(spark.range(3).selectExpr("id", "id AS ID"), 0)


def test_sink_that_finds_no_lake_says_that_it_can_make_one(spark: SparkSession, make_sink: MakeSink) -> None:
    sink = make_sink(data_path=None)

    with pytest.raises(NoLakeFound, match="give the sink data_path='…'"):
        sink.append(spark.range(1))
