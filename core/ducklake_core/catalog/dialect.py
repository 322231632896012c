"""What a catalog database is to us, as data: one frozen record per database. `dialects` has those there are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import URL, BindParameter, Connection, Engine, Select, Table, Update

from ducklake_core.catalog.driver_errors import DriverErrors
from ducklake_core.catalog.inlined_store import InlinedStore
from ducklake_core.catalog.session import Session
from ducklake_core.spec.inlined import InlinedRules
from ducklake_core.spec.tables import ValueTypes


@dataclass(frozen=True, slots=True, eq=False)
class CatalogDialect:
    """One catalog database: all that differs between it and others is here, or behind what is here."""

    name: str  # as SQLAlchemy and URLs have it

    # Its address and its connections.
    checked_url: Callable[[URL], URL]  # the URL as it is opened; raises InvalidInput for one that cannot be
    is_file: bool  # the URL's database is a path, and there is nothing before it is made
    has_schemas: bool  # the catalog may be in a schema of its own
    open_engine: Callable[[URL, float, float], Engine]  # with the seconds to wait for a lock, and for a connection
    is_alive: Callable[[Connection], bool] | None  # whether an idle connection can be used; None: none is kept

    # Its transactions.
    session: type[Session]
    begin_write: str
    begin_read: str
    concurrent_writers: bool  # two may write at the same time, and find out when they commit
    errors: DriverErrors

    # Its tables.
    values: ValueTypes  # of the catalog's own
    table_exists: str  # SQL that answers for the name bound as `name`
    # Other places of the same kind that may hold a lake: the URL of each, and the schema.
    other_catalogs: Callable[[Session], list[tuple[URL, str | None]]]
    inlined_tables: str  # SQL that lists the tables of inlined rows in the schema bound as `name`; None: the usual one
    columns_like: str  # SQL that lists (table, column) of all tables there whose names are like `pattern`, in order
    size_bytes: str  # SQL that tells how much the catalog's tables take, in the schema bound as `name`
    stored_columns: str | None  # SQL that lists the columns of the table bound as `name`; None: names are never changed
    update_many: Callable[[Table, tuple[str, ...], tuple[str, ...]], Update] | None  # see `postgres.statements`
    ids_in_json: Callable[[BindParameter[str]], Select[Any]]  # the numbers of a JSON array; Any: of the database
    inlined_rules: InlinedRules
    inlined: InlinedStore
    # The snapshots that were committed after an open transaction of another session began, or may have been, newest
    # first; None: nobody can commit beside one.
    unseen_snapshots: Callable[[Table], Select[Any]] | None = None  # Any: see above
    # SQL that tells whether a server that refused a write follows another one and may take its place, or just did.
    is_standby: str | None = None

    def is_stale_assumption(self, error: BaseException) -> bool:
        """Tell whether a commit has failed because the head is another than was assumed."""
        return self.errors.is_stale_assumption is not None and self.errors.is_stale_assumption(error)
