"""Partition expressions, which types they take, and the values they give."""

from dataclasses import replace

import mmh3
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ducklake_core.errors import InvalidInput
from ducklake_core.model import ColumnId
from ducklake_core.spec.partition import (
    check_transform,
    missing_parts,
    murmur3_of_longs,
    parse_partition_expression,
    parse_partition_expressions,
    partition_values,
)
from ducklake_core.spec.text import from_text
from tests.fixtures.values import column_of, sample_array


def values_of(type_: str, texts: list[str | None], transform: str) -> list[str | None]:
    column = column_of(type_)
    return list(partition_values(from_text(pa.array(texts, pa.string()), column), column, transform).to_pylist())


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("id", ("id", "identity")),
        ('"my ""id"""', ('my "id"', "identity")),
        ("year(ts)", ("ts", "year")),
        (' MONTH ( "ts" ) ', ("ts", "month")),
        ("day(ts)", ("ts", "day")),
        ("hour(ts)", ("ts", "hour")),
        ("bucket(16, id)", ("id", "bucket(16)")),
        ('Bucket(2147483647,"a b")', ("a b", "bucket(2147483647)")),
    ],
)
def test_partition_expression_names_column_and_transform(text: str, parsed: tuple[str, str]) -> None:
    assert parse_partition_expression(text) == parsed


@pytest.mark.parametrize(
    ("texts", "keys"),
    [
        (["date(ts)"], [("ts", "year"), ("ts", "month"), ("ts", "day")]),
        ([' DATE ( "t s" ) '], [("t s", "year"), ("t s", "month"), ("t s", "day")]),
        (["year(ts)", "date(ts)"], [("ts", "year"), ("ts", "month"), ("ts", "day")]),
        (["id", "date(ts)", "hour(ts)"], [("id", "identity"), *(("ts", p) for p in ("year", "month", "day", "hour"))]),
        (["date(ts)", "day(ts)"], [("ts", "year"), ("ts", "month"), ("ts", "day")]),
        (["year(TS)", "date(ts)"], [("TS", "year"), ("ts", "month"), ("ts", "day")]),
        (["date(ts)", 'DATE("Ts")'], [("ts", "year"), ("ts", "month"), ("ts", "day")]),
        (["id", "ID", "bucket(4, id)"], [("id", "identity"), ("id", "bucket(4)")]),
        (["date"], [("date", "identity")]),
    ],
    ids=str,
)
def test_date_stands_for_year_month_and_day(texts: list[str], keys: list[tuple[str, str]]) -> None:
    assert list(parse_partition_expressions(texts)) == keys


@pytest.mark.parametrize(
    ("transforms", "missing"),
    [
        (["year"], {}),
        (["month"], {"month": ("year",)}),
        (["year", "month"], {}),
        (["month", "year"], {}),
        (["day"], {"day": ("year", "month")}),
        (["year", "day"], {"day": ("month",)}),
        (["hour"], {"hour": ("year", "month", "day")}),
        (["year", "month", "day", "hour"], {}),
        (["identity"], {}),
        (["bucket(3)"], {}),
    ],
    ids=str,
)
def test_parts_of_the_calendar_repeat_without_the_coarser_ones(
    transforms: list[str], missing: dict[str, tuple[str, ...]]
) -> None:
    column = column_of("timestamp")

    found = missing_parts([(column, transform) for transform in transforms])

    assert found == {(column.name, part): parts for part, parts in missing.items()}


def test_hour_of_a_time_without_date_repeats_nothing() -> None:
    assert missing_parts([(column_of("time"), "hour")]) == {}


def test_parts_of_another_column_do_not_help() -> None:
    first, second = column_of("date"), replace(column_of("date"), column_id=ColumnId(99), name="other")

    assert missing_parts([(first, "year"), (second, "month")]) == {("other", "month"): ("year",)}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a b",
        "a + 1",
        "t.a",
        "s.x",
        "identity(a)",
        "truncate(4, a)",
        "bucket(a, 4)",
        "bucket(4)",
        "year(a, b)",
        "bucket(0, a)",
        "bucket(-1, a)",
        "bucket(2147483648, a)",
        '""',
        "year(year(a))",
    ],
)
def test_other_expressions_are_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="cannot partition by"):
        parse_partition_expression(text)


@pytest.mark.parametrize(
    ("type_", "transform"),
    [
        ("int32", "year"),
        ("varchar", "day"),
        ("time", "day"),
        ("boolean", "hour"),
        ("geometry", "identity"),
        ("variant", "bucket(4)"),
        ("time_ns", "bucket(4)"),
        ("int32[]", "bucket(4)"),
        ("int32", "truncate(4)"),
    ],
)
def test_transform_that_a_type_does_not_have_is_refused(type_: str, transform: str) -> None:
    with pytest.raises(InvalidInput, match="cannot partition by"):
        check_transform(column_of(type_), transform)


# Iceberg's published vectors, and where DuckLake differs from them.
@pytest.mark.parametrize(
    ("type_", "text", "hash_"),
    [
        ("int32", "34", 2017239379),
        ("int64", "34", 2017239379),
        ("varchar", "iceberg", 1210000089),
        ("date", "2017-11-16", 1494153226),
        ("uint32", "34", 1719925257),
        ("decimal(9,2)", "14.20", 1525056465),
    ],
)
def test_bucket_is_the_hash_modulo_the_count(type_: str, text: str, hash_: int) -> None:
    assert values_of(type_, [text, None], "bucket(2147483647)") == [str(hash_), None]


@given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=20))
def test_vectorised_murmur_is_the_librarys(values: list[int]) -> None:
    expected = [mmh3.hash(value.to_bytes(8, "little", signed=True), 0, signed=False) for value in values]

    assert murmur3_of_longs(np.array(values, np.int64)).tolist() == expected


def test_calendar_parts_of_infinite_times_are_null() -> None:
    texts = ["2017-11-16 22:31:08.5", "infinity", "-infinity", "0044-03-15 (BC) 10:00:00", None]

    assert values_of("timestamp", texts, "year") == ["2017", None, None, "-43", None]
    assert values_of("timestamp", texts, "month") == ["11", None, None, "3", None]
    assert values_of("timestamp", texts, "day") == ["16", None, None, "15", None]
    assert values_of("timestamp", texts, "hour") == ["22", None, None, "10", None]


def test_zeros_share_a_partition_and_so_do_nans() -> None:
    assert values_of("float64", ["-0.0", "0.0"], "identity") == ["0.0", "0.0"]
    assert len(set(values_of("float32", ["-0.0", "0.0"], "bucket(1000003)"))) == 1
    negative_nan = np.array([float("nan"), -float("nan")])
    assert len(set(partition_values(pa.array(negative_nan), column_of("float64"), "bucket(1000003)").to_pylist())) == 1


@pytest.mark.parametrize("type_", ["int32", "decimal(18,4)", "float32", "varchar", "uuid", "timetz", "timestamptz"])
def test_values_of_a_slice_are_the_slice_of_the_values(type_: str) -> None:
    column, array = column_of(type_), sample_array(type_)

    whole = partition_values(array, column, "bucket(1000)").to_pylist()

    assert partition_values(array[2:], column, "bucket(1000)").to_pylist() == whole[2:]
    chunked = pa.chunked_array([array[:2], array[2:]])
    assert partition_values(chunked, column, "bucket(1000)").to_pylist() == whole
