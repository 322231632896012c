"""Tables of inlined rows are declared as the extension declares them, and missing where it makes none."""

import pytest

from ducklake_core.catalog.dbapi.sqlite_rules import SQLITE_RULES
from ducklake_core.catalog.postgres.rules import POSTGRES_RULES
from ducklake_core.model import Column
from ducklake_core.spec.inlined import find_uninlinable, inlined_type
from tests.fixtures.by_hand import duckdb_type
from tests.fixtures.catalogs import Catalog, SqliteCatalog
from tests.fixtures.databases import run
from tests.fixtures.oracle import Oracle, OracleError
from tests.fixtures.values import SCALAR_TYPES, column_of

RULES = {"sqlite": SQLITE_RULES, "postgres": POSTGRES_RULES}


def declared_types(catalog: Catalog, table: str) -> list[str]:
    if isinstance(catalog, SqliteCatalog):
        return [type_ for (type_,) in catalog.query(f"SELECT type FROM pragma_table_info('{table}') ORDER BY cid")]
    rows = catalog.query(
        "SELECT format_type(atttypid, atttypmod) FROM pg_attribute"
        f" WHERE attrelid = '{table}'::regclass AND attnum > 0 ORDER BY attnum"
    )
    return [type_ for (type_,) in rows]


def test_every_type_is_declared_as_the_extension_does(oracle: Oracle, catalog: Catalog) -> None:
    types = (*SCALAR_TYPES, "int32[]", "struct(a time_ns)", "map(varchar, blob)")
    columns = [column_of(type_, f"c{i}") for i, type_ in enumerate(types)]
    columns = [c for c in columns if find_uninlinable([c], RULES[catalog.name]) is None]
    oracle.attach(catalog.attach, data_path=catalog.data_path, data_inlining_row_limit=10)
    oracle.execute(f"CREATE TABLE t ({', '.join(f'{c.name} {duckdb_type(c)}' for c in columns)})")
    oracle.detach()

    ours = ["BIGINT"] * 3 + [inlined_type(column, RULES[catalog.name]) for column in columns]
    run(catalog, f"CREATE TABLE mine ({', '.join(f'c{i} {type_}' for i, type_ in enumerate(ours))})")

    assert declared_types(catalog, "mine") == declared_types(catalog, "ducklake_inlined_data_1_1")


@pytest.mark.parametrize(
    ("name", "type_"),
    [
        ("a", "int32"),
        ("a", "variant"),
        ("a", "struct(b variant)"),
        ("a", "geometry"),
        ("a", "struct(row_id int32)"),
        ("a" * 63, "int32"),
        ("a" * 64, "int32"),
        ("é" * 32, "int32"),
        ("oid", "int32"),
        ("rowid", "int32"),
        ("a", "time_ns"),
        ("a", "time_ns[]"),
        ("xmin", "int32"),
        ("Row_Id", "int32"),
        ("_ducklake_internal_snapshot_id", "int32"),
    ],
)
def test_what_cannot_be_inlined_is_not_by_the_extension(
    oracle: Oracle, catalog: Catalog, name: str, type_: str
) -> None:
    column = column_of(type_, name)

    inlined = has_inlined_table(oracle, catalog, column)

    assert inlined == (find_uninlinable([column], RULES[catalog.name]) is None)


def has_inlined_table(oracle: Oracle, catalog: Catalog, column: Column) -> bool:
    """Tell whether the extension makes a table of inlined rows; where there cannot be one, it may fail to make any."""
    oracle.execute("SET ducklake_max_retry_count = 1")
    oracle.attach(catalog.attach, data_path=catalog.data_path, data_inlining_row_limit=10)
    try:
        oracle.execute(f'CREATE TABLE t ("{column.name}" {duckdb_type(column)})')
    except OracleError:
        return False
    finally:
        oracle.detach()
    return catalog.query("SELECT count(*) FROM ducklake_inlined_data_tables") == [(1,)]
