"""The ledger: our own tables in the catalog database, which the reference ignores. Written in the data transaction."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    Delete,
    Insert,
    MetaData,
    Select,
    String,
    Table,
    Update,
    bindparam,
    delete,
    insert,
    select,
    update,
)

from ducklake_core.catalog.database import Database
from ducklake_core.catalog.session import Row, Session, Statement
from ducklake_core.catalog.stored_tables import create_missing, table_exists
from ducklake_core.model import LedgerEntry
from ducklake_core.spec.tables import ValueTypes


@dataclass(frozen=True, slots=True)
class LedgerTables:
    """One row per stream; one row per consumer of a change feed."""

    epochs: Table
    consumers: Table


@cache
def ledger_tables(schema: str | None, values: ValueTypes) -> LedgerTables:
    metadata = MetaData(schema=schema)
    epochs = Table(
        "ducklake_streaming_epochs",
        metadata,
        Column("stream", String, primary_key=True),
        Column("query_id", String, nullable=False),
        Column("run_id", String, nullable=False),
        Column("batch_id", BigInteger, nullable=False),
        Column("snapshot_id", BigInteger),
        Column("row_count", BigInteger, nullable=False),
        Column("committed_at", values.time, nullable=False),
    )
    consumers = Table(
        "ducklake_streaming_consumers",
        metadata,
        Column("consumer", String, primary_key=True),
        Column("table_uuid", values.uuid, nullable=False),
        Column("snapshot_id", BigInteger, nullable=False),
        Column("updated_at", values.time, nullable=False),
        Column("expires_at", values.time),
    )
    return LedgerTables(epochs, consumers)


def ledger_of(database: Database) -> LedgerTables:
    """Return the ledger's tables as a catalog database has them."""
    return ledger_tables(database.url.metadata_schema, database.dialect.values)


def create_ledger(database: Database) -> None:
    """Create the ledger's tables where they are missing, in a transaction of their own."""
    tables = ledger_of(database)
    database.write_alone("create the ledger in", lambda s: create_missing(s, tables.epochs, tables.consumers))


def entry_query(session: Session, stream: str) -> Statement:
    return Statement(_select_entry(ledger_of(session.database)), {"stream": stream})


def entry_of(rows: list[Row]) -> LedgerEntry | None:
    """Return the entry from what `entry_query` finds, whose columns are the fields of it."""
    return next((LedgerEntry(*row) for row in rows), None)


def read_entry(session: Session, stream: str) -> LedgerEntry | None:
    """Return the last epoch that was committed for a stream."""
    [rows] = session.run([entry_query(session, stream)])
    return entry_of(rows)


def read_entries(session: Session) -> list[LedgerEntry]:
    """Return the last epoch of each stream, by name; none where there is no ledger, which is not created."""
    tables = ledger_of(session.database)
    if not table_exists(session, tables.epochs.name):
        return []
    return [LedgerEntry(*row) for row in session.query(_select_entries(tables))]


def forget_stream(database: Database, stream: str) -> bool:
    """Remove a stream; tell whether there was one."""
    tables = ledger_of(database)
    found: list[Row] = []  # by all attempts: one whose COMMIT got no answer may have removed it

    def remove(session: Session) -> None:
        found.extend(session.query(_select_entry(tables), stream=stream))
        session.write_and_commit([Statement(_delete_entry(tables), {"key_stream": stream})])

    database.write_alone(f"forget stream '{stream}' in", remove)
    return bool(found)


def entry_write(session: Session, entry: LedgerEntry, *, exists: bool) -> Statement:
    """Return the statement that records an epoch; the row stays locked until the data transaction ends."""
    tables = ledger_of(session.database)
    values: dict[str, Any] = {name: getattr(entry, name) for name in LedgerEntry.__slots__}
    if not exists:
        return Statement(_insert_entry(tables), values)
    return Statement(_update_entry(tables), {**values, "key_stream": entry.stream, "key_batch_id": entry.batch_id})


@cache
def _select_entries(tables: LedgerTables) -> Select[Any]:
    epochs = tables.epochs
    return select(*(epochs.c[name] for name in LedgerEntry.__slots__)).order_by(epochs.c.stream)


@cache
def _select_entry(tables: LedgerTables) -> Select[Any]:
    return _select_entries(tables).where(tables.epochs.c.stream == bindparam("stream"))


@cache
def _delete_entry(tables: LedgerTables) -> Delete:
    return delete(tables.epochs).where(tables.epochs.c.stream == bindparam("key_stream"))


@cache
def _insert_entry(tables: LedgerTables) -> Insert:
    return insert(tables.epochs)


@cache
def _update_entry(tables: LedgerTables) -> Update:
    epochs = tables.epochs
    matches = (epochs.c.stream == bindparam("key_stream"), epochs.c.batch_id < bindparam("key_batch_id"))
    return update(epochs).where(*matches).values({c.name: bindparam(c.name) for c in epochs.columns})
