"""The tables of `docs/write-a-stream.md` say what the code does."""

import re
from pathlib import Path

from pyspark.sql import types as T  # noqa: N812 # Spark's own convention

from ducklake_core import errors
from ducklake_sinks.spark_types import lake_schema

PAGE = (Path(__file__).parents[2] / "docs" / "write-a-stream.md").read_text()
SPARK_TYPES = (
    T.BooleanType(),
    T.ByteType(),
    T.ShortType(),
    T.IntegerType(),
    T.LongType(),
    T.FloatType(),
    T.DoubleType(),
    T.DecimalType(9, 2),
    T.StringType(),
    T.CharType(4),
    T.VarcharType(4),
    T.BinaryType(),
    T.DateType(),
    T.TimestampType(),
    T.TimestampNTZType(),
    T.TimeType(),
    T.DayTimeIntervalType(),
    T.YearMonthIntervalType(),
    T.CalendarIntervalType(),
    T.ArrayType(T.IntegerType()),
    T.MapType(T.StringType(), T.IntegerType()),
    T.StructType([T.StructField("a", T.IntegerType())]),
)


def test_the_table_of_spark_types_is_what_the_code_does() -> None:
    expected = [(f"`{t.simpleString()}`", f"`{lake_schema(_column(t))['c']}`") for t in SPARK_TYPES]

    assert table("Spark") == expected


def test_errors_on_the_page_exist() -> None:
    named = [cell.strip("`") for cell, _ in table("error")]

    assert [name for name in named if not hasattr(errors, name)] == []


def table(heading: str) -> list[tuple[str, str]]:
    """Return the first two cells of each row of the table whose first column has this heading."""
    found = re.search(rf"^\| {heading} \|.*\n\|[ |-]+\n((?:\|.*\n)+)", PAGE, re.MULTILINE)
    assert found is not None
    rows = [line.strip("| ").split(" | ") for line in found[1].splitlines()]
    return [(row[0], row[1]) for row in rows]


def _column(type_: T.DataType) -> T.StructType:
    return T.StructType([T.StructField("c", type_)])
