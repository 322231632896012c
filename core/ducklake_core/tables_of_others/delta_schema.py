"""The schema of a Delta table, which its log has in JSON → DuckLake's type texts. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ducklake_core.tables_of_others.type_words import TypeWords

_SCALARS = {
    "string": "varchar", "binary": "blob", "boolean": "boolean", "date": "date", "long": "int64", "integer": "int32",
    "short": "int16", "byte": "int8", "float": "float32", "double": "float64", "timestamp": "timestamptz",
    "timestamp_ntz": "timestamp",
}  # fmt: skip
_WORDS = TypeWords("Delta Lake", _SCALARS, "array", "elementType", "keyType", "valueType")


def delta_columns(schema: Mapping[str, Any]) -> tuple[dict[str, str], frozenset[str]]:  # Any: what JSON holds
    """Return the type of each column by name, and the columns that forbid nulls."""
    fields = schema["fields"]
    required = frozenset(field["name"] for field in fields if field.get("nullable") is False)
    return {field["name"]: _WORDS.type_text(field["type"], field["name"]) for field in fields}, required
