"""A pipeline that applies Debezium's envelopes by key: the SQL that unwraps them, and the rules of its sink. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import types as T  # noqa: N812 # Spark's own convention

from ducklake_streaming.formats.strict_types import literal

OP = "__op"
_APPLIED = "'c', 'r', 'u', 'd', 't'"  # created, read by a first snapshot, updated, deleted, truncated; not messages
# What stands for a large value that has not changed: the database does not tell it.
UNAVAILABLE = "__debezium_unavailable_value"
_NOT_TOLD = (
    "the event does not tell the value of column {}, which is large and has not changed: set REPLICA IDENTITY of the "
    "table to FULL"
)


def unwrap_sql(envelope: T.StructType) -> str:
    """Return the SQL that makes a change of each envelope: the row that it is about, and what happened to it.

    A truncate has no row, and so no key: among the events of several partitions it has no place. It is a bad row.
    """
    row = envelope["after"].dataType
    fields = row.fields if isinstance(row, T.StructType) else ()
    columns = ", ".join(f"{_value(field)} AS {_quoted(field.name)}" for field in fields)
    return f"SELECT {columns}, op AS {OP} FROM input WHERE op IN ({_APPLIED})"  # noqa: S608 # names are quoted


def envelope_rules(except_columns: Sequence[str]) -> dict[str, Any]:  # Any: each argument is of its own type
    """Return the arguments of `DuckLakeSink` that say what the changes mean."""
    return {
        "apply_as_deletes": f"{OP} = 'd'",
        "except_columns": (*except_columns, OP),
    }


def _value(field: T.StructField) -> str:
    value = f"if(op = 'd', before.{_quoted(field.name)}, after.{_quoted(field.name)})"
    if not isinstance(field.dataType, T.StringType):
        return value
    return f"if({value} = {literal(UNAVAILABLE)}, raise_error({literal(_NOT_TOLD.format(field.name))}), {value})"


def _quoted(name: str) -> str:
    return "`{}`".format(name.replace("`", "``"))
