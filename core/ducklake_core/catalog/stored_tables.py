"""What tables the catalog database has, and what it calls their columns. Asked within a session."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from sqlalchemy import Executable, String, Table, bindparam, text
from sqlalchemy.schema import CreateTable

from ducklake_core.catalog.session import Row, Session, Statement
from ducklake_core.spec.names import quoted


def table_exists(session: Session, name: str) -> bool:
    """Tell whether the catalog database has a table of that name."""
    [[[answer]]] = session.run([exists_statement(session, name)])
    return bool(answer)


def create_missing(session: Session, *tables: Table) -> None:
    """Create tables of ours, which the reference ignores, where one of them is missing, and commit.

    PostgreSQL's IF NOT EXISTS is no lock: of two that create at once, one violates a key there; it looks again.
    """
    if not all(table_exists(session, table.name) for table in tables):
        session.write_and_commit([Statement(CreateTable(table, if_not_exists=True)) for table in tables])


def is_true(rows: Sequence[Row]) -> bool:
    """Return the answer to what `exists_statement` asks."""
    [[answer]] = rows
    return bool(answer)


def inlined_table_names(session: Session) -> list[str]:
    """Return the tables of inlined rows that the database has, whether the catalog knows them or not."""
    schema = session.database.url.metadata_schema
    [rows] = session.run([Statement(_question(session.dialect.inlined_tables), {"name": schema})])
    return [name for [name] in rows]


def inlined_columns(session: Session) -> dict[str, list[str]]:
    """Return the columns of each table of inlined rows or deletes that the database has."""
    return _columns_like(session, "ducklake~_inlined~_d%")


def catalog_columns(session: Session) -> dict[str, list[str]]:
    """Return the columns of every table that the catalog has, those of inlined rows and our own among them."""
    return _columns_like(session, "ducklake~_%")


def catalog_size_bytes(session: Session) -> int:
    """Return how much the catalog's tables take in their database, indexes included."""
    schema = session.database.url.metadata_schema
    [[[size]]] = session.run([Statement(_question(session.dialect.size_bytes), {"name": schema})])
    return int(size)


def _columns_like(session: Session, pattern: str) -> dict[str, list[str]]:
    """Return the columns of the tables whose names are like a pattern, in which `~` escapes."""
    schema = session.database.url.metadata_schema
    [rows] = session.run(
        [Statement(_like_question(session.dialect.columns_like), {"name": schema, "pattern": pattern})]
    )
    found: dict[str, list[str]] = {}
    for table, column in rows:
        found.setdefault(table, []).append(column)
    return found


def exists_statement(session: Session, name: str) -> Statement:
    return _about_table(session, session.dialect.table_exists, name)


def stored_columns(session: Session, names: Sequence[str]) -> list[tuple[str, ...]]:
    """Return what the database calls the columns of each table; nothing where it never changes names."""
    sql = session.dialect.stored_columns
    if sql is None or not names:
        return [() for _ in names]
    return [tuple(name for [name] in rows) for rows in session.run([_about_table(session, sql, n) for n in names])]


def quoted_name(session: Session, name: str) -> str:
    """Return a table's name as the database's own functions take it."""
    schema = session.database.url.metadata_schema
    return quoted(schema, name) if schema else name


def _about_table(session: Session, sql: str, name: str) -> Statement:
    return Statement(_question(sql), {"name": quoted_name(session, name)})


@lru_cache
def _question(sql: str) -> Executable:
    return text(sql).bindparams(bindparam("name", type_=String))


@lru_cache
def _like_question(sql: str) -> Executable:
    return text(sql).bindparams(bindparam("name", type_=String), bindparam("pattern", type_=String))
