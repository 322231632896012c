"""The extension's statistics of inlined rows, and ours of the same rows, are the same texts."""

import pyarrow as pa

from ducklake_core.model import Column, ColumnId, TableColumnStats, TableStats
from ducklake_core.plan.inlined_rows import inlined_stats
from ducklake_core.plan.statistics import merge_table_stats
from ducklake_core.spec.text import to_text
from ducklake_core.spec.types import build_column, build_columns
from tests.differential.test_text_against_duckdb import (
    EXPRESSIONS,
    node_of_column,
    shapes_of,
    sql_literal,
)
from tests.fixtures.by_hand import duckdb_type
from tests.fixtures.catalogs import Catalog
from tests.fixtures.databases import run
from tests.fixtures.oracle import Oracle
from tests.fixtures.values import SCALAR_TYPES, column_of, sample_array

SHAPES = ("v", "l", "s", "k", "m", "sl", "ls", "ll")


def numbered(columns: list[Column]) -> list[Column]:
    """Give the columns of a table their ids, depth first."""
    made: list[Column] = []
    for column in columns:
        first_id = 1 + sum(1 for earlier in made for _ in earlier.walk())
        made.append(build_column(column.name, node_of_column(column), first_id))
    return made


def insert(oracle: Oracle, number: int, type_: str, shapes: list[str], rows: range) -> None:
    texts = to_text(sample_array(type_), column_of(type_)).to_pylist()
    source = ", ".join(f"({row}, {sql_literal(texts[row])})" for row in rows)
    x = f"SELECT CAST(t AS {duckdb_type(column_of(type_))}) AS x FROM (VALUES {source}) v(n, t) ORDER BY n"
    oracle.execute(f"INSERT INTO t{number} SELECT {', '.join(EXPRESSIONS[name] for name in shapes)} FROM ({x})")


def test_statistics_of_every_type_equal_the_extensions(oracle: Oracle, catalog: Catalog) -> None:
    oracle.attach(catalog.attach, data_path=catalog.data_path, data_inlining_row_limit=1000)
    ours: dict[str, dict[ColumnId, TableColumnStats]] = {}
    for number, type_ in enumerate(SCALAR_TYPES, start=1):
        shapes = {name: pair for name, pair in shapes_of(type_).items() if name in SHAPES}
        if catalog.name == "postgres" and type_ == "time_ns":
            del shapes["v"]  # the extension cannot create such a table
        declared = ", ".join(f"{name} {duckdb_type(column)}" for name, (column, _) in shapes.items())
        oracle.execute(f"CREATE TABLE t{number} ({declared})")
        table = pa.table({name: array for name, (_, array) in shapes.items()})
        columns = numbered([column for column, _ in shapes.values()])
        count = len(table)

        # Two inserts: the first makes the entries, the second widens them, and ends with a null.
        for rows in (range(count // 2), range(count // 2, count)):
            insert(oracle, number, type_, list(shapes), rows)
        first, second = (inlined_stats(part, columns) for part in (table.slice(0, count // 2), table.slice(count // 2)))
        old = merge_table_stats(None, first, columns)
        ours[type_] = merge_table_stats(TableStats(count // 2, 0, 0, old), second, columns)
    oracle.detach()

    for number, type_ in enumerate(SCALAR_TYPES, start=1):
        assert ours[type_] == stored_stats(catalog, number), type_


def stored_stats(catalog: Catalog, table_id: int) -> dict[ColumnId, TableColumnStats]:
    rows = catalog.query(
        "SELECT column_id, contains_null, contains_nan, min_value, max_value, extra_stats"
        f" FROM ducklake_table_column_stats WHERE table_id = {table_id}"
    )
    return {row[0]: TableColumnStats(row[0], bool(row[1]), *row[2:]) for row in rows}


def test_a_first_batch_of_nulls_and_nothing_else(oracle: Oracle, catalog: Catalog) -> None:
    columns = build_columns({"a": "int32", "b": "varchar", "l": "int32[]", "s": "struct(x date)"})
    schema = pa.schema(
        [("a", pa.int32()), ("b", pa.string()), ("l", pa.list_(pa.int32())), ("s", pa.struct({"x": pa.date32()}))]
    )
    table = pa.Table.from_pylist([{"a": None, "b": None, "l": [], "s": None}], schema)
    oracle.attach(catalog.attach, data_path=catalog.data_path, data_inlining_row_limit=1000)
    oracle.execute("CREATE TABLE t (a INTEGER, b VARCHAR, l INTEGER[], s STRUCT(x DATE))")
    oracle.execute("INSERT INTO t VALUES (NULL, NULL, [], NULL)")
    oracle.detach()

    rows = catalog.query(
        "SELECT column_id, contains_null, contains_nan, min_value, max_value FROM ducklake_table_column_stats"
    )

    theirs = {row[0]: TableColumnStats(row[0], bool(row[1]), *row[2:]) for row in rows}
    assert merge_table_stats(None, inlined_stats(table, columns), columns) == theirs


def test_our_bounds_of_strings_with_nul_do_not_mislead_the_extension(oracle: Oracle, catalog: Catalog) -> None:
    """Where the extension itself loses the row: it takes two missing bounds for a column of nulls."""
    columns = build_columns({"a": "varchar"})
    (ours,) = merge_table_stats(None, inlined_stats(pa.table({"a": ["x\0y"]}), columns), columns).values()
    oracle.attach(catalog.attach, data_path=catalog.data_path, data_inlining_row_limit=1000)
    oracle.execute("CREATE TABLE t (a VARCHAR)")
    oracle.execute("INSERT INTO t VALUES ('x' || chr(0) || 'y')")
    oracle.detach()
    run(catalog, f"UPDATE ducklake_table_column_stats SET min_value = {sql_literal(ours.min_value)}")

    oracle.attach(catalog.attach, data_inlining_row_limit=1000)
    oracle.execute("INSERT INTO t VALUES ('m')")

    assert ours.max_value is None
    assert oracle.query("SELECT a FROM t WHERE a > 'w'") == [("x\0y",)]
    assert oracle.query("SELECT max(a), min(a) FROM t") == [("x\0y", "m")]
