"""Spark's filters become core's only where both mean the same; all others stay with Spark."""

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest
from pyspark.sql import datasource as spark

from ducklake_core.plan.filter_arrow import to_arrow
from ducklake_core.spec.types import arrow_schema, build_columns
from ducklake_sources.filters import to_predicate

COLUMNS = build_columns(
    {
        "id": "int32",
        "u": "uint64",
        "d": "decimal(9,2)",
        "x": "float64",
        "f": "float32",
        "name": "varchar",
        "flag": "boolean",
        "day": "date",
        "at": "timestamp",
        "s": "timestamp_s",
        "tz": "timestamptz",
        "key": "uuid",
        "doc": "json",
        "pair": "struct(a int32, deep struct(b varchar))",
        "list": "int32[]",
    }
)
NOON = dt.datetime(2026, 1, 1, 12)  # noqa: DTZ001 # without a zone by purpose
ROWS = pa.Table.from_pylist(
    [
        {"id": 1, "x": 1.5, "name": "one", "flag": True, "at": NOON, "pair": {"a": 1, "deep": {"b": "x"}}, "list": [1]},
        {"id": 2, "x": float("nan"), "name": "two", "flag": False, "pair": {"a": None, "deep": None}},
        {"id": None},
        {"id": 4, "x": -0.0, "name": "t%", "s": NOON, "tz": NOON.replace(tzinfo=dt.UTC), "day": NOON.date()},
    ],
    arrow_schema([column for column in COLUMNS if column.type not in ("uuid", "json")]),
)


@pytest.mark.parametrize(
    ("one", "kept"),
    [
        (spark.EqualTo(("ID",), 1), [0]),
        (spark.Not(spark.EqualTo(("id",), 1)), [1, 3]),
        (spark.EqualNullSafe(("id",), 1), [0]),
        (spark.Not(spark.EqualNullSafe(("id",), 1)), [1, 2, 3]),
        (spark.EqualNullSafe(("id",), None), [2]),
        (spark.EqualTo(("id",), None), []),
        (spark.GreaterThan(("id",), 2**40), []),
        (spark.LessThan(("id",), 2**40), [0, 1, 3]),
        (spark.In(("id",), (1, 4, None)), [0, 3]),
        (spark.Not(spark.In(("id",), (1, None))), []),
        (spark.Not(spark.In(("id",), (1, 4))), [1]),
        (spark.IsNull(("id",)), [2]),
        (spark.IsNotNull(("list",)), [0]),
        (spark.GreaterThanOrEqual(("x",), 1.5), [0, 1]),
        (spark.EqualTo(("x",), float("nan")), [1]),
        (spark.EqualTo(("x",), 0.0), [3]),
        (spark.EqualTo(("flag",), value=True), [0]),
        (spark.StringStartsWith(("name",), "t"), [1, 3]),
        (spark.StringEndsWith(("name",), "o"), [1]),
        (spark.StringContains(("name",), "n"), [0]),
        (spark.EqualTo(("name",), "t%"), [3]),
        (spark.EqualTo(("pair", "a"), 1), [0]),
        (spark.EqualTo(("pair", "deep", "b"), "x"), [0]),
        (spark.LessThanOrEqual(("day",), NOON.date()), [3]),
        (spark.EqualTo(("at",), NOON), [0]),
        (spark.EqualTo(("s",), NOON), [3]),
        (spark.GreaterThan(("tz",), dt.datetime(2026, 1, 1, 12, 59, tzinfo=dt.timezone(dt.timedelta(hours=1)))), [3]),
    ],
    ids=str,
)
def test_filter_keeps_the_rows_that_spark_would_keep(one: spark.Filter, kept: list[int]) -> None:
    predicate = to_predicate(one, COLUMNS)

    assert predicate is not None
    numbered = ROWS.append_column("#", pa.array(range(len(ROWS))))
    assert numbered.filter(to_arrow(predicate)).column("#").to_pylist() == kept


@pytest.mark.parametrize(
    "one",
    [
        spark.EqualTo(("nowhere",), 1),
        spark.EqualTo(("pair",), 1),
        spark.EqualTo(("list", "element"), 1),
        spark.EqualTo(("key",), "6BA7B810-9DAD-11D1-80B4-00C04FD430C8"),  # a text, for Spark
        spark.EqualTo(("doc",), "{}"),
        spark.EqualTo(("id",), 1.5),
        spark.EqualTo(("id",), value=True),
        spark.EqualTo(("f",), 0.1),  # which no float is
        spark.EqualTo(("s",), NOON.replace(microsecond=1)),  # which no timestamp_s is
        spark.EqualTo(("at",), NOON.replace(tzinfo=dt.UTC)),
        spark.EqualTo(("tz",), NOON),
        spark.EqualTo(("day",), NOON),
        spark.StringContains(("name",), "50%"),
        spark.StringContains(("doc",), "x"),
    ],
    ids=str,
)
def test_filter_that_might_mean_something_else_is_left_to_spark(one: spark.Filter) -> None:
    assert to_predicate(one, COLUMNS) is None
    assert to_predicate(spark.Not(one), COLUMNS) is None


def test_decimals_and_unsigned_integers_are_compared_exactly() -> None:
    assert to_predicate(spark.EqualTo(("u",), Decimal(2**64 - 1)), COLUMNS) is not None
    assert to_predicate(spark.LessThan(("d",), Decimal("1.001")), COLUMNS) is not None
