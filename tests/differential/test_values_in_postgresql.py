"""PostgreSQL takes our binary cells, by COPY and as array parameters, and gives the values back."""

import psycopg
import pyarrow as pa
import pytest
from psycopg import sql

from ducklake_core.catalog.postgres_values import (
    array_parameter,
    copy_buffer,
    encode_column,
    postgres_type,
)
from ducklake_core.spec.inlined import inlined_type
from ducklake_core.spec.text import to_text
from tests.fixtures.copied import read_copied
from tests.fixtures.postgres import PostgresDatabase
from tests.fixtures.values import SCALAR_TYPES, column_of, sample_array

COLUMNS = [column_of(type_, f"c{i}") for i, type_ in enumerate(SCALAR_TYPES) if type_ != "time_ns"]
COLUMNS += [column_of("struct(a varchar[])", "s"), column_of("map(varchar, date)", "m")]
ROWS = 13


def arrays_of(*, nullable: bool) -> list[pa.Array]:
    """Return the samples of every type, repeated to the same number of rows."""
    samples = [sample_array(column.type) for column in COLUMNS[:-2]]
    samples += [
        pa.array([{"a": ["it's", None]}, None]),
        pa.array([[("k", 0)], None], pa.map_(pa.string(), pa.date32())),
    ]
    if not nullable:
        samples = [array.filter(array.is_valid()) for array in samples]
    return [array.take(pa.array([i % len(array) for i in range(ROWS)])) for array in samples]


def create_table(connection: psycopg.Connection) -> None:
    declared = sql.SQL(", ").join(
        sql.SQL("{} {}").format(sql.Identifier(c.name), sql.SQL(inlined_type(c, "postgresql"))) for c in COLUMNS
    )
    connection.execute(sql.SQL("CREATE TABLE t ({})").format(declared))


@pytest.mark.parametrize("nullable", [True, False], ids=["nulls", "no nulls"])
@pytest.mark.parametrize("way", ["copy", "arrays"])
def test_every_type_survives(postgres_database: PostgresDatabase, way: str, *, nullable: bool) -> None:
    arrays = arrays_of(nullable=nullable)
    cells = [encode_column(array, column) for array, column in zip(arrays, COLUMNS, strict=True)]
    with psycopg.connect(postgres_database.conninfo) as connection:
        create_table(connection)

        if way == "copy":
            with connection.cursor().copy("COPY t FROM STDIN (FORMAT binary)") as copy:
                copy.write(copy_buffer(cells))
        else:
            types = [postgres_type(column) for column in COLUMNS]
            marks = ", ".join(f"${i + 1}" for i in range(len(cells)))
            result = connection.pgconn.exec_params(
                f"INSERT INTO t SELECT * FROM unnest({marks})".encode(),
                [array_parameter(one, type_.oid) for one, type_ in zip(cells, types, strict=True)],
                [type_.array_oid for type_ in types],
                [1] * len(cells),
            )
            assert not result.error_message

        for array, column in zip(arrays, COLUMNS, strict=True):
            assert to_text(read_copied(connection, "t", column, "ctid"), column).equals(to_text(array, column)), (
                column.type
            )
