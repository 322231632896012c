"""Drops tables of inlined rows that nobody will write to again: empty, and of older columns than the newest (§4.3).

The one of the newest columns stays, even when it is empty: sessions of the reference remember it. They remember the
older ones, too, until definitions change again, and on PostgreSQL a session that reads one which is gone is lost with
its whole DuckDB instance. The reference drops them right after each flush of its own. We forget them then, so that
sessions that begin later do not hear of them, and drop them when a time of grace is over.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from sqlalchemy import Delete, ScalarSelect, Select, Table, bindparam, delete, func, select
from sqlalchemy.schema import DropTable

from ducklake_core.catalog.database import Database
from ducklake_core.catalog.inlined_tables import inlined_table
from ducklake_core.catalog.session import Session, Statement
from ducklake_core.catalog.stored_tables import inlined_table_names
from ducklake_core.errors import CatalogTableMissing, CommitOutcomeUnknown, TransientError
from ducklake_core.spec.changes import ChangeKind, parse_changes
from ducklake_core.spec.tables import CatalogTables

DEFAULT_KEEP = timedelta(hours=1)  # of superseded tables; longer than most sessions of DuckDB are open
_NAME = re.compile(r"ducklake_inlined_data_(\d+)_(\d+)")


def drop_superseded(database: Database, keep: timedelta, now: datetime) -> tuple[str, ...]:
    """Forget superseded tables, drop those that were emptied more than `keep` ago, and return the names of these.

    Each is a transaction of its own; a table that is in use is left for later.
    """
    until = now - keep
    registered, forgotten = database.ask(lambda session: (_registered_names(session), _forgotten(session, until)))
    if not keep:
        return tuple(name for name in [*registered, *forgotten] if _try(database, name, drops=True))
    for name in registered:
        _try(database, name, drops=False)
    return tuple(name for name in forgotten if _try(database, name, drops=True))


def _registered_names(session: Session) -> list[str]:
    return [name for [name] in session.query(_superseded(session.tables))]


def _forgotten(session: Session, until: datetime) -> list[str]:
    """Return the tables that are not registered any more and were emptied by then."""
    known = {name for [name] in session.query(_registered(session.tables))}
    found = [(name, match) for name in inlined_table_names(session) if (match := _NAME.fullmatch(name))]
    left = [(name, int(match[1]), int(match[2])) for name, match in found if name not in known]
    return [name for name, table_id, version in left if _emptied_at(session, table_id, version) <= until]


def _emptied_at(session: Session, table_id: int, schema_version: int) -> datetime:
    """Return when a superseded table got empty, or a later time: the first flush after it was superseded did it.

    One that never had rows was empty when it was superseded. Where that has expired, the oldest snapshot stands for it.
    """
    t = session.tables
    rows = session.query(_flushes(t), table_id=table_id, version=schema_version, pattern=f"%flush%:{table_id}%")
    for time, text in rows:
        if any(c.kind is ChangeKind.INLINE_FLUSH and c.object_id == table_id for c in parse_changes(text)):
            return _utc(time)
    rows = session.query(_superseding(t), table_id=table_id, version=schema_version)  # it had no rows to be flushed
    [[time]] = rows or session.query(_oldest(t))
    return _utc(time)


def _utc(time: datetime) -> datetime:
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def _try(database: Database, name: str, *, drops: bool) -> bool:
    """Forget a table, and drop it if told to, unless it has rows; tell whether that was done."""
    table = inlined_table(name, (), database.dialect.inlined_rules, database.url.metadata_schema)
    try:
        if database.ask(lambda session: session.query(_any_row(table))):
            return False
        # Once: nobody waits for it, a later flush will do.
        with database.write("drop superseded tables of", checks_version=False) as session:
            return _forget(session, table, drops=drops)
    except (TransientError, CommitOutcomeUnknown, CatalogTableMissing):  # in use, or another flush was faster
        return False


def _forget(session: Session, table: Table, *, drops: bool) -> bool:
    # Before the first look, also at the format: it sees all that was committed while we waited.
    session.dialect.inlined.lock(session, table)
    session.check_version()
    if session.query(_any_row(table)):
        return False
    statements = [Statement(_unregister(session.tables), {"table_name": table.name})]
    session.write_and_commit([*statements, *([Statement(_drop_table(table))] if drops else [])])
    return True


@lru_cache(maxsize=512)
def _superseded(t: CatalogTables) -> Select[tuple[str]]:
    """The registered tables that are not those of the newest columns of their table."""
    one, other = t.ducklake_inlined_data_tables, t.ducklake_inlined_data_tables.alias("other")
    newest = select(func.max(other.c.schema_version)).where(other.c.table_id == one.c.table_id).scalar_subquery()
    return select(one.c.table_name).where(one.c.schema_version < newest).order_by(one.c.table_name)


@lru_cache(maxsize=512)
def _registered(t: CatalogTables) -> Select[tuple[str]]:
    return select(t.ducklake_inlined_data_tables.c.table_name)


@lru_cache(maxsize=512)
def _flushes(t: CatalogTables) -> Select[tuple[datetime, str]]:
    """The snapshots after a table of inlined rows was superseded that may be flushes of its table, oldest first."""
    snapshots, changes, begin = t.ducklake_snapshot, t.ducklake_snapshot_changes, _first_newer(t)
    return (
        select(snapshots.c.snapshot_time, changes.c.changes_made)
        .join(changes, changes.c.snapshot_id == snapshots.c.snapshot_id)
        .where(snapshots.c.snapshot_id >= func.coalesce(begin, 0), changes.c.changes_made.like(bindparam("pattern")))
        .order_by(snapshots.c.snapshot_id)
    )


@lru_cache(maxsize=512)
def _superseding(t: CatalogTables) -> Select[tuple[datetime]]:
    """The time of the first snapshot with newer columns of a table."""
    snapshots = t.ducklake_snapshot
    return select(snapshots.c.snapshot_time).where(snapshots.c.snapshot_id == _first_newer(t))


def _first_newer(t: CatalogTables) -> ScalarSelect[int]:
    versions = t.ducklake_schema_versions
    newer = (versions.c.table_id == bindparam("table_id"), versions.c.schema_version > bindparam("version"))
    return select(func.min(versions.c.begin_snapshot)).where(*newer).scalar_subquery()


@lru_cache(maxsize=512)
def _oldest(t: CatalogTables) -> Select[tuple[datetime]]:
    snapshots = t.ducklake_snapshot
    return select(snapshots.c.snapshot_time).order_by(snapshots.c.snapshot_id).limit(1)


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
