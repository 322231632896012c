"""Reads how much of a table is in the catalog instead of in files: what decides when to flush it."""

from __future__ import annotations

from contextlib import suppress
from functools import lru_cache
from typing import Any

from sqlalchemy import Select, Table

from ducklake_core.catalog import queries
from ducklake_core.catalog.database import Database
from ducklake_core.catalog.inlined_tables import inlined_delete_table, inlined_table
from ducklake_core.catalog.session import Session, Statement
from ducklake_core.catalog.stored_tables import exists_statement
from ducklake_core.errors import CatalogTableMissing
from ducklake_core.model import InlinedState, TableVersion
from ducklake_core.spec.tables import CatalogTables

_ATTEMPTS = 3


def read_inlined_state(database: Database, table: TableVersion) -> InlinedState:
    """Count a table's inlined rows and deletes in two round trips: which tables there are, then all of them at once.

    A flush may drop one between the two: then it looks again.
    """
    for _ in range(_ATTEMPTS - 1):
        with suppress(CatalogTableMissing):
            return database.ask(lambda session: _read_state(session, table))
    return database.ask(lambda session: _read_state(session, table))


def _read_state(session: Session, table: TableVersion) -> InlinedState:
    registered = queries.of_table(session.tables, "ducklake_inlined_data_tables")
    statements = [Statement(registered, {"table_id": table.table_id})]
    statements.append(exists_statement(session, f"ducklake_inlined_delete_{table.table_id}"))
    rows, exists = session.run(statements)
    names = {row[1] for row in rows}
    dialect, schema = session.dialect.name, session.database.url.metadata_schema
    tables = [
        inlined_table(t.name, t.columns, dialect, schema, t.stored_names)
        for t in table.inlined_tables
        if t.name in names
    ]
    deletes = [inlined_delete_table(table.table_id, schema)] if exists[0][0] else []
    counts = [Statement(_state(session.tables, t, dialect)) for t in [*tables, *deletes]]
    found = [result[0] for result in session.run(counts)] if counts else []
    inlined, deleted = found[: len(tables)], found[len(tables) :]
    return InlinedState(
        rows=sum(row[0] for row in inlined),
        ended_rows=sum(row[2] for row in inlined),
        file_deletes=sum(row[0] for row in deleted),
        size_bytes=sum(row[1] for row in found),
        oldest=min((row[3] for row in found if row[3] is not None), default=None),
    )


@lru_cache(maxsize=512)
def _state(tables: CatalogTables, table: Table, dialect: str) -> Select[Any]:
    return queries.inlined_state(tables, table, dialect)
