"""Every Spark SQL type, as values of the catalog, flushed, and as files: core and DuckDB read what Spark had."""

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T  # noqa: N812 # Spark's own convention

from ducklake_core import Lake
from ducklake_core.errors import UnsupportedType
from tests.fixtures.catalogs import Catalog
from tests.fixtures.oracle import Oracle
from tests.fixtures.sinks import MakeSink

pytestmark = pytest.mark.slow

UTC = dt.UTC
DAYTIME, YEARMONTH = T.DayTimeIntervalType(), T.YearMonthIntervalType()

# By type: values that travel badly. None is added to each.
VALUES: dict[str, tuple[T.DataType, list[Any]]] = {  # Any: values of many types
    "boolean": (T.BooleanType(), [True, False]),
    "tinyint": (T.ByteType(), [-128, 127]),
    "smallint": (T.ShortType(), [-(2**15), 2**15 - 1]),
    "int": (T.IntegerType(), [-(2**31), 2**31 - 1]),
    "bigint": (T.LongType(), [-(2**63), 2**63 - 1]),
    "float": (T.FloatType(), [1.5, -0.0, float("inf"), float("-inf"), float("nan"), 3.4028234663852886e38]),
    "double": (T.DoubleType(), [1e300, -0.0, float("inf"), float("-inf"), float("nan"), 5e-324]),
    "decimal(9,2)": (T.DecimalType(9, 2), [Decimal("-1234567.89"), Decimal("0.01")]),
    "decimal(18,6)": (T.DecimalType(18, 6), [Decimal("123456789012.345678")]),
    "decimal(38,10)": (T.DecimalType(38, 10), [Decimal("-9999999999999999999999999999.9999999999")]),
    "decimal(38,0)": (T.DecimalType(38, 0), [Decimal(10**38 - 1), Decimal(-(10**38) + 1)]),
    "string": (T.StringType(), ["", "it's", 'a "quote"', "\\", "🦆 émü", "NULL", "a\0b", " blank ", "{'a': 1}"]),
    "binary": (T.BinaryType(), [b"", b"\0\xff", b"\\x00", b"text"]),
    "date": (T.DateType(), [dt.date(1, 1, 1), dt.date(1582, 10, 10), dt.date(9999, 12, 31)]),
    "timestamp": (
        T.TimestampType(),
        [
            dt.datetime(1, 1, 1, tzinfo=UTC),
            dt.datetime(2026, 3, 29, 1, 30, tzinfo=UTC),  # when clocks in Berlin are put forward
            dt.datetime(2026, 10, 25, 0, 30, 0, 1, tzinfo=UTC),  # and back
            dt.datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
        ],
    ),
    "timestamp_ntz": (T.TimestampNTZType(), [dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31, 23, 59, 59, 999999)]),  # noqa: DTZ001 # without a zone by purpose
    "time": (T.TimeType(6), [dt.time(0), dt.time(23, 59, 59, 999999)]),
    "array<int>": (T.ArrayType(T.IntegerType()), [[], [1, None, 3]]),
    "array<string>": (T.ArrayType(T.StringType()), [["", "it's", None, "[1, 2]", "NULL"]]),
    "array<double>": (T.ArrayType(T.DoubleType()), [[float("nan"), float("inf"), -0.0]]),
    "map<string,bigint>": (T.MapType(T.StringType(), T.LongType()), [{}, {"a=b": 1, "": None}]),
    "struct": (
        T.StructType([T.StructField("a", T.IntegerType()), T.StructField("b c", T.ArrayType(T.StringType()))]),
        [{"a": None, "b c": None}, {"a": 1, "b c": []}, {"a": 2, "b c": ["x'y", None]}],
    ),
    "array<struct>": (
        T.ArrayType(T.StructType([T.StructField("at", T.TimestampType()), T.StructField("d", T.DecimalType(5, 1))])),
        [[{"at": dt.datetime(2026, 1, 1, tzinfo=UTC), "d": Decimal("1.5")}, None]],
    ),
    "interval day to second": (
        DAYTIME,
        [dt.timedelta(0), dt.timedelta(days=3, hours=2, microseconds=1), dt.timedelta(days=-1, seconds=-1)],
    ),
}
STORED = ("inlined", "flushed", "files of Spark's writer", "files of executors")
NOT_BY_SPARK = ("time", "array", "map", "interval", "struct")  # types that Spark's own writer cannot do, by their names


def typed_frame(spark: SparkSession, names: list[str]) -> DataFrame:
    """Return a frame with a column for each of some types: their values, and nulls at the end."""
    count = 1 + max(len(VALUES[name][1]) for name in names)
    columns = [VALUES[name][1] + [None] * (count - len(VALUES[name][1])) for name in names]
    fields = [T.StructField(f"c{number}", VALUES[name][0]) for number, name in enumerate(names)]
    schema = T.StructType([T.StructField("id", T.IntegerType()), *fields])
    rows = [(number, *row) for number, row in enumerate(zip(*columns, strict=True))]
    return spark.createDataFrame(rows, schema).coalesce(1)


def shown(values: list[Any]) -> list[str]:  # Any: see VALUES
    """Make values comparable: NaN equals NaN here, and -0.0 is not 0.0."""
    return [repr(_plain(value)) for value in values]


def _plain(value: Any) -> Any:  # Any: see VALUES
    if isinstance(value, dict):
        return sorted((key, _plain(item)) for key, item in value.items())
    if isinstance(value, (list, tuple)) and not isinstance(value, pa.MonthDayNano):
        pairs = bool(value) and all(isinstance(item, tuple) and len(item) == 2 for item in value)
        return sorted((key, _plain(item)) for key, item in value) if pairs else [_plain(item) for item in value]
    if isinstance(value, dt.datetime) and value.tzinfo is not None:
        return value.astimezone(UTC).replace(tzinfo=None)
    if isinstance(value, dt.timedelta):
        return value / dt.timedelta(microseconds=1)
    if isinstance(value, pa.MonthDayNano):
        return (value.days * 86400 * 10**6) + value.nanoseconds / 1000
    return value


@pytest.mark.parametrize("stored", STORED)
def test_every_type_is_read_back_equal(
    spark: SparkSession, catalog: Catalog, make_sink: MakeSink, oracle: Oracle, stored: str
) -> None:
    options: dict[str, Any] = {"inline_rows": 1000 if stored in ("inlined", "flushed") else 0}
    if stored == "files of executors":
        options["partition_by"] = ["bucket(2, id)"]
    plain = [name for name in VALUES if name == "timestamp" or not name.startswith(NOT_BY_SPARK)]
    tables = {"plain": plain, "others": [name for name in VALUES if name not in plain]}
    sink = make_sink(table=None, **options)

    with sink.transaction(0) as tx:
        for table, names in tables.items():
            tx.append(typed_frame(spark, names), table)

    with Lake.open(catalog.url) as lake:
        if stored == "flushed":
            lake.flush_inlined()
        oracle.attach(catalog.attach)
        for table, names in tables.items():
            files = lake.table(table).files()
            assert bool(files) == (stored != "inlined")
            assert any("part-" in file.path for file in files) == (stored == STORED[2] and table == "plain")
            by_us = lake.table(table).read().sort_by("id")
            by_duckdb = oracle.arrow(f"FROM {table} ORDER BY id")
            for number, name in enumerate(names):
                expected = shown(VALUES[name][1] + [None] * (by_us.num_rows - len(VALUES[name][1])))
                assert shown(by_us.column(f"c{number}").to_pylist()) == expected, name
                assert shown(by_duckdb.column(f"c{number}").to_pylist()) == expected, f"{name} by DuckDB"


@pytest.mark.parametrize("inline_rows", [100, 0], ids=["inlined", "files of Spark's writer"])
def test_filters_find_values_that_have_no_order_elsewhere(
    spark: SparkSession, catalog: Catalog, make_sink: MakeSink, oracle: Oracle, inline_rows: int
) -> None:
    make_sink(inline_rows=inline_rows)(typed_frame(spark, ["double", "float", "decimal(38,10)", "string"]), 0)

    oracle.attach(catalog.attach)
    with Lake.open(catalog.url) as lake:
        for condition, count in (
            ("c0 > 1e301", 2),  # infinity, and NaN, which is the greatest
            ("c0 = 'nan'::double", 1),
            ("c1 < -1e38", 1),
            ("c0 = 0", 1),
            ("c2 < -9999999999999999999999999999", 1),
            ("c3 = ''", 1),
            ("c3 > '🦆'", 1),
        ):
            assert oracle.query(f"SELECT count(*) FROM events WHERE {condition}") == [(count,)], condition
        assert lake.table("main.events").count("c0 > 1e301") == 2


@pytest.mark.parametrize("rows", [2, 2000], ids=["inlined", "files"])
def test_intervals_of_months_and_calendar_are_stored(
    spark: SparkSession, catalog: Catalog, make_sink: MakeSink, oracle: Oracle, rows: int
) -> None:
    frame = spark.range(rows).selectExpr(
        "id",
        "IF(id = 0, interval '1-2' year to month, interval '-3' month) AS m",
        "make_interval(1, 2, 0, 4, 25, 6, -7.5) AS c",
        "array(interval '2' year, null) AS l",
        "named_struct('i', interval '1-2' year to month, 'n', id) AS s",
    )

    make_sink(inline_rows=100)(frame, 0)

    oracle.attach(catalog.attach)
    query = "SELECT m::varchar, c::varchar, l::varchar, s.i::varchar FROM events WHERE id < 2 ORDER BY id"
    same = ("1 year 2 months 4 days 25:05:52.5", "[2 years, NULL]", "1 year 2 months")
    assert oracle.query(query) == [("1 year 2 months", *same), ("-3 months", *same)]


@pytest.mark.parametrize(
    ("expression", "path"),
    [
        ("parse_json('{}')", "v"),
        ("named_struct('a', parse_json('1'))", "v.a"),
        ("array(parse_json('1'))", "v.element"),
        ("array(null)", "v.element"),
    ],
)
def test_what_cannot_be_stored_is_refused_before_anything_is_written(
    spark: SparkSession, catalog: Catalog, make_sink: MakeSink, expression: str, path: str
) -> None:
    sink = make_sink()

    with pytest.raises(UnsupportedType, match=f"column '{path}' has Spark type"):
        sink(spark.range(3).selectExpr("id", f"{expression} AS v"), 0)

    with Lake.open(catalog.url) as lake:
        assert len(lake.snapshots()) == 1
        assert lake.ledger_entry("s") is None


def test_column_without_a_type_fills_one_that_exists(
    spark: SparkSession, catalog: Catalog, make_sink: MakeSink
) -> None:
    sink = make_sink(inline_rows=10)
    with pytest.raises(UnsupportedType, match="'void'"):
        sink(spark.range(3).selectExpr("id", "null AS v"), 0)
    sink(spark.range(3).selectExpr("id", "'x' AS v"), 0)

    sink(spark.range(3).selectExpr("id", "null AS v"), 1)
    sink(spark.range(300).selectExpr("id", "null AS v"), 2)

    with Lake.open(catalog.url) as lake:
        assert lake.table("main.events").count("v IS NULL") == 303
        assert lake.table("main.events").count("v = 'x'") == 3


def test_time_zone_of_the_session_changes_no_moment(
    spark: SparkSession, catalog: Catalog, make_sink: MakeSink, oracle: Oracle
) -> None:
    moment = "timestamp'2026-07-01 12:00:00 Europe/Berlin' AS moment"
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        sink = make_sink(inline_rows=10)
        sink(spark.range(1).selectExpr(moment), 0)
        sink(spark.range(100).selectExpr(moment), 1)
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")

    oracle.attach(catalog.attach)
    assert oracle.query("SELECT DISTINCT epoch(moment) FROM events") == [(1782900000.0,)]
