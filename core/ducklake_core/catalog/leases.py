"""Leases: rows of a table of ours that say who works on something now, and until when. The reference ignores them.

A row, and no advisory lock of a session: it holds behind a pooler that gives connections away, and across a failover.
A holder that is killed keeps it until it has run out. Nothing is right or wrong by it: it saves work that two would do.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import cache, lru_cache
from typing import Any

from sqlalchemy import Column, Delete, Insert, MetaData, Select, String, Table, bindparam, delete, insert, or_, select

from ducklake_core.catalog.database import Database
from ducklake_core.catalog.session import Session, Statement
from ducklake_core.catalog.stored_tables import create_missing, table_exists
from ducklake_core.spec.tables import ValueTypes


@dataclass(frozen=True, slots=True)
class Lease:
    """Who holds what, why, and until when. `holder` is one run of one process; `purpose` is for people."""

    name: str
    holder: str
    purpose: str
    expires_at: datetime


def take_lease(database: Database, wanted: Lease, now: datetime) -> Lease:
    """Take a lease, or renew it, unless another holds it; return the one that is in force then.

    One that lasts more than twice as long from now as the wanted one is of a wrong clock, and counts as run out.
    Raises CatalogForbidden where the table can neither be made nor written to.
    """
    table = _lease_table(database)
    database.write_alone("make a table for leases in", lambda session: create_missing(session, table))
    found, latest = [wanted], now + 2 * (wanted.expires_at - now)

    def take(session: Session) -> None:
        rows = [Lease(*row) for row in session.query(_select(table), name=wanted.name)]
        other = next((one for one in rows if one.holder != wanted.holder and now < one.expires_at <= latest), None)
        found[0] = other or wanted
        if other is None:
            keys = {"key": wanted.name, "holder_key": wanted.holder, "until": now, "latest": latest}
            remove = Statement(_delete(table), keys)
            session.write_and_commit([remove, Statement(_insert(table), _values(wanted))])

    database.write_alone(f"take the lease '{wanted.name}' of", take)
    return found[0]


def give_back(database: Database, lease: Lease) -> None:
    """End a lease; one that another has taken over stays."""
    remove = Statement(_delete_own(_lease_table(database)), {"key": lease.name, "holder_key": lease.holder})
    database.write_alone(f"give back '{lease.name}' of", lambda session: session.write_and_commit([remove]))


def read_leases(session: Session) -> list[Lease]:
    """Return all leases, by name, those that have run out too; none where nobody has taken any."""
    table = _lease_table(session.database)
    if not table_exists(session, table.name):
        return []
    return [Lease(*row) for row in session.query(_select_all(table))]


def _values(lease: Lease) -> dict[str, Any]:  # Any: each column is of its own type
    return {name: getattr(lease, name) for name in Lease.__slots__}


def _lease_table(database: Database) -> Table:
    return _table(database.url.metadata_schema, database.dialect.values)


@cache
def _table(schema: str | None, values: ValueTypes) -> Table:
    return Table(
        "ducklake_streaming_leases",
        MetaData(schema=schema),
        Column("name", String, primary_key=True),
        Column("holder", String, nullable=False),
        Column("purpose", String, nullable=False),
        Column("expires_at", values.time, nullable=False),
    )


@lru_cache(maxsize=64)
def _select_all(table: Table) -> Select[Any]:
    """The columns are the fields of a `Lease`, in their order."""
    return select(*(table.c[name] for name in Lease.__slots__)).order_by(table.c.name)


@lru_cache(maxsize=64)
def _select(table: Table) -> Select[Any]:
    return _select_all(table).where(table.c.name == bindparam("name"))


@lru_cache(maxsize=64)
def _insert(table: Table) -> Insert:
    return insert(table)


@lru_cache(maxsize=64)
def _delete_own(table: Table) -> Delete:
    return delete(table).where(table.c.name == bindparam("key"), table.c.holder == bindparam("holder_key"))


@lru_cache(maxsize=64)
def _delete(table: Table) -> Delete:
    """The lease of a name that its holder renews, that had run out by a time, or that ends too late to be true."""
    is_ours, has_ended = table.c.holder == bindparam("holder_key"), table.c.expires_at <= bindparam("until")
    is_wrong = table.c.expires_at > bindparam("latest")
    return delete(table).where(table.c.name == bindparam("key"), or_(is_ours, has_ended, is_wrong))
