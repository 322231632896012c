"""The schema of an Iceberg table, which its metadata have in JSON → DuckLake's type texts, and ids of fields. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from ducklake_core.errors import InvalidInput
from ducklake_core.files.field_match import field_id
from ducklake_core.spec.names import fold
from ducklake_core.spec.paths import hide_password
from ducklake_core.spec.types import is_list
from ducklake_core.tables_of_others.foreign_table import ForeignFile, ForeignTable
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
    """Return the id of each column and of all that is below it, by its path in small letters."""
    return {fold(path): number for path, number in _ids_below("", schema)}


def mapped_fields(mapping: Sequence[Mapping[str, Any]], parent: str = "") -> dict[str, int]:  # Any: see above
    """Return the ids of a table's name mapping, by the path of each name."""
    found: dict[str, int] = {}
    for entry in mapping:
        for name in entry["names"]:
            if "field-id" in entry:
                found[f"{parent}{name}"] = int(entry["field-id"])
            found |= mapped_fields(entry.get("fields") or (), f"{parent}{name}.")
    return found


def check_fields(schema: pa.Schema, file: ForeignFile, table: ForeignTable) -> None:
    """Refuse a file in which a name is another column than in the table now, or whose own columns are elsewhere."""
    found = dict(_file_ids(schema, table.ids_by_name))
    names = {number: path for path, number in table.field_ids.items()}
    for path, number in found.items():
        wanted = table.field_ids.get(path, number)
        if wanted != number or (number is not None and names.get(number, path) != path):
            why = "columns were renamed, or dropped and added again, or the file has no field ids"
            raise _refusal(file, f"with column '{path}', which is another one in the table now: {why}")
    for number in sorted(file.own_ids & names.keys()):
        if names[number] not in found:
            raise _refusal(file, f"without column '{names[number]}', by which the table is partitioned")


def _refusal(file: ForeignFile, what: str) -> InvalidInput:
    return InvalidInput(
        f"cannot take over file '{hide_password(file.path)}' {what}; let Iceberg write the files anew first, by "
        "rewrite_data_files",
        path=file.path,
    )


def _file_ids(schema: pa.Schema, ids_by_name: Mapping[str, int]) -> Iterator[tuple[str, int | None]]:
    """Yield each node of a file by its path in small letters; ids by name count where no node has one of its own."""
    nodes = [node for one in schema for node in _nodes(one, one.name)]
    has_ids = any(field_id(one) is not None for _, one in nodes)
    for path, one in nodes:
        yield fold(path), field_id(one) if has_ids else ids_by_name.get(path)


def _nodes(one: pa.Field, path: str) -> Iterator[tuple[str, pa.Field]]:
    yield path, one
    if pa.types.is_struct(one.type):
        below = [(child.name, child) for child in one.type]
    elif is_list(one.type):
        below = [("element", one.type.value_field)]
    elif pa.types.is_map(one.type):
        below = [("key", one.type.key_field), ("value", one.type.item_field)]
    else:
        below = []
    for name, child in below:
        yield from _nodes(child, f"{path}.{name}")


def _ids_below(path: str, type_: Any) -> Iterator[tuple[str, int]]:  # Any: see above
    """Yield the path and the id of all that is below a type, which may be a schema."""
    if isinstance(type_, str):
        return
    if "fields" in type_:
        below = [(one["name"], one["id"], one["type"]) for one in type_["fields"]]
    else:
        below = [(name, type_[f"{name}-id"], type_[name]) for name in ("element", "key", "value") if name in type_]
    for name, number, inner in below:
        yield f"{path}{name}", int(number)
        yield from _ids_below(f"{path}{name}.", inner)
