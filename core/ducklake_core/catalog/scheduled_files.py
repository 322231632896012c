"""The files that are scheduled for deletion: rows of the catalog that belong to no snapshot (format §13)."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from functools import cache
from typing import Any, NamedTuple

from sqlalchemy import BigInteger, Delete, Select, bindparam, delete, select

from ducklake_core.catalog.database import Database
from ducklake_core.catalog.session import Session, Statement
from ducklake_core.plan.ranges import ranges_between
from ducklake_core.spec.tables import CatalogTables


class ScheduledFile(NamedTuple):
    """A data or delete file that no snapshot sees any more; its path is below the data path, or a full one."""

    file_id: int
    path: str
    is_relative: bool
    since: datetime


def read_scheduled(session: Session) -> list[ScheduledFile]:
    """Return all of them, by id."""
    return [ScheduledFile(*row) for row in session.query(_select(session.tables))]


def forget_scheduled(database: Database, removed: Collection[ScheduledFile]) -> None:
    """Take files that are gone from storage off the list, in one short transaction."""
    gone = {(file.file_id, file.path) for file in removed}

    def forget(session: Session) -> None:
        rows = read_scheduled(session)  # again, for others may have written since: whole ranges of ids are deleted
        kept = {row.file_id for row in rows if (row.file_id, row.path) not in gone}
        ours = sorted({row.file_id for row in rows} - kept)
        ranges = [{"first": first, "last": last} for first, last in ranges_between(ours, sorted(kept))]
        session.write_and_commit([Statement(_delete(session.tables), ranges)] if ranges else [])

    database.write_alone("forget removed files of", forget)


@cache
def _select(t: CatalogTables) -> Select[Any]:
    s = t.ducklake_files_scheduled_for_deletion
    return select(s.c.data_file_id, s.c.path, s.c.path_is_relative, s.c.schedule_start).order_by(s.c.data_file_id)


@cache
def _delete(t: CatalogTables) -> Delete:
    s = t.ducklake_files_scheduled_for_deletion
    first, last = bindparam("first", type_=BigInteger), bindparam("last", type_=BigInteger)
    return delete(s).where(s.c.data_file_id.between(first, last))
