"""Our text of values is DuckDB's, DuckDB reads our nested text, and we read what its extension stored inlined."""

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from itertools import accumulate
from typing import Any

import duckdb
import numpy as np
import psycopg
import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ducklake_core.catalog.dbapi import values as dbapi_values
from ducklake_core.catalog.dbapi.sqlite_rules import SQLITE_RULES
from ducklake_core.catalog.postgres import encode
from ducklake_core.catalog.postgres.encode import constant_cells, copy_buffer, int64_cells
from ducklake_core.model import Column
from ducklake_core.spec.arrays import list_members
from ducklake_core.spec.inlined import find_unreadable
from ducklake_core.spec.text import from_text, to_text
from ducklake_core.spec.types import TypeNode, arrow_type, build_column
from tests.fixtures.by_hand import duckdb_type
from tests.fixtures.catalogs import Catalog, PostgresCatalog, SqliteCatalog
from tests.fixtures.copied import read_copied
from tests.fixtures.databases import run
from tests.fixtures.oracle import Oracle
from tests.fixtures.values import SCALAR_TYPES, arrays, column_of, columns, sample_array, type_nodes

# Arrow cannot carry these into DuckDB: decimals of 256 bits, and times with an offset or (in DuckDB 1.5) nanoseconds.
NOT_EXCHANGED = ("int128", "uint128", "timetz", "time_ns")


@pytest.fixture(scope="module")
def db() -> Iterator[duckdb.DuckDBPyConnection]:
    """Give DuckDB in this process: for casts, no lake is touched."""
    with duckdb.connect() as connection:
        yield connection


def cast_texts(db: duckdb.DuckDBPyConnection, expression: str, table: pa.Table) -> list[Any]:  # Any: what DuckDB gives
    db.register("given", table)
    return [text for (text,) in db.execute(f"SELECT {expression} FROM given").fetchall()]


@pytest.mark.parametrize("type_", [t for t in SCALAR_TYPES if t not in NOT_EXCHANGED])
def test_text_of_a_value_is_duckdbs(db: duckdb.DuckDBPyConnection, type_: str) -> None:
    array = sample_array(type_)

    theirs = cast_texts(db, "CAST(c AS VARCHAR)", pa.table({"c": array}))

    assert to_text(array, column_of(type_)).to_pylist() == theirs


@pytest.mark.parametrize("type_", SCALAR_TYPES)
def test_duckdb_reads_our_text_and_writes_the_same(db: duckdb.DuckDBPyConnection, type_: str) -> None:
    texts = to_text(sample_array(type_), column_of(type_))

    theirs = cast_texts(db, f"CAST(CAST(c AS {duckdb_type(column_of(type_))}) AS VARCHAR)", pa.table({"c": texts}))

    assert theirs == texts.to_pylist()


# A map's keys must differ in DuckDB: maps are tried with chosen values below.
@given(st.data())
def test_duckdb_reads_our_nested_text(db: duckdb.DuckDBPyConnection, data: st.DataObject) -> None:
    column = data.draw(columns(type_nodes().filter(lambda node: node.fields and not has_map(node))))
    texts = to_text(data.draw(arrays(column, 3)), column)
    assume(find_unreadable([column]) is None)

    # DuckDB's own nested text has blanks and bare words; as an element of a list it cannot be taken for SQL literals.
    theirs = cast_texts(db, f"CAST([CAST(c AS {duckdb_type(column)})] AS VARCHAR)", pa.table({"c": texts}))

    listed = build_column("c", TypeNode("list", (("element", node_of_column(column)),)), 1)
    back = from_text(pa.array(theirs, pa.string()), listed)
    assert to_text(list_members(back)[0], column).equals(texts)


def node_of_column(column: Column) -> TypeNode:
    return TypeNode(column.type, tuple((child.name, node_of_column(child)) for child in column.children))


def has_map(node: object) -> bool:
    return "type='map'" in repr(node)


@pytest.mark.parametrize("type_", SCALAR_TYPES)
def test_duckdb_reads_our_text_of_every_type_in_every_container(db: duckdb.DuckDBPyConnection, type_: str) -> None:
    for name, (column, array) in shapes_of(type_).items():
        if find_unreadable([column]) is not None:
            continue  # DuckDB takes a list of JSON values for JSON: such rows are not inlined
        given_ = pa.table({"t": to_text(sample_array(type_), column_of(type_)), "c": to_text(array, column)})
        value = EXPRESSIONS[name].replace("x", f"CAST(t AS {duckdb_type(column_of(type_))})")

        same = cast_texts(db, f"CAST(c AS {duckdb_type(column)}) IS NOT DISTINCT FROM {value}", given_)

        assert same == [True] * len(array), (name, to_text(array, column))


# ------------------------------------------------------------------------------------- every container

# How DuckDB makes them of a value x.
EXPRESSIONS = {
    "v": "x",
    "l": "[x, NULL]",
    "s": """{'a': x, 'it''s': NULL}""",
    "k": "CASE WHEN x IS NOT NULL THEN map([x], [1]) END",
    "m": "map(['k'], [x])",
    "sl": "{'a': [x, NULL]}",
    "ls": "[{'a': x}, NULL]",
    "ss": "{'a': {'a': x}}",
    "ms": "map(['k'], [{'a': x}])",
    "ll": "[[x], [], NULL]",
}


def shapes_of(type_: str) -> dict[str, tuple[Column, pa.Array]]:
    """Return a column and an array for every expression, one row per sample of the type and one of null."""
    x = sample_array(type_)
    rows = len(x)
    k = pa.array(["k"] * rows)
    with_null = x.take(pa.array([index for row in range(rows) for index in (row, None)], pa.int32()))
    structs = struct("struct(a T)", type_, x)
    structs_and_null = structs.take(pa.array([i for row in range(rows) for i in (row, None)], pa.int32()))
    lists = lists_of("T[]", type_, [2] * rows, with_null)
    singles = lists_of("T[]", type_, [1, 0, 0] * rows, x, mask=[False, False, True] * rows)
    keyed = [1] * (rows - 1) + [0]
    ones = pa.array([1] * (rows - 1), pa.int32())
    arrays_ = {
        "v": ("T", x),
        "l": ("T[]", lists),
        "s": ('struct(a T, "it\'s" T)', struct('struct(a T, "it\'s" T)', type_, x, pa.nulls(rows, x.type))),
        "k": ("map(T, int32)", maps_of("map(T, int32)", type_, keyed, x.slice(0, rows - 1), ones)),
        "m": ("map(varchar, T)", maps_of("map(varchar, T)", type_, [1] * rows, k, x)),
        "sl": ("struct(a T[])", struct("struct(a T[])", type_, lists)),
        "ls": ("struct(a T)[]", lists_of("struct(a T)[]", type_, [2] * rows, structs_and_null)),
        "ss": ("struct(a struct(a T))", struct("struct(a struct(a T))", type_, structs)),
        "ms": ("map(varchar, struct(a T))", maps_of("map(varchar, struct(a T))", type_, [1] * rows, k, structs)),
        "ll": ("T[][]", lists_of("T[][]", type_, [3] * rows, singles)),
    }
    return {name: (shape(text, type_, name), array) for name, (text, array) in arrays_.items()}


def shape(text: str, type_: str, name: str = "c") -> Column:
    return column_of(text.replace("T", type_), name)


def struct(text: str, type_: str, *fields: pa.Array) -> pa.Array:
    return pa.StructArray.from_arrays(fields, fields=list(arrow_type(shape(text, type_))))


def lists_of(text: str, type_: str, lengths: list[int], values: pa.Array, mask: list[bool] | None = None) -> pa.Array:
    offsets = pa.array([0, *accumulate(lengths)], pa.int32())
    nulls = None if mask is None else pa.array(mask)
    return pa.ListArray.from_arrays(offsets, values, type=arrow_type(shape(text, type_)), mask=nulls)


def maps_of(text: str, type_: str, lengths: list[int], keys: pa.Array, values: pa.Array) -> pa.Array:
    offsets = pa.array([0, *accumulate(lengths)], pa.int32())
    mask = pa.array([length == 0 for length in lengths])
    return pa.MapArray.from_arrays(offsets, keys, values, type=arrow_type(shape(text, type_)), mask=mask)


# ------------------------------------------------------------------------------- the extension's rows


def inlinable_shapes(type_: str, catalog: Catalog) -> dict[str, tuple[Column, pa.Array]]:
    shapes = shapes_of(type_)
    if catalog.name == "postgres" and type_ == "time_ns":
        del shapes["v"]  # PostgreSQL has no such type: the extension cannot even create the table
    return shapes


def values_of(type_: str) -> str:
    """Return a SELECT of the samples of a type as x, in order."""
    texts = to_text(sample_array(type_), column_of(type_)).to_pylist()
    source = ", ".join(f"({number}, {sql_literal(text)})" for number, text in enumerate(texts))
    return f"SELECT n, CAST(t AS {duckdb_type(column_of(type_))}) AS x FROM (VALUES {source}) v(n, t) ORDER BY n"


def sql_literal(text: str | None) -> str:
    return "NULL" if text is None else "'" + text.replace("'", "''") + "'"


def create_table(oracle: Oracle, number: int, columns_: Iterable[Column]) -> str:
    """Create the lake's table of that number, counted from 1, and return the name of its inlined table."""
    oracle.execute(f"CREATE TABLE t{number} ({', '.join(f'{c.name} {duckdb_type(c)}' for c in columns_)})")
    return f"ducklake_inlined_data_{number}_{number}"


def test_we_read_what_the_extension_inlined(oracle: Oracle, catalog: Catalog) -> None:
    shapes = {type_: inlinable_shapes(type_, catalog) for type_ in SCALAR_TYPES}
    oracle.attach(catalog.attach, data_path=catalog.data_path, data_inlining_row_limit=1000)
    inlined: dict[str, str] = {}
    for number, type_ in enumerate(SCALAR_TYPES, start=1):
        inlined[type_] = create_table(oracle, number, [column for column, _ in shapes[type_].values()])
        made = ", ".join(EXPRESSIONS[name] for name in shapes[type_])
        oracle.execute(f"INSERT INTO t{number} SELECT {made} FROM ({values_of(type_)})")
    oracle.detach()

    for type_, table in inlined.items():
        for name, (column, array) in shapes[type_].items():
            assert to_text(decode(catalog, table, column), column).equals(to_text(array, column)), (type_, name)


def decode(catalog: Catalog, table: str, column: Column) -> pa.Array:
    """Read a column of an inlined table in the way a reader does."""
    match catalog:
        case SqliteCatalog():
            rows = catalog.query(f"SELECT {column.name} FROM {table} ORDER BY row_id")
            return dbapi_values.decode_column([value for (value,) in rows], column, SQLITE_RULES)
        case PostgresCatalog():
            with psycopg.connect(catalog.database.conninfo) as connection:
                return read_copied(connection, table, column, "row_id")


def test_the_extension_reads_what_we_inlined(oracle: Oracle, catalog: Catalog) -> None:
    oracle.attach(catalog.attach, data_path=catalog.data_path, data_inlining_row_limit=1000)
    shapes: dict[str, dict[str, tuple[Column, pa.Array]]] = {}
    for number, type_ in enumerate(SCALAR_TYPES, start=1):
        every = inlinable_shapes(type_, catalog)
        shapes[type_] = {name: pair for name, pair in every.items() if find_unreadable([pair[0]]) is None}
        create_table(oracle, number, [column for column, _ in shapes[type_].values()])
        nulls = ", ".join(["NULL"] * len(shapes[type_]))
        oracle.execute(f"INSERT INTO t{number} SELECT {nulls} FROM range({len(sample_array(type_))})")
    oracle.detach()

    for number, type_ in enumerate(SCALAR_TYPES, start=1):
        replace_rows(catalog, f"ducklake_inlined_data_{number}_{number}", list(shapes[type_].values()))
    run(catalog, "UPDATE ducklake_table_column_stats SET min_value = NULL, max_value = NULL, contains_null = NULL")

    oracle.attach(catalog.attach)
    for number, type_ in enumerate(SCALAR_TYPES, start=1):
        same = " AND ".join(f"t{number}.{name} IS NOT DISTINCT FROM {EXPRESSIONS[name]}" for name in shapes[type_])
        matching = f"SELECT count(*) FROM t{number} JOIN ({values_of(type_)}) ON n = t{number}.rowid WHERE {same}"
        assert oracle.query(matching) == [(len(sample_array(type_)),)], type_


def replace_rows(catalog: Catalog, table: str, columns_: list[tuple[Column, pa.Array]]) -> None:
    """Put our encoding of the arrays in the place of the rows of an inlined table."""
    rows = len(columns_[0][1])
    match catalog:
        case SqliteCatalog():
            arrow = pa.table([array for _, array in columns_], names=[column.name for column, _ in columns_])
            encoded = dbapi_values.encode_rows(arrow, [column for column, _ in columns_], SQLITE_RULES)
            marks = ", ".join("?" * len(columns_))
            names = ", ".join(column.name for column, _ in columns_)
            statement = f"UPDATE {table} SET ({names}) = ({marks}) WHERE row_id = ?"
            with closing(sqlite3.connect(catalog.path)) as connection, connection:
                connection.executemany(statement, [(*row, number) for number, row in enumerate(encoded)])
        case PostgresCatalog():
            ((snapshot,),) = catalog.query(f"SELECT DISTINCT begin_snapshot FROM {table}")
            cells = [int64_cells(np.arange(rows)), constant_cells(snapshot, rows), constant_cells(None, rows)]
            cells += [encode.encode_column(array, column) for column, array in columns_]
            with psycopg.connect(catalog.database.conninfo) as client, client.cursor() as cursor:
                cursor.execute(f"DELETE FROM {table}".encode())
                with cursor.copy(f"COPY {table} FROM STDIN (FORMAT binary)".encode()) as copy:
                    copy.write(copy_buffer(cells))
