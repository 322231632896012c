"""A pipeline that applies Debezium's envelopes by key: the SQL that unwraps them, and the rules of its sink. Pure."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from hashlib import md5
from typing import Any
from uuid import UUID

from pyspark.sql import types as T  # noqa: N812 # Spark's own convention

from ducklake_core.spec.names import fold
from ducklake_streaming.formats.strict_types import literal, quoted

OP = "__op"
KEPT = "__kept"
OLD_KEYS = "__old_keys"
_APPLIED = "'c', 'r', 'u', 'd', 't'"  # created, read by a first snapshot, updated, deleted, truncated; not messages
# What stands for a large value that has not changed: the database does not tell it.
UNAVAILABLE = "__debezium_unavailable_value"
_BYTES = UNAVAILABLE.encode()
# The same where bytes come as text: as they are, in base 64, or as hexadecimal digits (`binary.handling.mode`).
_TEXTS = (UNAVAILABLE, b64encode(_BYTES).decode(), _BYTES.hex())
_BINARY = f"CAST({literal(UNAVAILABLE)} AS BINARY)"
_UUID = str(UUID(bytes=md5(_BYTES, usedforsecurity=False).digest(), version=3))  # as Java names it, in arrays of them


def unwrap_sql(envelope: T.StructType, keys: Sequence[str]) -> str:
    """Return the SQL that makes a change of each envelope: the row that it is about, and what happened to it.

    A truncate has no row, and so no key: among the events of several partitions it has no place. It is a bad row, but
    where the topic has one partition.
    """
    row = envelope["after"].dataType
    fields = row.fields if isinstance(row, T.StructType) else ()
    columns = ", ".join(f"{_value(field)} AS {quoted(field.name)}" for field in fields)
    names = {fold(field.name) for field in fields}
    old_keys = _old_keys([key for key in keys if fold(key) in names])  # who applies the rows tells which is missing
    said = f"{_kept(fields)} AS {KEPT}, {old_keys} AS {OLD_KEYS}, op AS {OP}"
    return f"SELECT {columns}, {said} FROM input WHERE op IN ({_APPLIED})"  # noqa: S608 # names are quoted


def envelope_rules(
    except_columns: Sequence[str], *, applies_truncates: bool
) -> dict[str, Any]:  # Any: each argument is of its own type
    """Return the arguments of `DuckLakeSink` that say what the changes mean."""
    return {
        "apply_as_deletes": f"{OP} = 'd'",
        "apply_as_truncates": f"{OP} = 't'" if applies_truncates else None,
        "kept_columns": KEPT,
        "old_keys": OLD_KEYS,
        "except_columns": (*except_columns, OP),
    }


def _value(field: T.StructField) -> str:
    return f"if(op = 'd', before.{quoted(field.name)}, after.{quoted(field.name)})"


def _old_keys(keys: Sequence[str]) -> str:
    """Return the SQL of the key that an update has changed, null where it has not, or does not tell.

    Where the key is the one of Debezium's records, it sends a delete and an insert itself.
    """
    if not keys:
        return "CAST(NULL AS STRING)"
    befores = [f"before.{quoted(key)}" for key in keys]
    has_other = " OR ".join(f"before.{quoted(key)} <> after.{quoted(key)}" for key in keys)
    old = ", ".join(f"{literal(key)}, {before}" for key, before in zip(keys, befores, strict=True))
    is_told = " AND ".join(f"{before} IS NOT NULL" for before in befores)
    return f"if(op = 'u' AND {is_told} AND ({has_other}), named_struct({old}), NULL)"


def _kept(fields: Sequence[T.StructField]) -> str:
    """Return the SQL of the names of columns that an event does not tell."""
    found = [f"if({untold}, {literal(f.name)}, NULL)" for f in fields if (untold := _untold(f)) is not None]
    return f"array_compact(array({', '.join(found)}))" if found else "CAST(array() AS array<string>)"


def _untold(field: T.StructField) -> str | None:
    """Return the condition under which an event does not tell a column; None: it always does."""
    value = f"after.{quoted(field.name)}"
    match field.dataType:
        case T.MapType(keyType=T.StringType()):
            return f"map_contains_key({value}, {literal(UNAVAILABLE)})"
        case T.ArrayType() as array:
            found = [f"array({elements})" for elements in _elements_untold(array.elementType)]
        case T.StringType():
            found = [*map(literal, _TEXTS)]
        case T.BinaryType():
            found = [_BINARY]
        case _:
            found = []
    return f"{value} IN ({', '.join(found)})" if found else None


def _elements_untold(element: T.DataType) -> list[str]:
    """Return what an array of such elements has in it when it is not told; nothing: it always is."""
    match element:
        case T.StringType():
            return [*map(literal, (*_TEXTS, _UUID))]
        case T.BinaryType():
            return [_BINARY]
        case T.IntegerType() | T.LongType():
            return [", ".join(map(str, _BYTES))]
        case T.DateType():
            return [", ".join(f"date_from_unix_date({byte})" for byte in _BYTES)]
        case _:
            return []
