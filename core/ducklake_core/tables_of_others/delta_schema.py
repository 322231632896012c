"""The schema of a Delta table, as its log has it in JSON → DuckLake's type texts. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ducklake_core.errors import UnsupportedType
from ducklake_core.spec.names import quoted

_SCALARS = {
    "string": "varchar",
    "long": "int64",
    "integer": "int32",
    "short": "int16",
    "byte": "int8",
    "float": "float32",
    "double": "float64",
    "boolean": "boolean",
    "binary": "blob",
    "date": "date",
    "timestamp": "timestamptz",
    "timestamp_ntz": "timestamp",
}


def delta_columns(schema: Mapping[str, Any]) -> tuple[dict[str, str], frozenset[str]]:  # Any: what JSON holds
    """Return the type of each column by name, and the columns that forbid nulls."""
    fields = schema["fields"]
    required = frozenset(field["name"] for field in fields if field.get("nullable") is False)
    return {field["name"]: _type(field["type"], field["name"]) for field in fields}, required


def _type(type_: Any, name: str) -> str:  # Any: a name, or an object that describes a nested type
    if isinstance(type_, str):
        if re.fullmatch(r"decimal\(\d+,\s*\d+\)", type_):
            return type_
        if type_ not in _SCALARS:
            raise UnsupportedType(f"column '{name}' has Delta's type '{type_}', which a lake cannot hold", column=name)
        return _SCALARS[type_]
    match type_["type"]:
        case "struct":
            fields = [f"{quoted(f['name'])} {_type(f['type'], name)}" for f in type_["fields"]]
            return f"struct({', '.join(fields)})"
        case "array":
            return f"list({_type(type_['elementType'], name)})"
        case "map":
            return f"map({_type(type_['keyType'], name)}, {_type(type_['valueType'], name)})"
        case other:
            raise UnsupportedType(f"column '{name}' has Delta's type '{other}', which a lake cannot hold", column=name)
