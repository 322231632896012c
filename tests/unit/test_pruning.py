"""A file that may hold a row the filter keeps is never left out; one that cannot is."""

from dataclasses import replace
from datetime import date
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ducklake_core.model import (
    Column,
    ColumnId,
    ColumnStats,
    DataFile,
    DataFileId,
    Partitioning,
    PartitionKey,
    SchemaId,
    SnapshotId,
    TableId,
    TableVersion,
)
from ducklake_core.plan.file_facts import transformed_values
from ducklake_core.plan.filter_arrow import to_arrow
from ducklake_core.plan.filter_sql import parse_filter
from ducklake_core.plan.inlined_rows import inlined_stats
from ducklake_core.plan.pruning import may_match
from ducklake_core.spec.partition import partition_values
from ducklake_core.spec.types import arrow_type, build_columns, scalar_arrow_type
from tests.fixtures.filters import COLUMNS, FILTERS, NAMES, TABLES

Stats = dict[ColumnId, ColumnStats]


def make_table(columns: tuple[Column, ...], *transforms: tuple[str, str]) -> TableVersion:
    ids = {column.name: column.column_id for column in columns}
    keys = tuple(PartitionKey(ids[name], transform) for name, transform in transforms)
    return TableVersion(
        TableId(1),
        UUID(int=1),
        SchemaId(0),
        "main",
        "t",
        "t/",
        path_is_relative=True,
        directory="/lake/main/t/",
        columns=columns,
        next_column_id=100,
        partitioning=Partitioning(7, keys) if keys else None,
    )


def make_file(record_count: int, *values: str | None, partition_id: int | None = 7) -> DataFile:
    return DataFile(
        DataFileId(0),
        "/lake/main/t/f.parquet",
        SnapshotId(1),
        record_count,
        1000,
        0,
        partition_id=partition_id,
        partition_values=dict(enumerate(values)),
    )


def stats_of(rows: pa.Table) -> Stats:
    return {stats.column_id: stats for stats in inlined_stats(rows, COLUMNS)}


def forget(stats: Stats, known: int) -> Stats:
    """Leave out what the bits of `known` say: statistics may be missing one by one."""
    fields = ("value_count", "null_count", "min_value", "max_value")
    lost: dict[str, Any] = {name: None for bit, name in enumerate(fields) if not known >> bit & 1}
    return {column_id: replace(one, **lost) for column_id, one in stats.items()}


@settings(max_examples=2 * settings().max_examples)  # many types and operators
@given(rows=TABLES, sql=FILTERS, known=st.integers(0, 15))
def test_a_file_with_a_matching_row_is_kept(rows: pa.Table, sql: str, known: int) -> None:
    predicate = parse_filter(sql, COLUMNS)
    matching = rows.filter(to_arrow(predicate)).num_rows

    kept = may_match(predicate, forget(stats_of(rows), known), make_table(COLUMNS), make_file(len(rows)))

    assert kept or not matching


TRANSFORMS = [
    *((name, "identity") for name in NAMES),
    *((name, "bucket(3)") for name in NAMES),
    *((name, part) for name in "epn" for part in ("year", "month", "day", "hour")),
]


@settings(max_examples=2 * settings().max_examples)  # many types and operators
@given(rows=TABLES, sql=FILTERS, transforms=st.lists(st.sampled_from(TRANSFORMS), min_size=1, max_size=4, unique=True))
def test_a_partition_with_a_matching_row_is_kept(rows: pa.Table, sql: str, transforms: list[tuple[str, str]]) -> None:
    table = make_table(COLUMNS, *transforms)
    predicate = parse_filter(sql, COLUMNS)
    for number in range(len(rows)):
        row = rows.slice(number, 1)
        values = [partition_values(row[n], c, t)[0].as_py() for n, t in transforms if (c := table.column(n))]

        kept = may_match(predicate, {}, table, make_file(1, *values))

        assert kept or not row.filter(to_arrow(predicate)).num_rows


C = ColumnId(1)


def keeps(type_: str, sql: str, stats: ColumnStats, record_count: int = 10) -> bool:
    columns = build_columns({"x": type_})
    return may_match(parse_filter(sql, columns), {C: stats}, make_table(columns), make_file(record_count))


def bounds(low: str | None, high: str | None, *, contains_nan: bool | None = False) -> ColumnStats:
    return ColumnStats(C, value_count=10, null_count=0, min_value=low, max_value=high, contains_nan=contains_nan)


@pytest.mark.parametrize(
    ("type_", "stats", "out"),
    [
        ("int32", bounds("10", "20"), ["x = 9", "x < 10", "x > 20", "x IN (1, 21)", "x = 15.5", "x < -9999999999"]),
        ("int32", bounds("10", "20"), ["NOT x >= 10", "NOT (x < 50 OR x = 3)", "x IS NULL", "x BETWEEN 30 AND 40"]),
        ("int32", bounds("5", "5"), ["x <> 5", "x NOT IN (5, 6)", "x <> 5 OR x IS NULL", "x IS DISTINCT FROM 5"]),
        ("int32", bounds("9", "10"), ["x = 100", "x > 11"]),  # by value, not by text
        ("decimal(9,2)", bounds("-1.50", "10.25"), ["x > 10.25", "x < -1.505"]),
        ("varchar", bounds("b", "d"), ["x = 'a'", "x > 'd'", "x LIKE 'a%'", "x LIKE 'e_'", "x < 'b'"]),
        ("varchar", bounds("a", "é"), ["x = 'ê'", "x = '\U0001f600'"]),
        ("float64", bounds("-1.5", "inf"), ["x < -1.6", "x = 'nan'"]),
        ("float64", bounds("-0.0", "0.0"), ["x > 0.1", "x < -0.1"]),
        ("boolean", bounds("0", "0"), ["x", "x IS TRUE", "NOT (NOT x)"]),
        ("boolean", bounds("true", "true"), ["NOT x", "x = FALSE"]),
        ("date", bounds("2024-01-01", "2024-12-31"), ["x < '2024-01-01'", "x = 'infinity'"]),
        ("timestamp", bounds("2024-01-01", "2024-12-31 10:00:00.5"), ["x > '2024-12-31 10:00:00.500001'"]),
        ("timestamptz", bounds("2024-01-01 00:00:00+00", "2024-01-02 00:00:00+00"), ["x > '2024-01-02 03:00:00+02'"]),
        ("uuid", bounds(str(UUID(int=5)), str(UUID(int=9))), [f"x = '{UUID(int=4)}'", f"x > '{UUID(int=9)}'"]),
        ("time", bounds("10:00:00", "11:00:00"), ["x < '10:00:00'"]),
    ],
)
def test_a_file_whose_bounds_exclude_the_filter_is_left_out(type_: str, stats: ColumnStats, out: list[str]) -> None:
    assert [sql for sql in out if keeps(type_, sql, stats)] == []


@pytest.mark.parametrize(
    ("type_", "sql", "stats"),
    [
        pytest.param("int32", "x = 5", bounds(None, None), id="no-bounds"),
        pytest.param("int32", "x = 5", bounds("?", "!"), id="unparsable"),
        pytest.param("int32", "x = 1", bounds("false", "true"), id="boolean-that-became-an-integer"),
        pytest.param("float64", "x > 3", bounds("1", "2", contains_nan=None), id="maybe-nan-is-the-greatest"),
        pytest.param("float64", "x = 'nan'", bounds("1", "2", contains_nan=True), id="nan"),
        pytest.param("float64", "x < 3", bounds("nan", "nan", contains_nan=None), id="nan-as-bound-says-nothing"),
        # The text of the float32 0.1, whose value as a double is greater.
        pytest.param("float64", "x > 0.1000000001", bounds("0", "0.1"), id="float32-that-became-float64"),
        pytest.param("float32", "x = 16777216", bounds("16777217", "16777217"), id="integer-that-became-float32"),
        pytest.param("timestamptz", "x < '2024-01-01'", bounds("2024-01-01", "2024-01-02"), id="no-zone-in-the-text"),
        pytest.param("blob", "x = 'a'::BLOB", bounds("00", "01"), id="blob"),
        pytest.param("json", "x = '5'", bounds("10", "9"), id="number-that-became-json"),
        pytest.param("varchar", "x LIKE '%a'", bounds("b", "c"), id="like-without-prefix"),
        pytest.param("varchar", "x LIKE 'ab%'", bounds("abz", "b"), id="like-inside"),
        pytest.param("varchar", "x NOT LIKE 'z%'", bounds("a", "b"), id="not-like"),
        pytest.param("interval", "x IS NOT NULL", ColumnStats(C, 0, 0), id="counts-that-were-not-counted"),
        pytest.param("int32", "x IS NULL", ColumnStats(C, 5, 0), id="counts-that-do-not-add-up"),
    ],
)
def test_what_the_statistics_do_not_say_is_kept(type_: str, sql: str, stats: ColumnStats) -> None:
    assert keeps(type_, sql, stats)


@pytest.mark.parametrize("sql", ["x = 1", "x <> 1", "NOT x = 1", "x < 99999999999", "x IS NOT NULL", "x IN (1, 2)"])
def test_a_column_of_nulls_matches_only_is_null(sql: str) -> None:
    nulls = ColumnStats(C, value_count=0, null_count=10)

    assert not keeps("int32", sql, nulls)
    assert keeps("int32", "x IS NULL", nulls)
    assert keeps("int32", "x IS DISTINCT FROM 1", nulls)


def test_fields_are_compared_by_their_ranges() -> None:
    columns = build_columns({"x": "int32", "y": "int64"})
    stats = {C: bounds("1", "5"), ColumnId(2): replace(bounds("10", "20"), column_id=ColumnId(2))}

    results = {sql: may_match(parse_filter(sql, columns), stats, make_table(columns), make_file(10)) for sql in FIELDS}

    assert results == FIELDS


FIELDS = {"x < y": True, "x = y": False, "x > y": False, "y > x": True, "NOT x < y": False, "x <> y": True}


def keeps_partition(type_: str, transforms: list[str], values: list[str | None], sql: str) -> bool:
    columns = build_columns({"x": type_})
    table = make_table(columns, *(("x", transform) for transform in transforms))
    return may_match(parse_filter(sql, columns), {}, table, make_file(10, *values))


@pytest.mark.parametrize(
    ("type_", "transforms", "values", "sql"),
    [
        ("int32", ["identity"], ["5"], "x = 6"),
        ("int32", ["identity"], ["5"], "x IS NULL"),
        ("int32", ["identity"], [None], "x = 6"),
        ("varchar", ["identity"], ["a"], "x > 'a'"),
        ("timestamp", ["year"], ["2017"], "x >= '2018-01-01'"),
        ("timestamp", ["year"], ["2017"], "x < '2017-01-01'"),
        ("date", ["year", "month"], ["2017", "12"], "x >= '2018-01-01'"),
        ("date", ["year", "month"], ["2017", "11"], "x = '2017-12-01'"),
        ("timestamp", ["year", "month", "day"], ["2017", "11", "30"], "x >= '2017-12-01'"),
        ("timestamp", ["year", "month", "day", "hour"], ["2017", "11", "30", "23"], "x < '2017-11-30 23:00:00'"),
        ("date", ["month"], ["11"], "x = '2017-12-01'"),
        ("timestamp", ["hour"], ["5"], "x IN ('2017-12-01 06:00:00', '2017-12-01 07:00:00')"),
    ],
)
def test_a_partition_that_excludes_the_filter_is_left_out(
    type_: str, transforms: list[str], values: list[str | None], sql: str
) -> None:
    assert not keeps_partition(type_, transforms, values, sql)


@pytest.mark.parametrize(
    ("type_", "transforms", "values", "sql"),
    [
        ("timestamp", ["year"], ["2017"], "x > '2017-12-31 23:59:59'"),
        ("date", ["month"], ["11"], "x > '2017-12-01'"),
        ("date", ["year"], [None], "x = 'infinity'"),
        ("date", ["year", "day"], ["2017", "5"], "x = '2017-03-05'"),
        ("timestamptz", ["year"], ["2017"], "x = '2018-01-01 00:00:00+00'"),
        ("float64", ["bucket(1000)"], ["999"], "x = 1"),
        ("varchar", ["bucket(4)"], ["1"], "x > 'a'"),
        ("varchar", ["identity"], ["?"], "x IS NOT NULL"),
    ],
)
def test_a_partition_that_does_not_exclude_the_filter_is_kept(
    type_: str, transforms: list[str], values: list[str | None], sql: str
) -> None:
    assert keeps_partition(type_, transforms, values, sql)


@pytest.mark.parametrize("type_", ["int8", "int32", "int64", "uint8", "uint64", "varchar", "uuid", "date", "boolean"])
def test_buckets_leave_out_most_files_of_other_values(type_: str) -> None:
    literal = {"uuid": f"'{UUID(int=77)}'", "date": "'2024-01-01'", "varchar": "'7'", "boolean": "TRUE"}.get(type_, "7")

    kept = [b for b in range(100) if keeps_partition(type_, ["bucket(100)"], [str(b)], f"x = {literal}")]

    assert 1 <= len(kept) <= 2


@pytest.mark.parametrize("old", ["uint16", "int16", "boolean"])
def test_a_bucket_of_the_type_before_a_promotion_is_kept(old: str) -> None:
    column = Column(C, "x", old)
    written = partition_values(pa.array([1]).cast(scalar_arrow_type(old)), column, "bucket(9999)")

    assert keeps_partition("int32", ["bucket(9999)"], [written[0].as_py()], "x = 1")


def test_a_file_of_an_older_partitioning_is_kept() -> None:
    columns = build_columns({"x": "int32"})
    table = make_table(columns, ("x", "identity"))

    assert may_match(parse_filter("x = 6", columns), {}, table, make_file(10, "5", partition_id=3))


@pytest.mark.parametrize(
    ("type_", "transform", "values"),
    [
        *((name, "bucket(50)", [1, 5, 100]) for name in ("int8", "int64", "uint8", "uint64")),
        ("int64", "bucket(50)", [-1, 7]),
        ("uint64", "bucket(50)", [2**63 + 1, 7]),
        ("varchar", "bucket(50)", ["a", "b"]),
        ("uuid", "bucket(50)", [bytes(16), bytes(range(16))]),
        ("date", "month", [date(2024, 1, 1), date(2024, 5, 1)]),
    ],
)
def test_partition_values_of_many_are_those_of_each(type_: str, transform: str, values: list[Any]) -> None:
    [column] = build_columns({"x": type_})
    array = pa.array(values, arrow_type(column))
    of_each = [transformed_values(column, transform, array.slice(i, 1)) or set() for i in range(len(values))]

    assert transformed_values(column, transform, array) == set().union(*of_each)
    texts = partition_values(array, column, transform).to_pylist()
    assert all(text in one for text, one in zip(texts, of_each, strict=True))


def test_values_that_are_in_every_bucket_say_nothing() -> None:
    [column] = build_columns({"x": "int64"})
    assert len(transformed_values(column, "bucket(10)", pa.array(range(200))) or ()) == 10
    assert transformed_values(column, "bucket(10)", pa.array(range(201))) is None
