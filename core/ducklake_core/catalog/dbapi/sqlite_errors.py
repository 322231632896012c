"""What SQLite's errors mean.

They have names (https://sqlite.org/rescode.html): the longest entry that a name begins with tells what it is, and what
helps.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping

from ducklake_core.catalog.driver_errors import DriverErrors, Fault, Meaning, longest_match

SQLITE_CODES: Mapping[str, Meaning] = {
    "SQLITE_BUSY": Meaning(Fault.AWAY),
    "SQLITE_LOCKED": Meaning(Fault.AWAY),
    "SQLITE_SCHEMA": Meaning(Fault.AWAY),  # another has changed it while the statement was prepared
    "SQLITE_INTERRUPT": Meaning(Fault.AWAY),
    "SQLITE_IOERR": Meaning(Fault.AWAY),
    "SQLITE_NOMEM": Meaning(Fault.AWAY),
    "SQLITE_FULL": Meaning(Fault.AWAY),
    "SQLITE_CONSTRAINT_PRIMARYKEY": Meaning(Fault.CONTENTION),  # the snapshot's key is the lake-wide commit lock
    "SQLITE_READONLY": Meaning(Fault.FORBIDDEN, "a writer needs to write to the file and to its directory"),
    "SQLITE_PERM": Meaning(Fault.FORBIDDEN, "see who may read and write the file"),
    "SQLITE_AUTH": Meaning(Fault.FORBIDDEN, "see who may read and write the file"),
    "SQLITE_CANTOPEN": Meaning(Fault.FORBIDDEN, "see that its directory is there, and who may read and write it"),
    "SQLITE_TOOBIG": Meaning(Fault.LIMIT, "write such rows to files: set data_inlining_row_limit of the table to 0"),
    "SQLITE_CORRUPT": Meaning(Fault.CORRUPT, "restore the file from a backup"),
    "SQLITE_NOTADB": Meaning(Fault.CORRUPT, "name the catalog's own file"),
}


def meaning_of(error: Exception) -> Meaning:
    """Return what an error of sqlite3 means."""
    # SQLite has no code of its own for it: SQLITE_ERROR covers every mistake in a statement.
    if isinstance(error, sqlite3.OperationalError) and str(error).startswith("no such table"):
        return Meaning(Fault.MISSING)
    return longest_match(SQLITE_CODES, getattr(error, "sqlite_errorname", ""))


# Nothing changes while a transaction runs, and one whose COMMIT fails is not committed.
SQLITE_ERRORS = DriverErrors(raised=sqlite3.Error, meaning_of=meaning_of)
