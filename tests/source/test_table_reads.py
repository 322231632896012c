"""Tables through `format("ducklake")`: the rows that core and DuckDB read, of every type and at every snapshot."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession

from ducklake_core import Lake
from tests.fixtures.catalogs import Catalog
from tests.fixtures.oracle import Oracle
from tests.fixtures.pairs import quote, rows_by_oracle, texts_of
from tests.fixtures.spark_reads import fill_with_every_type, read_table, texts_by_spark

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]
ONLY_SQLITE = pytest.mark.parametrize("make_catalog", ["sqlite"], indirect=True)
PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
# What DuckDB cannot write to Parquet, or makes doubles of: times of nanoseconds, infinite seconds, negative intervals.
NOT_BY_DUCKDB = ("c_time_ns", "c_int128", "c_uint128", "c_timestamp_s", "c_interval", "map")


@pytest.fixture
def lake(catalog: Catalog) -> Iterator[Lake]:
    """Give an empty lake."""
    with Lake.create(catalog.url, data_path=catalog.data_path) as made:
        yield made


@pytest.fixture
def pushing(spark: SparkSession) -> Iterator[SparkSession]:
    """Give the session while it pushes filters down to sources in Python."""
    spark.conf.set(PUSHDOWN, "true")
    yield spark
    spark.conf.unset(PUSHDOWN)


@pytest.mark.parametrize("stored", ["as by the lake", "flushed", "by DuckDB"])
def test_every_type_is_read_as_core_and_duckdb_read_it(
    spark: SparkSession, lake: Lake, catalog: Catalog, oracle: Oracle, stored: str
) -> None:
    fill_with_every_type(lake)
    table = "t"
    if stored == "flushed":
        lake.flush_inlined("t")
    oracle.attach(catalog.attach, data_inlining_row_limit=0)
    if stored == "by DuckDB":
        table = "theirs"
        lossy = ", ".join(map(quote, NOT_BY_DUCKDB))
        oracle.execute(f"CREATE TABLE theirs AS SELECT * EXCLUDE ({lossy}) FROM t")

    opened = lake.table(table)
    columns = opened.version.columns
    by_spark = texts_by_spark(read_table(spark, catalog, table), columns)

    assert by_spark == sorted(texts_of(opened.read(), columns), key=repr)
    assert by_spark == sorted((row[1:] for row in rows_by_oracle(oracle, f"lake.{table}", columns)), key=repr)


def test_every_snapshot_is_read(spark: SparkSession, lived_lake: Lake, catalog: Catalog) -> None:
    for snapshot in lived_lake.snapshots():
        for table in lived_lake.tables(snapshot.snapshot_id):
            frame = read_table(spark, catalog, versionAsOf=snapshot.snapshot_id)

            columns = table.version.columns
            assert texts_by_spark(frame, columns) == sorted(texts_of(table.read(), columns), key=repr)


@ONLY_SQLITE
def test_time_and_columns_can_be_chosen(spark: SparkSession, lived_lake: Lake, catalog: Catalog) -> None:
    snapshot = lived_lake.snapshots()[3]

    frame = read_table(spark, catalog, timestampAsOf=snapshot.snapshot_time.isoformat(), columns="NAME, id")

    assert frame.columns == ["name", "id"]
    assert frame.count() == lived_lake.table("t", snapshot.snapshot_id).count()


@ONLY_SQLITE
def test_sql_reads_by_a_temporary_view(spark: SparkSession, lived_lake: Lake, catalog: Catalog) -> None:
    spark.sql(
        f"CREATE OR REPLACE TEMPORARY VIEW lived USING ducklake OPTIONS (catalog '{catalog.url}', table 't',"
        " versionAsOf 3, columns 'id')"
    )

    assert [row.asDict() for row in spark.sql("SELECT max(id) AS last FROM lived").collect()] == [
        {"last": max(lived_lake.table("t", 3).read(["id"]).column("id").to_pylist())}
    ]


@ONLY_SQLITE
def test_frame_sees_the_snapshot_of_its_making(spark: SparkSession, lake: Lake, catalog: Catalog) -> None:
    lake.create_table("t", {"id": "int64"})
    lake.append("t", {"id": [1]})
    frame = read_table(spark, catalog)

    lake.append("t", {"id": [2]})
    lake.delete("t", "id = 1")
    lake.flush_inlined("t")

    assert [row.id for row in frame.collect()] == [1]
    assert frame.count() == 1
    assert [row.id for row in read_table(spark, catalog).collect()] == [2]


@ONLY_SQLITE
def test_table_without_rows_is_read(spark: SparkSession, lake: Lake, catalog: Catalog) -> None:
    lake.create_table("t", {"id": "int64", "a.b `c`": "uint8"})

    frame = read_table(spark, catalog)

    assert frame.columns == ["id", "a.b `c`"]
    assert frame.collect() == []


def test_many_inlined_rows_are_read_from_the_catalog_by_executors(
    spark: SparkSession, lake: Lake, catalog: Catalog
) -> None:
    lake.set_option("data_inlining_row_limit", 10**6)
    lake.create_table("t", {"id": "int64", "name": "varchar"})
    lake.append("t", pa.table({"id": range(110_000), "name": [f"n{number}" for number in range(110_000)]}))
    lake.delete("t", "id < 10")

    found = read_table(spark, catalog).selectExpr("count(*)", "count(DISTINCT id)", "sum(id)", "min(name)").collect()

    assert lake.table("t").files() == ()
    assert [tuple(row) for row in found] == [(109_990, 109_990, sum(range(10, 110_000)), "n10")]


# ---------------------------------------------------------------------------------------------- refusals


@ONLY_SQLITE
@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"table": "nowhere"}, "there is no table 'nowhere'"),
        ({"versionAsOff": "1"}, "did you mean 'versionAsOf'?"),
        ({"versionAsOf": "99"}, "there is no snapshot at '99'"),
        ({"columns": "idd"}, "'main.t' has no column 'idd'; did you mean 'id'?"),
        ({"filter": "idd = 1"}, "there is no column 'idd'; did you mean 'id'?"),
        ({"path": "x"}, "load() takes no path here"),
    ],
)
def test_mistake_is_told_when_the_frame_is_made(
    spark: SparkSession, lake: Lake, catalog: Catalog, options: dict[str, str], told: str
) -> None:
    lake.create_table("t", {"id": "int64"})

    with pytest.raises(AnalysisException) as caught:
        read_table(spark, catalog, **{"table": "t", **options})

    assert told in str(caught.value)


@ONLY_SQLITE
def test_only_the_tables_own_schema_can_be_given(spark: SparkSession, lake: Lake, catalog: Catalog) -> None:
    lake.create_table("t", {"id": "int64"})
    lake.append("t", {"id": [1]})
    reader = spark.read.format("ducklake").option("catalog", catalog.url).option("table", "t")

    assert reader.schema("id BIGINT").load().count() == 1
    with pytest.raises(PySparkException, match=r"the schema of the DataFrame is not that of table 'main.t'"):
        reader.schema("id INT").load().collect()


@ONLY_SQLITE
def test_error_of_an_executor_names_table_file_and_snapshot(
    spark: SparkSession, lived_lake: Lake, catalog: Catalog
) -> None:
    table = lived_lake.table("t")
    frame = read_table(spark, catalog)
    path = table.files()[0].path

    Path(path).unlink()

    with pytest.raises(PySparkException) as caught:
        frame.collect()
    for part in ("UnreadableFile", "'main.t'", f"snapshot {table.snapshot.snapshot_id}", path, "the file is gone"):
        assert part in str(caught.value)


# ----------------------------------------------------------------------------------------------- filters


@pytest.fixture
def with_unreadable_file(lake: Lake) -> Lake:
    """Give a lake whose table has a file for each ten ids, of which the first cannot be opened any more."""
    lake.set_option("data_inlining_row_limit", 0)
    lake.create_table("t", {"id": "int64", "name": "varchar"})
    for first in (0, 10, 20):
        lake.append("t", {"id": list(range(first, first + 10)), "name": [f"n{n}" for n in range(first, first + 10)]})
    Path(lake.table("t").files()[0].path).unlink()
    return lake


@ONLY_SQLITE
@pytest.mark.usefixtures("with_unreadable_file")
def test_filter_keeps_files_from_being_opened(spark: SparkSession, catalog: Catalog) -> None:
    frame = read_table(spark, catalog, filter="id >= 10 AND name <> 'n12'", columns="name")

    assert frame.columns == ["name"]
    assert {row.name for row in frame.collect()} == {f"n{number}" for number in range(10, 30)} - {"n12"}
    with pytest.raises(PySparkException, match="the file is gone"):
        read_table(spark, catalog).collect()


@ONLY_SQLITE
@pytest.mark.usefixtures("with_unreadable_file")
def test_pushed_filter_keeps_files_from_being_opened(pushing: SparkSession, catalog: Catalog) -> None:
    frame = read_table(pushing, catalog, filterPushdown="true").where("id >= 15 AND id % 2 = 0")

    assert sorted(row.id for row in frame.collect()) == [16, 18, 20, 22, 24, 26, 28]


@ONLY_SQLITE
def test_filters_are_not_pushed_unless_asked_for(pushing: SparkSession, lake: Lake, catalog: Catalog) -> None:
    lake.create_table("t", {"id": "int64"})
    lake.append("t", {"id": [1, 2, 3]})
    frame = read_table(pushing, catalog)

    assert frame.where("id > 1").count() == 2
    assert frame.count() == 3  # with Spark's pushdown it would be 2


CONDITIONS = (
    "c_int64 = 9223372036854775807",
    "c_uint64 > 5",
    "c_float64 > 1.5",
    "c_float64 = double('NaN')",
    "c_float64 <= 0",
    "c_float32 = float('0.1')",
    "c_varchar LIKE 'a%'",
    "c_varchar LIKE '%b%'",
    "c_varchar < 'b'",
    "NOT c_varchar = 'plain'",
    "c_varchar IN ('plain', 'é', NULL)",
    "NOT c_int32 IN (7, 8)",
    "c_boolean",
    "NOT c_boolean",
    "c_boolean <=> NULL",
    "c_date < DATE'2024-01-01'",
    "c_timestamp >= TIMESTAMP_NTZ'2024-02-29 12:34:56.7'",
    "c_timestamptz < TIMESTAMP'2024-02-29 12:34:56.789012+00'",
    "c_timestamp_s = TIMESTAMP_NTZ'2024-02-29 12:34:56'",
    "c_timestamp_s < TIMESTAMP_NTZ'2024-02-29 12:34:56.5'",
    "c_uuid = '6BA7B810-9DAD-11D1-80B4-00C04FD430C8'",
    "c_uuid = '6ba7b810-9dad-11d1-80b4-00c04fd430c8'",
    "c_blob = X'616263'",
    "`c_decimal(18,4)` > 0.00005",
    "`c_decimal(18,4)` = 0.0001",
    "`odd struct`.`a b` = 255",
    "`odd struct`.`a b` IS NULL",
    "list IS NOT NULL",
    "c_int8 > 1000",
)


@ONLY_SQLITE
def test_pushed_filters_mean_what_spark_means(pushing: SparkSession, lake: Lake, catalog: Catalog) -> None:
    fill_with_every_type(lake)
    plain = read_table(
        pushing,
        catalog,
        columns="id, "
        + ", ".join(quote(f.name) for f in lake.table("t").schema if f.name not in ("id", "c_time", "c_time_ns")),
    )

    for condition in CONDITIONS:
        pushed = read_table(pushing, catalog, filterPushdown="true").where(condition).select("id")
        assert sorted(pushed.collect()) == sorted(plain.where(condition).select("id").collect()), condition


# ----------------------------------------------------------------------------------------------- connect

BY_CONNECT = """
import sys
from pyspark.sql import SparkSession

spark = SparkSession.builder.remote("local[2]").config("spark.ui.enabled", "false").getOrCreate()
frame = spark.read.format("ducklake").option("catalog", sys.argv[1]).option("table", "t").load()
print("found", frame.count(), frame.columns)
spark.stop()
"""


@ONLY_SQLITE
def test_connect_reads_tables(lived_lake: Lake, catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_TESTING", "1")  # its server takes any free port
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)

    done = subprocess.run(
        [sys.executable, "-c", BY_CONNECT, catalog.url], check=False, capture_output=True, text=True, timeout=300
    )

    assert f"found {lived_lake.table('t').count()} ['id', 'title', 'fresh']" in done.stdout, done.stderr
