"""What the drivers of catalog databases raise, and which error of ours that is. Runs at the edge of a session.

PostgreSQL's errors have codes (https://www.postgresql.org/docs/current/errcodes-appendix.html), SQLite's have names
(https://sqlite.org/rescode.html): the longest entry that a code begins with tells what it is, and what helps.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto

import psycopg
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from ducklake_core.errors import (
    CatalogError,
    CatalogForbidden,
    CatalogLimitExceeded,
    CatalogTableMissing,
    CatalogUnavailable,
    ContentionError,
    CorruptCatalog,
    DuckLakeError,
    InvalidInput,
)

# What a session may raise: some statements go through SQLAlchemy, some straight to the driver.
DATABASE_ERRORS = (SQLAlchemyError, sqlite3.Error, psycopg.Error)


class Fault(Enum):
    """What an error of a driver means for us."""

    AWAY = auto()  # not reached, not ready or locked: the same may go well in a moment
    CONTENTION = auto()  # another has written the same: the same may go well at once, on what is there now
    NOT_LET_IN = auto()
    FORBIDDEN = auto()
    WRONG_ADDRESS = auto()
    LIMIT = auto()
    MISSING = auto()
    INVALID = auto()
    CORRUPT = auto()
    REFUSED = auto()  # whatever else: a fault of the catalog, of its database or of ours


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a code means, and what helps."""

    fault: Fault
    helps: str = ""


_PRIVILEGES = (
    "a reader needs SELECT on all its tables, a writer and a stream with a consumerId need INSERT, UPDATE, DELETE and "
    "CREATE, too"
)
_LOGIN = (
    "check the user, the password (in the URL, PGPASSWORD or the file PGPASSFILE) and what the server's pg_hba.conf "
    "allows"
)
_PARAMETERS = "check the parameters of the catalog's URL, and the PG… variables of the environment"

SQLSTATES: Mapping[str, Meaning] = {
    "08": Meaning(Fault.AWAY),  # the connection; PgBouncer, too, for servers that it cannot reach
    "08001": Meaning(Fault.WRONG_ADDRESS, _PARAMETERS),  # no server sends it: see `connections`
    "22003": Meaning(Fault.INVALID, "give a number that fits"),
    "23505": Meaning(Fault.CONTENTION),  # the snapshot's primary key is the lake-wide commit lock
    "25006": Meaning(Fault.FORBIDDEN, _PRIVILEGES),  # a server that only reads
    "25P03": Meaning(Fault.AWAY),  # the server has ended a transaction that was idle for too long
    "25P04": Meaning(Fault.AWAY),  # … or that took too long
    "28": Meaning(Fault.NOT_LET_IN, _LOGIN),
    "3D": Meaning(Fault.WRONG_ADDRESS, "create the database, or correct its name in the catalog's URL"),
    "3F": Meaning(Fault.MISSING),  # a schema
    "40": Meaning(Fault.CONTENTION),  # a row that another commit has changed; of two that wait for each other, one
    "42501": Meaning(Fault.FORBIDDEN, _PRIVILEGES),
    "42710": Meaning(Fault.CONTENTION),  # of two that create a table at once, one finds the other's type
    "42P01": Meaning(Fault.MISSING),
    "42P06": Meaning(Fault.CONTENTION),  # as 42710, of schemas
    "42P07": Meaning(Fault.CONTENTION),  # … and of tables
    "53": Meaning(Fault.AWAY),  # no connection, memory or disk left: others may give some back
    "53400": Meaning(Fault.LIMIT, "raise that limit in the server's configuration"),
    "54": Meaning(Fault.LIMIT, "write such rows to files: set data_inlining_row_limit of the table to 0"),
    "55": Meaning(Fault.AWAY),  # locked or used by another
    "57": Meaning(Fault.AWAY),  # it stops, starts or has cancelled a statement
    "57P04": Meaning(Fault.WRONG_ADDRESS, "the database was dropped: restore it, or correct the catalog's URL"),
    "58": Meaning(Fault.AWAY),  # the server's operating system
    "XX001": Meaning(Fault.CORRUPT, "restore the database from a backup"),
    "XX002": Meaning(Fault.CORRUPT, "REINDEX what the server names"),
}
# Of a server that refuses a connection: there, all that is not passing is a fault of the address.
_REFUSED_AT_THE_DOOR: Mapping[Fault, Meaning] = {
    fault: Meaning(Fault.WRONG_ADDRESS, _PARAMETERS) for fault in (Fault.INVALID, Fault.LIMIT, Fault.REFUSED)
}

SQLITE_CODES: Mapping[str, Meaning] = {
    "SQLITE_BUSY": Meaning(Fault.AWAY),
    "SQLITE_LOCKED": Meaning(Fault.AWAY),
    "SQLITE_SCHEMA": Meaning(Fault.AWAY),  # another has changed it while the statement was prepared
    "SQLITE_INTERRUPT": Meaning(Fault.AWAY),
    "SQLITE_IOERR": Meaning(Fault.AWAY),
    "SQLITE_NOMEM": Meaning(Fault.AWAY),
    "SQLITE_FULL": Meaning(Fault.AWAY),
    "SQLITE_CONSTRAINT_PRIMARYKEY": Meaning(Fault.CONTENTION),  # see 23505
    "SQLITE_READONLY": Meaning(Fault.FORBIDDEN, "a writer needs to write to the file and to its directory"),
    "SQLITE_PERM": Meaning(Fault.FORBIDDEN, "see who may read and write the file"),
    "SQLITE_AUTH": Meaning(Fault.FORBIDDEN, "see who may read and write the file"),
    "SQLITE_CANTOPEN": Meaning(Fault.FORBIDDEN, "see that its directory is there, and who may read and write it"),
    "SQLITE_TOOBIG": Meaning(Fault.LIMIT, "write such rows to files: set data_inlining_row_limit of the table to 0"),
    "SQLITE_CORRUPT": Meaning(Fault.CORRUPT, "restore the file from a backup"),
    "SQLITE_NOTADB": Meaning(Fault.CORRUPT, "name the catalog's own file"),
}


def named(error: BaseException, act: str, catalog: str, *, code: str | None = None) -> DuckLakeError:
    """Return the error that says what a driver's error was: what was attempted, on which catalog, and what helps.

    `act` is such as "read", "connect to". `code`: the reason of a refused connection, which its error does not have.
    """
    original = driver_error(error)
    meaning = meaning_of(original, code)
    found = f"catalog '{catalog}': {first_line(original)}"
    helps = f"; {meaning.helps}" if meaning.helps else ""
    sqlstate = code or getattr(original, "sqlstate", None)
    facts = {} if sqlstate is None else {"sqlstate": sqlstate}
    match meaning.fault:
        case Fault.AWAY:
            return CatalogUnavailable(f"cannot {act} {found}", **facts)
        case Fault.CONTENTION:
            return ContentionError(f"another has changed {found}; retries are exhausted", **facts)
        case Fault.FORBIDDEN:
            return CatalogForbidden(f"may not {act} {found}{helps}", **facts)
        case fault:
            return _TERMINAL[fault](f"cannot {act} {found}{helps}", **facts)


_TERMINAL: Mapping[Fault, type[DuckLakeError]] = {
    Fault.NOT_LET_IN: CatalogForbidden,
    Fault.WRONG_ADDRESS: CatalogError,
    Fault.LIMIT: CatalogLimitExceeded,
    Fault.MISSING: CatalogTableMissing,
    Fault.INVALID: InvalidInput,
    Fault.CORRUPT: CorruptCatalog,
    Fault.REFUSED: CatalogError,
}


def meaning_of(error: BaseException, code: str | None = None) -> Meaning:
    """Return what a driver's own error means; `code` is that of a refused connection."""
    if code is not None:
        meaning = _longest(SQLSTATES, code)
        return _REFUSED_AT_THE_DOOR.get(meaning.fault, meaning)
    if isinstance(error, psycopg.Error):
        return _of_postgres(error)
    if isinstance(error, sqlite3.Error):
        return _of_sqlite(error)
    return Meaning(Fault.AWAY if isinstance(error, PoolTimeout) else Fault.REFUSED)


def _of_postgres(error: psycopg.Error) -> Meaning:
    if error.sqlstate is not None:
        return _longest(SQLSTATES, error.sqlstate)
    # The client's own: a connection that is lost has no code.
    return Meaning(
        Fault.AWAY if isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError)) else Fault.REFUSED
    )


def _of_sqlite(error: sqlite3.Error) -> Meaning:
    # SQLite has no code of its own for it: SQLITE_ERROR covers every mistake in a statement.
    if isinstance(error, sqlite3.OperationalError) and str(error).startswith("no such table"):
        return Meaning(Fault.MISSING)
    return _longest(SQLITE_CODES, getattr(error, "sqlite_errorname", ""))


def _longest(known: Mapping[str, Meaning], code: str) -> Meaning:
    prefixes = [prefix for prefix in known if code.startswith(prefix)]
    return known[max(prefixes, key=len)] if prefixes else Meaning(Fault.REFUSED)


def driver_error(error: BaseException) -> BaseException:
    """Return the driver's own error beneath what SQLAlchemy and we have made of it."""
    if isinstance(error, DBAPIError) and error.orig is not None:
        return error.orig
    if isinstance(error, DuckLakeError) and error.__cause__ is not None:
        return driver_error(error.__cause__)
    return error


def is_stale_assumption(error: BaseException) -> bool:
    """Tell whether the database has found that the head is not what `queries.guard` was given."""
    return isinstance(driver_error(error), psycopg.errors.DivisionByZero)


def is_other_layout(error: BaseException) -> bool:
    """Tell whether PostgreSQL does not know a table or column, or not as we do: class 42, errors in a statement.

    In SQLite nothing changes while a transaction runs.
    """
    original = driver_error(error)
    return isinstance(original, psycopg.ProgrammingError) and (original.sqlstate or "").startswith("42")


def first_line(error: BaseException) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
