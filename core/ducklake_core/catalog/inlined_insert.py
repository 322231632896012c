"""Inlined rows in bulk, straight through the driver: PostgreSQL's binary COPY, SQLite's executemany."""

from __future__ import annotations

from functools import lru_cache

from psycopg import sql
from sqlalchemy import Table, insert
from sqlalchemy.dialects import sqlite

from ducklake_core.catalog.dbapi import values as dbapi_values
from ducklake_core.catalog.dbapi.sqlite_rules import SQLITE_RULES
from ducklake_core.catalog.inlined_tables import inlined_table
from ducklake_core.catalog.postgres import encode
from ducklake_core.catalog.session import Session
from ducklake_core.catalog.statements import encode_few
from ducklake_core.plan.staged import InlinedRows
from ducklake_core.plan.writes import InsertInlined
from ducklake_core.spec.thresholds import ROW_ARRAY_ROWS


def is_bulk(session: Session, write: InsertInlined) -> bool:
    """Tell whether rows go this way; else they are one of the statements of the commit."""
    return not is_few(session, write.row_count)


def is_few(session: Session, row_count: int) -> bool:
    """Tell whether PostgreSQL takes so many rows as one parameter."""
    return row_count <= ROW_ARRAY_ROWS and session.takes_row_arrays


def encode_ahead(session: Session, rows: InlinedRows) -> None:
    """Make now of the rows what their insert will need."""
    if session.dialect.name == "sqlite":
        rows.encoded(_encode_rows)
    else:
        rows.encoded(encode_few if is_few(session, rows.rows.num_rows) else _encode_cells)


def insert_rows(session: Session, write: InsertInlined) -> None:
    """Insert the rows within the transaction of the session."""
    if session.dialect.name == "sqlite":
        _insert_many(session, write)
    else:
        _copy(session, write)


def _copy(session: Session, write: InsertInlined) -> None:
    cells = [
        encode.int64_cells(write.row_ids),
        encode.constant_cells(int(write.begin), write.row_count),
        encode.constant_cells(None, write.row_count),
        *write.source.encoded(_encode_cells),
    ]
    encoded = encode.copy_buffer(cells)
    session.begin()
    with session.driver.cursor().copy(_copy_statement(session.database.url.metadata_schema, write.name)) as copy:
        copy.write(encoded)


def _encode_cells(rows: InlinedRows) -> list[encode.Cells]:
    return [encode.encode_column(rows.rows.column(i), c) for i, c in enumerate(rows.columns)]


@lru_cache(maxsize=512)
def _copy_statement(schema: str | None, name: str) -> bytes:
    target = sql.Identifier(schema, name) if schema else sql.Identifier(name)
    return sql.SQL("COPY {} FROM STDIN (FORMAT BINARY)").format(target).as_bytes()


def _insert_many(session: Session, write: InsertInlined) -> None:
    begin = int(write.begin)
    values = write.source.encoded(_encode_rows)
    rows = [(row_id, begin, None, *row) for row_id, row in zip(write.row_ids.tolist(), values, strict=True)]
    table = inlined_table(write.name, write.columns, SQLITE_RULES, None, write.stored_names)
    session.begin()
    session.driver.executemany(_insert_statement(table), rows)


def _encode_rows(rows: InlinedRows) -> list[tuple[object, ...]]:
    if rows.small is not None:
        return dbapi_values.encode_few(rows.small, SQLITE_RULES)
    return dbapi_values.encode_rows(rows.rows, rows.columns, SQLITE_RULES)


@lru_cache(maxsize=512)
def _insert_statement(table: Table) -> str:
    return str(insert(table).compile(dialect=sqlite.dialect()))
