"""PostgreSQL takes our binary cells, by COPY and as an array of rows, and gives the values back."""

import psycopg
import pyarrow as pa
import pytest
from psycopg import sql

from ducklake_core.catalog.postgres.encode import constant_cells, copy_buffer, encode_column
from ducklake_core.catalog.postgres.encode_small import encode_rows, rows_parameter
from ducklake_core.catalog.postgres.rules import POSTGRES_RULES
from ducklake_core.spec.inlined import inlined_type
from ducklake_core.spec.small_rows import extract_values
from ducklake_core.spec.text import to_text
from tests.fixtures.copied import read_copied
from tests.fixtures.postgres import PostgresDatabase
from tests.fixtures.values import SCALAR_TYPES, column_of, sample_array

COLUMNS = (
    *(column_of(type_, f"c{i}") for i, type_ in enumerate(SCALAR_TYPES) if type_ != "time_ns"),
    column_of("struct(a varchar[])", "s"),
    column_of("map(varchar, date)", "m"),
)
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
        sql.SQL("{} {}").format(sql.Identifier(c.name), sql.SQL(inlined_type(c, POSTGRES_RULES))) for c in COLUMNS
    )
    system = sql.SQL("row_id BIGINT, begin_snapshot BIGINT, end_snapshot BIGINT")
    connection.execute(sql.SQL("CREATE TABLE t ({}, {})").format(system, declared))


@pytest.mark.parametrize("nullable", [True, False], ids=["nulls", "no nulls"])
@pytest.mark.parametrize("way", ["copy", "rows"])
def test_every_type_survives(postgres_database: PostgresDatabase, way: str, *, nullable: bool) -> None:
    arrays = arrays_of(nullable=nullable)
    with psycopg.connect(postgres_database.conninfo) as connection:
        create_table(connection)

        if way == "copy":
            cells = [encode_column(array, column) for array, column in zip(arrays, COLUMNS, strict=True)]
            with connection.cursor().copy("COPY t FROM STDIN (FORMAT binary)") as copy:
                copy.write(
                    copy_buffer([constant_cells(7, ROWS), constant_cells(1, ROWS), constant_cells(None, ROWS), *cells])
                )
        else:
            values = extract_values(pa.table(arrays, names=[column.name for column in COLUMNS]), COLUMNS)
            rows = rows_parameter(encode_rows(values, COLUMNS), [7] * ROWS, 1)
            result = connection.pgconn.exec_params(b"INSERT INTO t SELECT * FROM unnest($1::t[])", [rows], None, [1])
            assert not result.error_message

        assert connection.execute("SELECT DISTINCT row_id, begin_snapshot, end_snapshot FROM t").fetchall() == [
            (7, 1, None)
        ]
        for array, column in zip(arrays, COLUMNS, strict=True):
            assert to_text(read_copied(connection, "t", column, "ctid"), column).equals(to_text(array, column)), (
                column.type
            )
