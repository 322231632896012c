"""A filter keeps the rows that DuckDB keeps."""

from collections.abc import Iterator

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, reject, settings

from ducklake_core.plan.filter_arrow import to_arrow
from ducklake_core.plan.filter_sql import parse_filter
from tests.fixtures.filters import COLUMNS, FILTERS, TABLES


@pytest.fixture(scope="module")
def duck() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(config={"threads": 1}) as connection:
        yield connection


def kept_by_duckdb(duck: duckdb.DuckDBPyConnection, rows: pa.Table, sql: str) -> list[int]:
    numbered = rows.append_column("row_number", pa.array(range(len(rows)), pa.int64()))  # noqa: F841 # read by name
    # A copy: DuckDB would let Arrow itself apply the filter to an Arrow table.
    duck.execute("CREATE OR REPLACE TEMP TABLE rows AS SELECT * FROM numbered")
    try:
        kept = duck.execute(f"SELECT row_number FROM rows WHERE {sql} ORDER BY 1").fetchall()
    except duckdb.ConversionException:
        reject()  # DuckDB has no common type wide enough for the column and the literal; we compare exactly
    return [number for (number,) in kept]


def kept_by_us(rows: pa.Table, sql: str) -> list[int]:
    numbered = rows.append_column("row_number", pa.array(range(len(rows)), pa.int64()))
    kept: list[int] = numbered.filter(to_arrow(parse_filter(sql, COLUMNS)))["row_number"].to_pylist()
    return kept


@settings(max_examples=4 * settings().max_examples)  # many types and operators
@given(rows=TABLES, sql=FILTERS)
def test_random_filters_keep_the_same_rows(duck: duckdb.DuckDBPyConnection, rows: pa.Table, sql: str) -> None:
    assert kept_by_us(rows, sql) == kept_by_duckdb(duck, rows, sql)
    # What is neither kept by a filter nor by its contrary is NULL.
    assert kept_by_us(rows, f"NOT ({sql})") == kept_by_duckdb(duck, rows, f"NOT ({sql})")
