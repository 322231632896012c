"""What PostgreSQL's errors mean, and those of psycopg that have no code of the server.

They have codes (https://www.postgresql.org/docs/current/errcodes-appendix.html): the longest entry that a code begins
with tells what it is, and what helps.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import cast

import psycopg

from ducklake_core.catalog.driver_errors import DriverErrors, Fault, Meaning, driver_error, longest_match
from ducklake_core.catalog.postgres.connections import refusal_code
from ducklake_core.catalog.postgres.grants import grant_that_helps

_READ_ONLY = (
    "the server or the database lets nobody write: connect to the primary, or see default_transaction_read_only"
)
_LOGIN = (
    "check the user, the password (in the URL, PGPASSWORD or the file PGPASSFILE) and what the server's pg_hba.conf "
    "allows"
)
_STATEMENT_TIMEOUT = "if that happens again and again, raise statement_timeout for the catalog's user on the server"
_PARAMETERS = "check the parameters of the catalog's URL, and the PG… variables of the environment"

SQLSTATES: Mapping[str, Meaning] = {
    "08": Meaning(Fault.AWAY),  # the connection; PgBouncer, too, for servers that it cannot reach
    "08001": Meaning(Fault.WRONG_ADDRESS, _PARAMETERS),  # no server sends it: see `connections`
    "22003": Meaning(Fault.INVALID, "give a number that fits"),
    "23505": Meaning(Fault.CONTENTION),  # the snapshot's primary key is the lake-wide commit lock
    "25006": Meaning(Fault.READ_ONLY, _READ_ONLY),
    "25P03": Meaning(Fault.AWAY),  # the server has ended a transaction that was idle for too long
    "25P04": Meaning(Fault.AWAY),  # … or that took too long
    "28": Meaning(Fault.NOT_LET_IN, _LOGIN),
    "3D": Meaning(Fault.WRONG_ADDRESS, "create the database, or correct its name in the catalog's URL"),
    "3F": Meaning(Fault.MISSING),  # a schema
    "40": Meaning(Fault.CONTENTION),  # a row that another commit has changed; of two that wait for each other, one
    "42501": Meaning(Fault.FORBIDDEN),
    "42710": Meaning(Fault.CONTENTION),  # of two that create a table at once, one finds the other's type
    "42P01": Meaning(Fault.MISSING),
    "42P06": Meaning(Fault.CONTENTION),  # as 42710, of schemas
    "42P07": Meaning(Fault.CONTENTION),  # … and of tables
    "53": Meaning(Fault.AWAY),  # no connection, memory or disk left: others may give some back
    "53400": Meaning(Fault.LIMIT, "raise that limit in the server's configuration"),
    "54": Meaning(Fault.LIMIT, "write such rows to files: set data_inlining_row_limit of the table to 0"),
    "55": Meaning(Fault.AWAY),  # locked or used by another
    "57": Meaning(Fault.AWAY),  # it stops or starts
    "57014": Meaning(
        Fault.AWAY, _STATEMENT_TIMEOUT
    ),  # it has cancelled a statement: by a limit of time, or for another
    "57P04": Meaning(Fault.WRONG_ADDRESS, "the database was dropped: restore it, or correct the catalog's URL"),
    "58": Meaning(Fault.AWAY),  # the server's operating system
    "XX001": Meaning(Fault.CORRUPT, "restore the database from a backup"),
    "XX002": Meaning(Fault.CORRUPT, "REINDEX what the server names"),
}
# Of a server that refuses a connection: there, all that is not passing is a fault of the address.
_REFUSED_AT_THE_DOOR: Mapping[Fault, Meaning] = {
    fault: Meaning(Fault.WRONG_ADDRESS, _PARAMETERS) for fault in (Fault.INVALID, Fault.LIMIT, Fault.REFUSED)
}


def meaning_of(error: Exception) -> Meaning:
    """Return what an error of psycopg means."""
    code = cast("psycopg.Error", error).sqlstate
    if code is not None:
        meaning = longest_match(SQLSTATES, code)
        helps = grant_that_helps(cast("psycopg.Error", error)) if meaning.fault is Fault.FORBIDDEN else meaning.helps
        return replace(meaning, helps=helps, sqlstate=code)
    # The client's own: a connection that is lost has no code.
    is_lost = isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError))
    return Meaning(Fault.AWAY if is_lost else Fault.REFUSED)


def refusal_meaning_of(error: Exception) -> Meaning:
    """Return what it means that no connection was made; the server is asked again for the code, which psycopg lacks."""
    code = refusal_code(cast("psycopg.Error", error))
    if code is None:
        return meaning_of(error)
    meaning = longest_match(SQLSTATES, code)
    return replace(_REFUSED_AT_THE_DOOR.get(meaning.fault, meaning), sqlstate=code)


def is_stale_assumption(error: BaseException) -> bool:
    """Tell whether the server has found that the head is not what `queries.guard` was given."""
    return isinstance(driver_error(error), psycopg.errors.DivisionByZero)


def is_other_layout(error: BaseException) -> bool:
    """Tell whether the server does not know a table or column, or not as we do: class 42, errors in a statement."""
    original = driver_error(error)
    return isinstance(original, psycopg.ProgrammingError) and (original.sqlstate or "").startswith("42")


def leaves_doubt(error: BaseException) -> bool:
    """Tell whether a server or a pooler that still answers does not know what became of a COMMIT."""
    code = error.sqlstate if isinstance(error, psycopg.Error) else None
    return (code or "").startswith("08") or code == "40003"


POSTGRES_ERRORS = DriverErrors(
    raised=psycopg.Error,
    meaning_of=meaning_of,
    refusal=refusal_meaning_of,
    is_stale_assumption=is_stale_assumption,
    is_other_layout=is_other_layout,
    leaves_doubt=leaves_doubt,
)
