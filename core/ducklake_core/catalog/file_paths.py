"""Where the files of a lake are, as the catalog composes their paths (format §11): in SQL, and read page by page."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Select,
    Table,
    and_,
    bindparam,
    case,
    exists,
    false,
    func,
    or_,
    select,
    true,
)
from sqlalchemy.sql.selectable import FromClause

from ducklake_core.catalog.database import Database
from ducklake_core.catalog.session import Session
from ducklake_core.spec.tables import CatalogTables

PAGE_ROWS = 50_000  # of files that are read at once


class LakePath(NamedTuple):
    """A path, and whether it is relative to the data path."""

    path: str
    is_relative: bool


class PlacedFiles(NamedTuple):
    """Data files or delete files with their tables and schemas, and the columns of a `LakePath`."""

    source: FromClause
    file_id: ColumnElement[int]
    path: ColumnElement[str]
    is_relative: ColumnElement[bool]


def registered_paths(database: Database) -> Iterator[LakePath]:
    """Yield the paths of all data and delete files that the catalog has, live or ended; few are in memory at a time.

    A file that is registered meanwhile may be missing.
    """
    for name in ("ducklake_data_file", "ducklake_delete_file"):
        after: int | None = -1
        while after is not None:
            rows = database.ask(lambda session, after=after, name=name: _read_page(session, name, after))  # type: ignore[misc] # bound at once
            yield from (LakePath(path, bool(is_relative)) for _, path, is_relative in rows)
            after = rows[-1][0] if len(rows) == PAGE_ROWS else None


def placed(t: CatalogTables, files: Table) -> PlacedFiles:
    """Return files with their paths below the data path; what belongs to no table or schema is right below it."""
    tables, schemas, newer = t.ducklake_table, t.ducklake_schema, t.ducklake_table.alias("newer")
    is_newest = ~exists().where(newer.c.table_id == tables.c.table_id, newer.c.begin_snapshot > tables.c.begin_snapshot)
    source = files.outerjoin(tables, and_(tables.c.table_id == files.c.table_id, is_newest))
    source = source.outerjoin(schemas, schemas.c.schema_id == tables.c.schema_id)
    path: ColumnElement[str] = func.coalesce(schemas.c.path, "")
    is_relative = _is_relative(schemas)
    for part in (tables, files):
        path, is_relative = _below(path, is_relative, part)
    file_id = files.c.data_file_id if files is t.ducklake_data_file else files.c.delete_file_id
    return PlacedFiles(source, file_id, path, is_relative)


def _below(
    parent: ColumnElement[str], parent_is_relative: ColumnElement[bool], part: Table
) -> tuple[ColumnElement[str], ColumnElement[bool]]:
    path, is_relative = func.coalesce(part.c.path, ""), _is_relative(part)
    full = case((is_relative, parent.concat(path)), else_=path)
    return full, case((is_relative, parent_is_relative), else_=false())


def _is_relative(part: Table) -> ColumnElement[bool]:
    """Return the condition that a part is below its parent; one without a path is the parent itself."""
    return or_(part.c.path.is_(None), part.c.path_is_relative == true())


def _read_page(session: Session, name: str, after: int) -> list[Any]:  # Any: rows of the catalog
    return session.query(_page(session.tables, name), after=after)


@lru_cache(maxsize=64)
def _page(t: CatalogTables, name: str) -> Select[int, str, bool]:
    found = placed(t, getattr(t, name))
    page = select(found.file_id, found.path, found.is_relative).select_from(found.source)
    later = page.where(found.file_id > bindparam("after", type_=BigInteger))
    return later.order_by(found.file_id).limit(PAGE_ROWS)
