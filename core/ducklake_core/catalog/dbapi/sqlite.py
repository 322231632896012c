"""SQLite as a catalog database: its record, and what its driver does that others do not."""

from __future__ import annotations

import math
import os.path
import re
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import (
    URL,
    BigInteger,
    BindParameter,
    ColumnElement,
    Engine,
    Select,
    Table,
    create_engine,
    func,
    literal_column,
    select,
)
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import QueuePool

from ducklake_core.catalog.dbapi.file_system import warn_of_network
from ducklake_core.catalog.dbapi.inlined import DbapiInlinedStore
from ducklake_core.catalog.dbapi.session import DbapiSession
from ducklake_core.catalog.dbapi.sqlite_errors import SQLITE_ERRORS
from ducklake_core.catalog.dbapi.sqlite_rules import SQLITE_RULES
from ducklake_core.catalog.dialect import CatalogDialect
from ducklake_core.catalog.driver_errors import driver_error
from ducklake_core.catalog.session import Row, Session, Statement
from ducklake_core.errors import InvalidInput
from ducklake_core.spec.tables import PLAIN_VALUES
from ducklake_core.spec.utf8 import with_replacements
from ducklake_core.text_repair import warn_of_invalid_text

Result = TypeVar("Result")

_SLICE_SECONDS = 0.5  # of a wait for a lock: so soon it is noticed that nobody needs it any more
_MAGIC = b"SQLite format 3\x00"  # the first bytes of each file, https://www.sqlite.org/fileformat.html
_NO_UTF8 = re.compile(r"Could not decode to UTF-8 column '(.*?)'")  # what the driver says


def ids_in_json(ids: BindParameter[str]) -> Select[Any]:  # Any: what SQLite makes of them
    """Return the query of the numbers of a JSON array."""
    return select(func.json_each(ids).table_valued("value").c.value)


class SqliteSession(DbapiSession):
    """One transaction on a file. A text that is no UTF-8 is read with replacement characters.

    A lock of others is waited for in slices: while SQLite waits, nothing can end it. A statement that has met one has
    done nothing, COMMIT included, and can be run again.
    """

    def _execute(self, sql: str) -> list[Row]:
        return self._when_unlocked(lambda: super(SqliteSession, self)._execute(sql))

    def _rows_of(self, statement: Statement) -> list[Row]:
        return self._when_unlocked(lambda: super(SqliteSession, self)._rows_of(statement))

    def _when_unlocked(self, run: Callable[[], Result]) -> Result:
        for _ in range(1, _slices(self.database.lock_timeout_seconds)):
            try:
                return run()
            except (sqlite3.OperationalError, DBAPIError) as error:
                if not _is_locked(error) or self.database.patience.is_stopped():
                    raise
        return run()

    def _run_again(self, statement: Statement, error: DBAPIError) -> list[Row]:
        found = _NO_UTF8.match(str(error.orig))
        if found is None:
            raise error
        warn_of_invalid_text(self.database.url.shown, found[1])
        self.driver.text_factory = with_replacements
        try:
            return self._rows_of(statement)
        finally:
            self.driver.text_factory = str


def _slices(lock_seconds: float) -> int:
    return max(1, math.ceil(lock_seconds / _SLICE_SECONDS))


def _is_locked(error: Exception) -> bool:
    return getattr(driver_error(error), "sqlite_errorname", "") == "SQLITE_BUSY"


def row_number(table: Table) -> ColumnElement[int]:
    """Return SQLite's own row number, by a name that no column of the table has."""
    taken = {column.name.lower() for column in table.columns}
    return literal_column(next((n for n in ("_rowid_", "rowid", "oid") if n not in taken), "0"), BigInteger)


def checked_url(url: URL) -> URL:
    if url.host:
        raise InvalidInput(
            f"a SQLite catalog is a file, and '{url.host}' stands where a URL has its host: write three slashes before "
            "a relative path, four before an absolute one, as in 'sqlite:///lake.sqlite' and 'sqlite:////data/lake.sqlite'"
        )
    if not url.database or url.database == ":memory:":
        raise InvalidInput(
            "a lake needs a catalog that outlives the process: name a file, as in 'sqlite:///lake.sqlite'"
        )
    return url.set(drivername="sqlite+pysqlite", database=str(Path(url.database).absolute()))


def _open_engine(url: URL, lock_seconds: float, connect_seconds: float) -> Engine:  # noqa: ARG001 # a file is opened at once
    warn_of_network(Path(url.database or ""))
    return create_engine(
        url,
        connect_args={
            "timeout": lock_seconds / _slices(lock_seconds),
            "isolation_level": None,
            "check_same_thread": False,
        },
        poolclass=QueuePool,
        # Keys of encrypted files are parameters; errors, which show statements, must not show them.
        hide_parameters=True,
        pool_reset_on_return=None,
    )


def _other_catalogs(session: Session) -> list[tuple[URL, str | None]]:
    """Return the other SQLite files in the directory of the catalog."""
    url = session.database.url.url
    here = Path(url.database or "")
    return [
        (url.set(database=str(one)), None) for one in sorted(here.parent.iterdir()) if one != here and _is_sqlite(one)
    ]


def _is_sqlite(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(_MAGIC)) == _MAGIC
    except PermissionError:  # it may be a lake: who opens it is told that it cannot be read
        return not os.path.isdir(path)  # noqa: PTH112 # a path below what we may not enter makes is_dir raise
    except OSError:  # a directory or a socket
        return False


SQLITE = CatalogDialect(
    name="sqlite",
    checked_url=checked_url,
    is_file=True,
    has_schemas=False,
    open_engine=_open_engine,
    is_alive=None,  # SQLAlchemy itself has a transaction on a connection of SQLite
    session=SqliteSession,
    # Take the write lock before reading the head: a lock upgrade would deadlock with another writer.
    begin_write="BEGIN IMMEDIATE",
    begin_read="BEGIN",
    concurrent_writers=False,
    errors=SQLITE_ERRORS,
    values=PLAIN_VALUES,
    table_exists="SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = :name",
    other_catalogs=_other_catalogs,
    inlined_tables=(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND coalesce(:name, 'main') = 'main'"
        " AND name LIKE 'ducklake~_inlined~_data~_%' ESCAPE '~' ORDER BY 1"
    ),
    columns_like=(
        "SELECT m.name, c.name FROM sqlite_master m, pragma_table_info(m.name) c WHERE m.type = 'table'"
        " AND coalesce(:name, 'main') = 'main' AND m.name LIKE :pattern ESCAPE '~' ORDER BY 1, c.cid"
    ),
    size_bytes=(  # a file has no other tables, as a rule, and nothing tells the size of one
        "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size WHERE coalesce(:name, 'main') = 'main'"
    ),
    stored_columns=None,
    update_many=None,
    ids_in_json=ids_in_json,
    inlined_rules=SQLITE_RULES,
    inlined=DbapiInlinedStore(SQLITE_RULES, row_number),
)
