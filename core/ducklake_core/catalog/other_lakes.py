"""Other lakes that may keep files below the same data path: those whose catalogs are beside ours.

On PostgreSQL these are in other schemas of the same database, on SQLite in other files of the same directory. Lakes
whose catalogs are elsewhere cannot be known: nobody but their users can keep their files apart.
"""

from __future__ import annotations

import os.path
from dataclasses import dataclass

from sqlalchemy import select

from ducklake_core.catalog.database import Database
from ducklake_core.catalog.lake_setup import is_absolute, normalize_data_path
from ducklake_core.catalog.session import Session
from ducklake_core.catalog.stored_tables import table_exists
from ducklake_core.catalog.urls import CatalogUrl
from ducklake_core.errors import DuckLakeError
from ducklake_core.retries import Patience
from ducklake_core.spec.paths import same_storage


@dataclass(frozen=True, slots=True)
class OtherLake:
    """Another lake, and where it keeps its files. `error`: why that is not known.

    `is_placed` False: its data path is relative, and so another one in each working directory.
    """

    database: Database
    data_path: str | None
    error: DuckLakeError | None = None
    is_placed: bool = True

    @property
    def shown(self) -> str:
        schema = self.database.url.metadata_schema
        return self.database.url.shown + (f" (schema '{schema}')" if schema else "")


def lakes_beside(database: Database) -> list[OtherLake]:
    """Return the other lakes beside a catalog. Close their databases after use."""
    urls = database.ask(lambda session: session.dialect.other_catalogs(session))
    found = [_look_at(Database(CatalogUrl(*url), patience=Patience(1.0))) for url in urls]
    return [lake for lake in found if lake is not None]


def may_share_files(data_path: str, other: OtherLake) -> bool:
    """Tell whether one of two data paths is the other, or below it, or may be."""
    if other.data_path is None or not other.is_placed:
        return True
    first, second = real_place(data_path), real_place(other.data_path)
    return first.startswith(second) or second.startswith(first)


def real_place(data_path: str) -> str:
    """Return the one spelling of a data path: of a local one that without links. It ends in a slash."""
    path = same_storage(data_path).removeprefix("file://")
    return (path if "://" in path else os.path.realpath(path)).rstrip("/") + "/"


def _look_at(database: Database) -> OtherLake | None:
    """Return what is there; None: no lake. Its format is not asked for: any lake's files are its own."""
    try:
        path = database.ask(read_data_path, checks_version=False)
    except DuckLakeError as error:
        return OtherLake(database, None, error)
    if path is None:
        database.close()
        return None
    return OtherLake(database, normalize_data_path(path), is_placed=is_absolute(path))


def read_data_path(session: Session) -> str | None:
    """Return the data path as a lake has it; None: no lake."""
    if not table_exists(session, "ducklake_metadata"):
        return None
    metadata = session.tables.ducklake_metadata
    rows = session.query(select(metadata.c.value).where(metadata.c.key == "data_path"))
    return next((value for [value] in rows), None)
