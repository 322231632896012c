"""The schema of an Iceberg table, which its metadata have in JSON → DuckLake's type texts, and ids of fields. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from ducklake_core.errors import InvalidInput
from ducklake_core.files.field_match import field_id
from ducklake_core.spec.names import fold
from ducklake_core.tables_of_others.type_words import TypeWords

_SCALARS = {
    "boolean": "boolean", "int": "int32", "long": "int64", "float": "float32", "double": "float64", "date": "date",
    "time": "time", "timestamp": "timestamp", "timestamptz": "timestamptz", "string": "varchar", "uuid": "uuid",
    "binary": "blob", "fixed": "blob",
}  # fmt: skip
_WORDS = TypeWords("Iceberg", _SCALARS, "list", "element", "key", "value")


def iceberg_columns(schema: Mapping[str, Any]) -> tuple[dict[str, str], frozenset[str]]:  # Any: what JSON holds
    """Return the type of each column by name, and the columns that forbid nulls."""
    fields = schema["fields"]
    required = frozenset(field["name"] for field in fields if field.get("required"))
    return {field["name"]: _WORDS.type_text(field["type"], field["name"]) for field in fields}, required


def iceberg_fields(schema: Mapping[str, Any]) -> dict[str, int]:  # Any: see above
    """Return the id of each column and of each field of its structs, by its path in small letters."""
    return {path: number for field in schema["fields"] for path, number in _ids(field, "")}


def check_field_ids(fields: Sequence[pa.Field], ids: Mapping[str, int], parent: str = "") -> None:
    """Refuse a file that calls a column otherwise than the table does now, or another one by its name."""
    names = {number: path for path, number in ids.items()}
    for found in fields:
        number, path = field_id(found), f"{parent}{fold(found.name)}"
        if number is None:
            continue
        if ids.get(path, number) != number or names.get(number, path) != path:
            raise InvalidInput(
                f"cannot take over a file with column '{path}', which is another one in the table now: columns were "
                "renamed, or dropped and added again; let Iceberg write the files anew first, by rewrite_data_files"
            )
        if pa.types.is_struct(found.type):
            check_field_ids(list(found.type), ids, f"{path}.")


def _ids(field: Mapping[str, Any], parent: str) -> list[tuple[str, int]]:
    path = f"{parent}{fold(field['name'])}"
    found = [(path, int(field["id"]))]
    if isinstance(field["type"], Mapping) and field["type"]["type"] == "struct":
        found += [pair for child in field["type"]["fields"] for pair in _ids(child, f"{path}.")]
    return found
