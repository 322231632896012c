"""Drops tables of inlined rows that nobody will write to again: empty, and of older columns than the newest (§4.3).

The one of the newest columns stays, even when it is empty: sessions of the reference remember it.
"""

from __future__ import annotations

from functools import lru_cache

from psycopg import sql
from sqlalchemy import Delete, Select, Table, bindparam, delete, func, select
from sqlalchemy.schema import DropTable

from ducklake_core.catalog.database import Database, Session, Statement
from ducklake_core.catalog.inlined_tables import inlined_table
from ducklake_core.errors import CatalogUnavailable, CommitOutcomeUnknown
from ducklake_core.spec.tables import CatalogTables

# How long others that want to read the table may have to wait behind us; a later flush tries again.
_LOCK_MILLISECONDS = 500


def drop_superseded(database: Database) -> tuple[str, ...]:
    """Drop them, each in a transaction of its own, and return their names; one that is in use is left for later."""
    with database.read() as session:
        names = [row[0] for row in session.query(_superseded(session.tables))]
    return tuple(name for name in names if _drop_if_empty(database, name))


def _drop_if_empty(database: Database, name: str) -> bool:
    table = inlined_table(name, (), database.dialect.name, database.url.metadata_schema)
    try:
        with database.read() as session:
            if session.query(_any_row(table)):
                return False
        with database.write() as session:
            return _drop(session, table)
    except (CatalogUnavailable, CommitOutcomeUnknown):
        return False
    except Exception as error:  # in use, or another flush was faster: nothing is lost
        if database.dialect.is_transient(error) or database.dialect.is_missing_table(error):
            return False
        raise


def _drop(session: Session, table: Table) -> bool:
    if session.dialect.name == "postgresql":
        # Before the first look, so that the look sees all that was committed while we waited.
        session.begin()
        for statement in _lock(table):
            session.driver.execute(statement)
    if session.query(_any_row(table)):
        return False
    statements = [Statement(_unregister(session.tables), {"table_name": table.name}), Statement(_drop_table(table))]
    session.write_and_commit(statements)
    return True


def _lock(table: Table) -> list[bytes]:
    name = sql.Identifier(table.schema, table.name) if table.schema else sql.Identifier(table.name)
    timeout = sql.SQL("SET LOCAL lock_timeout = {}").format(sql.Literal(_LOCK_MILLISECONDS))
    return [timeout.as_bytes(), sql.SQL("LOCK TABLE {} IN ACCESS EXCLUSIVE MODE").format(name).as_bytes()]


@lru_cache(maxsize=512)
def _superseded(t: CatalogTables) -> Select[tuple[str]]:
    """The registered tables that are not those of the newest columns of their table."""
    one, other = t.ducklake_inlined_data_tables, t.ducklake_inlined_data_tables.alias("other")
    newest = select(func.max(other.c.schema_version)).where(other.c.table_id == one.c.table_id).scalar_subquery()
    return select(one.c.table_name).where(one.c.schema_version < newest).order_by(one.c.table_name)


@lru_cache(maxsize=512)
def _any_row(table: Table) -> Select[tuple[int]]:
    return select(table.c.row_id).limit(1)


@lru_cache(maxsize=512)
def _unregister(t: CatalogTables) -> Delete:
    registered = t.ducklake_inlined_data_tables
    return delete(registered).where(registered.c.table_name == bindparam("table_name"))


@lru_cache(maxsize=512)
def _drop_table(table: Table) -> DropTable:
    return DropTable(table)
