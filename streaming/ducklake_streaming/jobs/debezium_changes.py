"""A pipeline that applies Debezium's envelopes by key: the SQL that unwraps them, and the rules of its sink. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import types as T  # noqa: N812 # Spark's own convention

OP = "__op"
_APPLIED = "'c', 'r', 'u', 'd', 't'"  # created, read by a first snapshot, updated, deleted, truncated; not messages


def unwrap_sql(envelope: T.StructType) -> str:
    """Return the SQL that makes a change of each envelope: the row that it is about, and what happened to it."""
    row = envelope["after"].dataType
    names: Sequence[str] = row.names if isinstance(row, T.StructType) else ()
    columns = ", ".join(f"coalesce(after, before).{_quoted(name)} AS {_quoted(name)}" for name in names)
    return f"SELECT {columns}, op AS {OP} FROM input WHERE op IN ({_APPLIED})"  # noqa: S608 # names are quoted


def envelope_rules(except_columns: Sequence[str]) -> dict[str, Any]:  # Any: each argument is of its own type
    """Return the arguments of `DuckLakeSink` that say what the changes mean."""
    return {
        "apply_as_deletes": f"{OP} = 'd'",
        "apply_as_truncates": f"{OP} = 't'",
        "except_columns": (*except_columns, OP),
    }


def _quoted(name: str) -> str:
    return "`{}`".format(name.replace("`", "``"))
