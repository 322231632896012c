"""Reclaims what inlined rows and deletes leave in the catalog when snapshots have expired. Each is a short transaction.

Tables of inlined rows or deletes whose table no snapshot knows any more are dropped. Of those that stay, rows go that
ended before the oldest snapshot: no snapshot sees them, and no change feed tells of their end. Marks of deleted rows go
with the files that they are of. What is in use is left for the next time.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from sqlalchemy import BigInteger, ColumnElement, Delete, Select, Table, and_, bindparam, delete, func, select
from sqlalchemy.schema import DropTable

from ducklake_core import faults
from ducklake_core.catalog.database import Database
from ducklake_core.catalog.inlined_tables import inlined_delete_table, inlined_table
from ducklake_core.catalog.session import Session, Statement
from ducklake_core.catalog.stored_tables import inlined_columns
from ducklake_core.errors import CatalogTableMissing, CommitOutcomeUnknown, TransientError
from ducklake_core.model import TableId
from ducklake_core.spec.tables import CatalogTables

_NAME = re.compile(r"ducklake_inlined_(?:data_(\d+)_\d+|delete_(\d+))")


def reclaim_inlined(database: Database) -> tuple[str, ...]:
    """Reclaim all of it; return the tables that were dropped."""
    names, known = database.ask(lambda session: (_stored_names(session), _known_tables(session)))
    dropped = [name for name, table_id in names.items() if table_id not in known and _drop(database, name, table_id)]
    for name, table_id in names.items():
        if table_id in known:
            _delete_rows(database, name, table_id)
    return tuple(dropped)


def _stored_names(session: Session) -> dict[str, TableId]:
    found = ((name, _NAME.fullmatch(name)) for name in inlined_columns(session))
    return {name: TableId(int(match[1] or match[2])) for name, match in found if match is not None}


def _known_tables(session: Session) -> set[TableId]:
    return {table_id for [table_id] in session.query(_table_ids(session.tables))}


def _drop(database: Database, name: str, table_id: TableId) -> bool:
    def drop(session: Session) -> bool:
        table = _table(session, name, table_id)
        session.dialect.inlined.lock(session, table)  # before the first look: see `inlined_cleanup`
        session.check_version()
        if table_id in _known_tables(session):
            return False
        faults.at("before_drop_leftover")
        session.write_and_commit([Statement(_drop_table(table))])
        return True

    return _try(lambda: _written(database, drop, checks_version=False))


def _delete_rows(database: Database, name: str, table_id: TableId) -> bool:
    def has_any(session: Session) -> bool:
        return bool(session.query(_any_needless(session.tables, _table(session, name, table_id)), table_id=table_id))

    def remove(session: Session) -> bool:
        statement = _delete_needless(session.tables, _table(session, name, table_id))
        session.write_and_commit([Statement(statement, {"table_id": table_id})])
        return True

    return _try(lambda: database.ask(has_any) and _written(database, remove))


def _written(database: Database, work: Callable[[Session], bool], *, checks_version: bool = True) -> bool:
    # Once: nobody waits for it, the next time will do.
    with database.write("reclaim inlined rows of", checks_version=checks_version) as session:
        return work(session)


def _try(act: Callable[[], bool]) -> bool:
    try:
        return act()
    except (TransientError, CommitOutcomeUnknown, CatalogTableMissing):  # in use, or another was faster
        return False


def _table(session: Session, name: str, table_id: TableId) -> Table:
    schema = session.database.url.metadata_schema
    if name.startswith("ducklake_inlined_delete_"):
        return inlined_delete_table(table_id, schema)
    return inlined_table(name, (), session.dialect.inlined_rules, schema)


@lru_cache(maxsize=512)
def _table_ids(t: CatalogTables) -> Select[Any]:
    return select(t.ducklake_table.c.table_id).distinct()


def _is_needless(t: CatalogTables, table: Table) -> ColumnElement[bool]:
    """Return the condition that nobody needs a row: a mark of no file of the table, or a row that ended long ago.

    A mark whose snapshot is still there was lost when its file was merged: it stays, since the doctor tells of it.
    """
    if "file_id" in table.c:
        files, table_id = t.ducklake_data_file, bindparam("table_id", type_=BigInteger)
        has_no_file = table.c.file_id.not_in(select(files.c.data_file_id).where(files.c.table_id == table_id))
        return and_(has_no_file, table.c.begin_snapshot.not_in(select(t.ducklake_snapshot.c.snapshot_id)))
    oldest = select(func.min(t.ducklake_snapshot.c.snapshot_id)).scalar_subquery()
    return table.c.end_snapshot < oldest


@lru_cache(maxsize=512)
def _any_needless(t: CatalogTables, table: Table) -> Select[Any]:
    return select(table.c.row_id).where(_is_needless(t, table)).limit(1)


@lru_cache(maxsize=512)
def _delete_needless(t: CatalogTables, table: Table) -> Delete:
    return delete(table).where(_is_needless(t, table))


@lru_cache(maxsize=512)
def _drop_table(table: Table) -> DropTable:
    return DropTable(table)
