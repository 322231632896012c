"""How columns are declared in tables of inlined rows, which cannot be there, and what SQLite stores."""

import sqlite3
from contextlib import closing

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ducklake_core.catalog.dbapi.sqlite_rules import SQLITE_RULES
from ducklake_core.catalog.dbapi.values import decode_column, encode_column, encode_rows
from ducklake_core.catalog.postgres.rules import POSTGRES_RULES
from ducklake_core.errors import UnsupportedType
from ducklake_core.spec.inlined import find_uninlinable, find_unreadable, find_unstorable, inlined_type
from ducklake_core.spec.text import to_text
from ducklake_core.spec.types import arrow_schema
from tests.fixtures.values import SCALAR_TYPES, arrays, column_of, columns, raw_array, sample_array


@pytest.mark.parametrize(
    ("type_", "postgresql", "sqlite"),
    [
        ("boolean", "BOOLEAN", "BIGINT"),
        ("int8", "SMALLINT", "BIGINT"),
        ("uint32", "BIGINT", "BIGINT"),
        ("uint64", "VARCHAR", "VARCHAR"),
        ("float64", "DOUBLE PRECISION", "VARCHAR"),
        ("decimal(9,2)", "DECIMAL(9,2)", "VARCHAR"),
        ("varchar", "BYTEA", "VARCHAR"),
        ("blob", "BYTEA", "BLOB"),
        ("date", "VARCHAR", "VARCHAR"),
        ("timetz", "TIME WITH TIME ZONE", "VARCHAR"),
        ("int32[]", "VARCHAR", "VARCHAR"),
    ],
)
def test_declared_types(type_: str, postgresql: str, sqlite: str) -> None:
    assert inlined_type(column_of(type_), POSTGRES_RULES) == postgresql
    assert inlined_type(column_of(type_), SQLITE_RULES) == sqlite


@pytest.mark.parametrize("type_", ["variant", "geometry", "unknown"])
def test_a_type_that_cannot_be_inlined_has_no_declaration(type_: str) -> None:
    with pytest.raises(UnsupportedType, match="price"):
        inlined_type(column_of(type_, "price"), SQLITE_RULES)


@pytest.mark.parametrize(
    ("name", "type_", "postgresql", "sqlite"),
    [
        ("a", "int32", True, True),
        ("Row_Id", "int32", False, False),
        ("begin_snapshot", "int32", False, False),
        ("_ducklake_internal_row_id", "int32", False, False),
        ("a", "struct(row_id int32)", True, True),
        ("a" * 63, "int32", True, True),
        ("a" * 64, "int32", False, True),
        ("é" * 32, "int32", False, True),
        ("a", f"struct({'a' * 64} int32)", True, True),
        ("XMIN", "int32", False, True),
        ("a", "variant", False, False),
        ("a", "struct(b geometry[])", False, False),
        ("a", "time_ns", False, True),
        ("a", "time_ns[]", True, True),
    ],
)
def test_what_can_be_inlined(name: str, type_: str, *, postgresql: bool, sqlite: bool) -> None:
    columns_ = [column_of("int32", "other"), column_of(type_, name)]

    reasons = [find_uninlinable(columns_, rules) for rules in (POSTGRES_RULES, SQLITE_RULES)]

    assert [reason is None for reason in reasons] == [postgresql, sqlite]
    assert all(reason is None or f"'{name}'" in reason for reason in reasons)


@pytest.mark.parametrize(
    ("type_", "readable"),
    [("json", True), ("json[]", False), ("struct(a map(int32, json[]))", False), ("map(json, json)", True)],
)
def test_lists_of_json_are_not_readable_by_duckdb(type_: str, *, readable: bool) -> None:
    assert (find_unreadable([column_of(type_)]) is None) == readable


@pytest.mark.parametrize(
    ("type_", "value", "storable"),
    [
        ("varchar", "a\0b", True),
        ("varchar[]", ["a\0b"], False),
        ("varchar[]", ["ab", None], True),
        ("map(varchar, int32)", [("a\0b", 1)], False),
        ("struct(a struct(b varchar))", {"a": {"b": "a\0b"}}, False),
        ("blob[]", [b"a\0b"], True),
    ],
)
def test_postgresql_stores_no_nul_inside_a_container(type_: str, value: object, *, storable: bool) -> None:
    column = column_of(type_)
    table = pa.Table.from_pylist([{"c": value}], arrow_schema([column]))

    assert (find_unstorable(table, [column], POSTGRES_RULES) is None) == storable
    assert find_unstorable(table, [column], SQLITE_RULES) is None


# --------------------------------------------------------------------------------------------- SQLite


@pytest.mark.parametrize(
    ("type_", "raw", "stored"),
    [
        ("boolean", True, 1),
        ("int8", -5, -5),
        ("uint32", 2**32 - 1, 2**32 - 1),
        ("uint64", 2**64 - 1, "18446744073709551615"),
        ("float64", float("nan"), "nan"),
        ("float32", 1.5, "1.5"),
        ("varchar", "x\0y", "x\0y"),
        ("json", "{}", "{}"),
        ("blob", b"\0", b"\0"),
        ("date", 0, "1970-01-01"),
        ("uuid", bytes(16), "00000000-0000-0000-0000-000000000000"),
    ],
)
def test_what_sqlite_stores(type_: str, raw: object, stored: object) -> None:
    assert encode_column(raw_array([raw, None], type_), column_of(type_), SQLITE_RULES) == [stored, None]


@pytest.mark.parametrize("type_", SCALAR_TYPES)
def test_samples_come_back_from_sqlite(type_: str) -> None:
    column = column_of(type_)
    array = sample_array(type_)
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute(f"CREATE TABLE t (c {inlined_type(column, SQLITE_RULES)})")
        connection.executemany("INSERT INTO t VALUES (?)", encode_rows(pa.table({"c": array}), [column], SQLITE_RULES))

        values = [value for (value,) in connection.execute("SELECT c FROM t ORDER BY rowid")]

    assert to_text(decode_column(values, column, SQLITE_RULES), column).equals(to_text(array, column))


@given(st.data())
def test_any_column_comes_back_from_sqlite(data: st.DataObject) -> None:
    column = data.draw(columns())
    array = data.draw(arrays(column, 3))

    back = decode_column(
        encode_column(pa.chunked_array([array.slice(0, 1), array.slice(1)]), column, SQLITE_RULES), column, SQLITE_RULES
    )

    assert to_text(back, column).equals(to_text(array, column))
