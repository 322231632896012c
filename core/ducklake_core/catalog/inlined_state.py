"""Reads which tables have rows in the catalog instead of in files, and how many: what decides when to flush them."""

from __future__ import annotations

from contextlib import suppress
from functools import lru_cache

from sqlalchemy import Table

from ducklake_core.catalog import queries, reader
from ducklake_core.catalog.database import Database
from ducklake_core.catalog.dialect import CatalogDialect
from ducklake_core.catalog.inlined_tables import inlined_delete_table, inlined_table
from ducklake_core.catalog.query import Query
from ducklake_core.catalog.session import Session, Statement
from ducklake_core.catalog.stored_tables import exists_statement, is_true
from ducklake_core.errors import CatalogTableMissing
from ducklake_core.model import InlinedState, TableVersion
from ducklake_core.spec.changes import ChangeKind, parse_changes
from ducklake_core.spec.rows import InlinedStateRow
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


def find_tables_inlined_into(database: Database, told: str) -> list[str]:
    """Return the names of the tables that snapshots inlined rows into whose extra info begins with `told`.

    Whatever they hold now; how long the history is costs the database time, and nothing here.
    """
    return database.ask(lambda session: _find_tables_inlined_into(session, told))


def _find_tables_inlined_into(session: Session, told: str) -> list[str]:
    rows = queries.inlining_changes(session.tables).ask(session, told=told, length=len(told))
    changes = {change for row in rows for change in parse_changes(row.changes_made)}
    ids = {change.object_id for change in changes if change.kind is ChangeKind.INLINED_INSERT}
    if not ids:
        return []
    names = reader.read_table_names(session, reader.read_head(session).snapshot_id)
    return [name for table_id, name in names.items() if table_id in ids]


def _read_state(session: Session, table: TableVersion) -> InlinedState:
    registered = queries.inlined_tables(session.tables)
    statements = [Statement(registered.select, {"table_id": table.table_id})]
    statements.append(exists_statement(session, f"ducklake_inlined_delete_{table.table_id}"))
    rows, exists = session.run(statements)
    names = {row.table_name for row in registered.named(rows)}
    dialect, schema = session.dialect, session.database.url.metadata_schema
    tables = [
        inlined_table(t.name, t.columns, dialect.inlined_rules, schema, t.stored_names)
        for t in table.inlined_tables
        if t.name in names
    ]
    deletes = [inlined_delete_table(table.table_id, schema)] if is_true(exists) else []
    states = [_state(session.tables, t, dialect) for t in [*tables, *deletes]]
    results = session.run([Statement(query.select) for query in states]) if states else []
    found = [row for query, rows in zip(states, results, strict=True) for row in query.named(rows)]
    inlined, deleted = found[: len(tables)], found[len(tables) :]
    return InlinedState(
        rows=sum(row.row_count for row in inlined),
        ended_rows=sum(row.ended_rows for row in inlined),
        file_deletes=sum(row.row_count for row in deleted),
        size_bytes=sum(row.size_bytes for row in found),
        oldest=min((row.oldest for row in found if row.oldest is not None), default=None),
    )


@lru_cache(maxsize=512)
def _state(tables: CatalogTables, table: Table, dialect: CatalogDialect) -> Query[InlinedStateRow]:
    return queries.inlined_state(tables, table, dialect.inlined.row_size(table))
