"""Inlined values are the same whatever settings the server, the database, the role or another client has made."""

from pathlib import Path

import psycopg
import pyarrow as pa
import pytest
from psycopg import sql

from ducklake_core import Lake
from tests.fixtures.postgres import PostgresDatabase, PostgresServer
from tests.fixtures.values import SCALAR_TYPES, sample_array

# What decides how PostgreSQL writes values as text and reads them, and what a transaction is where nothing is said.
SETTINGS = {
    "IntervalStyle": "iso_8601",
    "DateStyle": "German, YMD",
    "TimeZone": "Asia/Kathmandu",
    "extra_float_digits": "-15",
    "bytea_output": "escape",
    "standard_conforming_strings": "off",
    "default_transaction_isolation": "serializable",
    "default_transaction_deferrable": "on",
    "array_nulls": "off",
}


@pytest.fixture
def odd_database(postgres_server: PostgresServer, postgres_database: PostgresDatabase) -> PostgresDatabase:
    """Give a database whose settings are all others than the usual ones."""
    with psycopg.connect(postgres_server.maintenance.conninfo, autocommit=True) as connection:
        for name, value in SETTINGS.items():
            words = sql.Identifier(postgres_database.name), sql.Identifier(name), sql.Literal(value)
            connection.execute(sql.SQL("ALTER DATABASE {} SET {} = {}").format(*words))
    return postgres_database


@pytest.mark.parametrize("times", [1, 30], ids=["few rows", "many rows"])
def test_inlined_values_do_not_depend_on_settings(odd_database: PostgresDatabase, tmp_path: Path, times: int) -> None:
    """Few rows are sent as an array, many as a COPY; readers and the flush have a way each."""
    arrays = {type_: pa.concat_arrays([sample_array(type_)] * times) for type_ in SCALAR_TYPES}
    names = [f"t{number}" for number in range(len(arrays))]
    with Lake.create(odd_database.url, f"{tmp_path}/data") as lake:
        lake.set_option("data_inlining_row_limit", 1000)
        for name, (type_, array) in zip(names, arrays.items(), strict=True):
            lake.create_table(name, {"c": type_})
            lake.append(name, pa.table({"c": array}))
        inlined = [shown(lake.table(name).read()["c"]) for name in names]
        lake.flush_inlined()
        flushed = [shown(lake.table(name).read()["c"]) for name in names]

    written = [shown(pa.chunked_array([array])) for array in arrays.values()]
    assert dict(zip(arrays, inlined, strict=True)) == dict(zip(arrays, written, strict=True))
    assert dict(zip(arrays, flushed, strict=True)) == dict(zip(arrays, written, strict=True))


def shown(column: pa.ChunkedArray) -> str:
    """Return all values as text: NaN is equal to NaN, and times may be beyond those of Python."""
    return str(pa.concat_arrays(column.chunks).to_string(window=10**6))
