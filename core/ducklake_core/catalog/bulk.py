"""Inlined rows in bulk: PostgreSQL's binary COPY, for batches where one statement with arrays is slower."""

from __future__ import annotations

from psycopg import sql

from ducklake_core.catalog import postgres_values
from ducklake_core.catalog.database import Session
from ducklake_core.plan.writes import InsertInlined

# Measured with 23 mixed columns: arrays in one statement win to some 50 rows (no exchange of their own), COPY after.
BULK_ROWS = 50


def is_bulk(session: Session, write: InsertInlined) -> bool:
    return session.dialect.name == "postgresql" and write.rows.num_rows > BULK_ROWS


def copy_rows(session: Session, write: InsertInlined) -> None:
    """Send the rows as one binary COPY."""
    session.begin()
    cells = [
        postgres_values.int64_cells(write.row_ids),
        postgres_values.constant_cells(int(write.begin), write.rows.num_rows),
        postgres_values.constant_cells(None, write.rows.num_rows),
        *(postgres_values.encode_column(write.rows.column(i), c) for i, c in enumerate(write.columns)),
    ]
    schema = session.database.url.metadata_schema
    target = sql.Identifier(schema, write.name) if schema else sql.Identifier(write.name)
    statement = sql.SQL("COPY {} FROM STDIN (FORMAT BINARY)").format(target)
    with session.driver.cursor().copy(statement) as copy:
        copy.write(postgres_values.copy_buffer(cells))
