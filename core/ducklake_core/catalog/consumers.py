"""The readers of change feeds and how far they have read: a table of ours, which the reference ignores.

Our own expiry never passes the slowest consumer that is alive; one that has not been heard of for long is not.
"""

from __future__ import annotations

from datetime import datetime
from functools import cache
from typing import Any

from sqlalchemy import Delete, Insert, Select, Update, bindparam, delete, func, insert, select, update

from ducklake_core.catalog.database import Database
from ducklake_core.catalog.ledger import LedgerTables, ledger_of
from ducklake_core.catalog.session import Row, Session, Statement
from ducklake_core.catalog.stored_tables import table_exists
from ducklake_core.errors import InvalidInput
from ducklake_core.model import Consumer
from ducklake_core.spec.tables import CatalogTables


def read_consumers(database: Database) -> list[Consumer]:
    """Return all consumers, by name; those that have expired, too; none where there is no ledger."""
    return database.ask(consumers_in)


def consumers_in(session: Session) -> list[Consumer]:
    """Return the same within a transaction."""
    tables = ledger_of(session.database)
    if not table_exists(session, tables.consumers.name):
        return []
    return [Consumer(*row) for row in session.query(_select(tables))]


def read_unread_since(database: Database) -> dict[str, datetime]:
    """Return the time of the oldest snapshot after that of each consumer, of those where there is one."""
    return database.ask(_unread_since)


def _unread_since(session: Session) -> dict[str, datetime]:
    tables = ledger_of(session.database)
    if not table_exists(session, tables.consumers.name):
        return {}
    return dict(session.query(_select_unread(tables, session.tables)))  # type: ignore[arg-type] # pairs, as selected


def record_consumer(database: Database, consumer: Consumer) -> None:
    """Write how far a consumer has read. Raises InvalidInput when the name is that of a reader of another table."""
    database.write_alone(f"record consumer '{consumer.name}' in", lambda session: _record(session, consumer))


def forget_consumer(database: Database, name: str) -> bool:
    """Remove a consumer; tell whether there was one."""
    tables = ledger_of(database)
    found: list[Row] = []  # by all attempts: one whose COMMIT got no answer may have removed it

    def remove(session: Session) -> None:
        found.extend(session.query(_select_one(tables), name=name))
        session.write_and_commit([Statement(_delete(tables), {"key": name})])

    database.write_alone(f"forget consumer '{name}' in", remove)
    return bool(found)


def _record(session: Session, consumer: Consumer) -> None:
    tables = ledger_of(session.database)
    values: dict[str, Any] = {  # Any: each column is of its own type
        "consumer": consumer.name,
        "table_uuid": consumer.table_uuid,
        "snapshot_id": consumer.snapshot_id,
        "updated_at": consumer.updated_at,
        "expires_at": consumer.expires_at,
    }
    found = [Consumer(*row) for row in session.query(_select_one(tables), name=consumer.name)]
    if found and found[0].table_uuid != consumer.table_uuid:
        raise InvalidInput(
            f"consumer '{consumer.name}' reads another table (uuid {found[0].table_uuid}): choose another name, "
            "or forget that one with Lake.forget_consumer",
            consumer=consumer.name,
        )
    if found:
        session.write_and_commit([Statement(_update(tables), {**values, "key": consumer.name})])
    else:
        session.write_and_commit([Statement(_insert(tables), values)])


@cache
def _select(tables: LedgerTables) -> Select[Any]:
    """The columns are the fields of a `Consumer`, in their order."""
    c = tables.consumers.c
    return select(c.consumer, c.table_uuid, c.snapshot_id, c.updated_at, c.expires_at).order_by(c.consumer)


@cache
def _select_one(tables: LedgerTables) -> Select[Any]:
    return _select(tables).where(tables.consumers.c.consumer == bindparam("name"))


@cache
def _select_unread(tables: LedgerTables, t: CatalogTables) -> Select[Any]:
    c, s, every = tables.consumers.c, t.ducklake_snapshot, t.ducklake_snapshot.alias("every")
    first = select(func.min(every.c.snapshot_id)).where(every.c.snapshot_id > c.snapshot_id).scalar_subquery()
    return select(c.consumer, s.c.snapshot_time).join_from(tables.consumers, s, s.c.snapshot_id == first)


@cache
def _insert(tables: LedgerTables) -> Insert:
    return insert(tables.consumers)


@cache
def _update(tables: LedgerTables) -> Update:
    consumers = tables.consumers
    return (
        update(consumers)
        .where(consumers.c.consumer == bindparam("key"))
        .values({c.name: bindparam(c.name) for c in consumers.columns})
    )


@cache
def _delete(tables: LedgerTables) -> Delete:
    consumers = tables.consumers
    return delete(consumers).where(consumers.c.consumer == bindparam("key"))
