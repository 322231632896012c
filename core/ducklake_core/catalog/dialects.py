"""What differs between catalog databases, as data: one frozen record per database."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import psycopg
from psycopg import errors as pg
from sqlalchemy.exc import DBAPIError

# What a session may raise: some statements go through SQLAlchemy, some straight to the driver.
DATABASE_ERRORS = (DBAPIError, sqlite3.DatabaseError, psycopg.Error)


@dataclass(frozen=True, slots=True)
class CatalogDialect:
    """The traits of one catalog database."""

    name: str
    begin_write: str
    begin_read: str
    is_contention: Callable[[BaseException], bool]
    is_transient: Callable[[BaseException], bool]
    is_missing_table: Callable[[BaseException], bool]
    is_forbidden: Callable[[BaseException], bool]
    is_over_limit: Callable[[BaseException], bool]  # a row, a value or a table is larger than it can be
    table_exists: str  # SQL that answers for the name bound as `name`
    inlined_tables: str  # SQL that lists the tables of inlined rows in the schema bound as `name`; None: the usual one
    stored_columns: str | None  # SQL that lists the columns of the table bound as `name`; None: names are never changed
    has_pipeline: bool  # several statements travel in one round trip


def driver_error(error: BaseException) -> BaseException:
    """Return the driver's own error beneath SQLAlchemy's wrapping."""
    return error.orig if isinstance(error, DBAPIError) and error.orig is not None else error


def _pg_contention(error: BaseException) -> bool:
    # The snapshot's primary key is the lake-wide commit lock; a row another commit changed is a serialization failure.
    # Of two that create a table at once, one finds a key or a type that the other has just made.
    kinds = (pg.UniqueViolation, pg.SerializationFailure, pg.DeadlockDetected, pg.DuplicateObject)
    return isinstance(driver_error(error), kinds)


def _pg_transient(error: BaseException) -> bool:
    return isinstance(driver_error(error), (psycopg.OperationalError, psycopg.InterfaceError))


def is_wrong_guess(error: BaseException) -> bool:
    """Tell whether the database has found that the head is not what `queries.guard` was given."""
    return isinstance(driver_error(error), pg.DivisionByZero)


def _pg_missing(error: BaseException) -> bool:
    return isinstance(driver_error(error), (pg.UndefinedTable, pg.InvalidSchemaName))


def _pg_forbidden(error: BaseException) -> bool:
    return isinstance(driver_error(error), (pg.InsufficientPrivilege, pg.ReadOnlySqlTransaction))


def _pg_over_limit(error: BaseException) -> bool:
    # https://www.postgresql.org/docs/current/limits.html, errors of class 54: 54000, 54001, 54011 and 54023.
    kinds = (pg.ProgramLimitExceeded, pg.StatementTooComplex, pg.TooManyColumns, pg.TooManyArguments)
    return isinstance(driver_error(error), kinds)


def _sqlite_over_limit(error: BaseException) -> bool:
    return _sqlite_code(error) == "SQLITE_TOOBIG"


def _sqlite_forbidden(error: BaseException) -> bool:
    return _sqlite_code(error).startswith(("SQLITE_READONLY", "SQLITE_PERM", "SQLITE_CANTOPEN"))


def _sqlite_code(error: BaseException) -> str:
    return getattr(driver_error(error), "sqlite_errorname", "")


def _sqlite_contention(error: BaseException) -> bool:
    return _sqlite_code(error).startswith(("SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_CONSTRAINT_PRIMARYKEY"))


def _sqlite_transient(error: BaseException) -> bool:
    return _sqlite_code(error).startswith(("SQLITE_BUSY", "SQLITE_LOCKED"))


def _sqlite_missing(error: BaseException) -> bool:
    # SQLite has no own code for it: SQLITE_ERROR covers every mistake in a statement.
    original = driver_error(error)
    return isinstance(original, sqlite3.OperationalError) and str(original).startswith("no such table")


DIALECTS: Mapping[str, CatalogDialect] = {
    "postgresql": CatalogDialect(
        name="postgresql",
        # One consistent view of several catalog tables, and an error instead of a silently stale write.
        begin_write="BEGIN ISOLATION LEVEL REPEATABLE READ",
        begin_read="BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
        is_contention=_pg_contention,
        is_transient=_pg_transient,
        is_missing_table=_pg_missing,
        is_forbidden=_pg_forbidden,
        is_over_limit=_pg_over_limit,
        table_exists="SELECT to_regclass(:name) IS NOT NULL",
        inlined_tables=(
            "SELECT tablename::text FROM pg_tables WHERE schemaname = coalesce(CAST(:name AS text), current_schema())"
            r" AND tablename LIKE 'ducklake\_inlined\_data\_%' ORDER BY 1"
        ),
        stored_columns=(
            "SELECT attname FROM pg_attribute WHERE attrelid = to_regclass(:name) AND attnum > 0 ORDER BY attnum"
        ),
        has_pipeline=True,
    ),
    "sqlite": CatalogDialect(
        name="sqlite",
        # Take the write lock before reading the head: a lock upgrade would deadlock with another writer.
        begin_write="BEGIN IMMEDIATE",
        begin_read="BEGIN",
        is_contention=_sqlite_contention,
        is_transient=_sqlite_transient,
        is_missing_table=_sqlite_missing,
        is_forbidden=_sqlite_forbidden,
        is_over_limit=_sqlite_over_limit,
        table_exists="SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = :name",
        inlined_tables=(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND coalesce(:name, 'main') = 'main'"
            " AND name LIKE 'ducklake~_inlined~_data~_%' ESCAPE '~' ORDER BY 1"
        ),
        stored_columns=None,
        has_pipeline=False,
    ),
}
