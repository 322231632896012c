"""Which GRANT helps where PostgreSQL has refused a statement. Pure: it reads the error alone.

The server names the object, in its own language, and never the right. What was asked for is in the statement, which
`wire` adds to the error as a note.
"""

from __future__ import annotations

import re

import psycopg

ROLES = "deploy/postgres/roles.sql has a role for each task"
_GENERAL = (
    "a reader needs SELECT on all its tables, a stream with a consumerId also INSERT and UPDATE on "
    f"ducklake_streaming_consumers, a sink also INSERT, UPDATE, DELETE, and CREATE in the schema: {ROLES}"
)
_DENIED = re.compile(r"permission denied for (table|schema|database) (.+)")
_NOT_OWNER = re.compile(r"must be owner of (?:table|relation) (.+)")
_VERB = re.compile(r"(COPY \(|\w+)")
_RIGHTS = {"SELECT": "SELECT", "COPY (": "SELECT", "INSERT": "INSERT", "COPY": "INSERT", "UPDATE": "UPDATE"}
_RIGHTS |= {"DELETE": "DELETE", "LOCK": "DELETE"}


def grant_that_helps(error: psycopg.Error) -> str:
    """Return what to run so that the statement is allowed; in general words where the error does not tell."""
    said = error.diag.message_primary or ""
    if owned := _NOT_OWNER.fullmatch(said):
        return f"only the role that has made {owned[1]} may drop it: GRANT that role to the catalog's user; {ROLES}"
    denied, verb = _DENIED.fullmatch(said), _verb(error)
    if denied is None:
        return _GENERAL
    kind, name = denied.groups()
    if kind == "table":
        right = _RIGHTS.get(verb, "SELECT, INSERT, UPDATE, DELETE")
    else:
        right = "CREATE" if verb == "CREATE" else "USAGE"
    return f"GRANT {right} ON {kind.upper()} {name} to the catalog's user; {ROLES}"


def _verb(error: psycopg.Error) -> str:
    """Return how the statement begins that was refused; nothing where it is not known."""
    notes: list[str] = getattr(error, "__notes__", [])
    found = _VERB.match(notes[-1].strip().upper()) if notes else None
    return found[0] if found else ""
