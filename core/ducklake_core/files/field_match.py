"""Which field of a data file holds which column, at every depth, and how a column is made from what the file has.

Pure; runs on driver and executors. `match_fields` decides once per file; `assemble_all` does it for each record batch.
Files name their fields by field id; added files by a name mapping; a file with neither is taken by position.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ducklake_core.errors import UnreadableFile, UnsupportedType
from ducklake_core.files.casts import cast_values
from ducklake_core.files.nested import parts_of, plain_nested, with_parts
from ducklake_core.model import Column, NameMapping, NameMappingEntry, nodes_of
from ducklake_core.spec.kinds import Kind
from ducklake_core.spec.names import fold
from ducklake_core.spec.text import from_text
from ducklake_core.spec.types import FIELD_ID, arrow_type, is_list, scalar_arrow_type


@dataclass(frozen=True, slots=True)
class Found:
    """A column that the file has, as the field of that index among its siblings."""

    column: Column
    index: int
    children: tuple[Source, ...] = ()
    is_unchanged: bool = False  # same type and same fields below: nothing to do


@dataclass(frozen=True, slots=True)
class Constant:
    """A column that has the same value in every row: its initial default, or a value from the file's path."""

    column: Column
    text: str | None


Source = Found | Constant


def match_fields(
    fields: Sequence[pa.Field],
    columns: Sequence[Column],
    *,
    mapping: NameMapping | None = None,
    path_values: Mapping[str, str | None] | None = None,
    table_columns: Sequence[Column] | None = None,
) -> tuple[Source, ...]:
    """Find each column among the top-level fields of a file.

    `table_columns` are all columns of the table: positions count among them. Raises UnsupportedType for a variant.
    """
    _refuse_unreadable(columns)
    if mapping is not None:
        return _by_name(fields, columns, mapping.entries, path_values or {})
    if any(field_id(found) is not None for found in fields):
        return _by_id(fields, columns)
    positions = {column.column_id: index for index, column in enumerate(table_columns or columns)}
    return tuple(_at(fields, column, positions[column.column_id]) for column in columns)


def assemble_all(sources: Sequence[Source], arrays: Sequence[pa.Array | None], length: int) -> list[pa.Array]:
    """Make the values of columns from the file's arrays, as `assemble` does of one."""
    return [assemble(source, array, length) for source, array in zip(sources, arrays, strict=True)]


def assemble(source: Source, array: pa.Array | None, length: int) -> pa.Array:
    """Make the values of a column, of type `arrow_type`, from the file's array (None for a constant)."""
    if isinstance(source, Constant) or array is None:
        return _constant(source.column, source.text if isinstance(source, Constant) else None, length)
    if source.is_unchanged:
        return array
    if not source.column.is_nested:
        return cast_values(array, source.column)
    array = plain_nested(array)
    parts = parts_of(array)
    below = [_part(child, parts, len(array)) for child in source.children]
    return with_parts(array, arrow_type(source.column), below)


def field_id(found: pa.Field) -> int | None:
    """Return the Parquet field id of a field, None when it has none."""
    text = (found.metadata or {}).get(FIELD_ID)
    return None if text is None or int(text) < 0 else int(text)


def _part(child: Source, parts: Sequence[pa.Array], length: int) -> pa.Array:
    if isinstance(child, Constant):
        return assemble(child, None, length)
    return assemble(child, parts[child.index], len(parts[child.index]))


def _constant(column: Column, text: str | None, length: int) -> pa.Array:
    if text is None:
        return pa.nulls(length, arrow_type(column))
    return from_text(pa.array([text], pa.string()), column).take(pa.array(np.zeros(length, np.int64)))


def _refuse_unreadable(columns: Sequence[Column]) -> None:
    if all(node.kind is not Kind.OPAQUE for node in nodes_of(columns)):
        return
    column, node = next((c, n) for c in columns for n in c.walk() if n.kind is Kind.OPAQUE)
    raise UnsupportedType(
        f"column '{column.name}' has type '{node.type}', which only DuckDB can read; choose other columns",
        column=column.name,
    )


# ------------------------------------------------------------------------------------------ by field id


def _by_id(fields: Sequence[pa.Field], columns: Sequence[Column]) -> tuple[Source, ...]:
    indexes = {field_id(found): index for index, found in enumerate(fields)}
    return tuple(
        _found(fields[indexes[c.column_id]], c, indexes[c.column_id])
        if c.column_id in indexes
        else Constant(c, c.initial_default)
        for c in columns
    )


def _at(fields: Sequence[pa.Field], column: Column, index: int) -> Source:
    return _found(fields[index], column, index) if index < len(fields) else Constant(column, column.initial_default)


def _found(found: pa.Field, column: Column, index: int) -> Found:
    if not column.is_nested:
        return Found(column, index, is_unchanged=found.type == scalar_arrow_type(column.type))
    below = _fields_below(found, column)
    if column.kind is not Kind.STRUCT:  # a list's element and a map's key and value are known by their place
        return _with_children(found, column, index, tuple(map(_found, below, column.children, range(len(below)))))
    if below and all(field_id(child) is None for child in below):
        raise UnreadableFile(
            f"the fields of struct '{column.name}' have no field ids, and without them DuckDB reads nulls;"
            " write the file again with ids on every node, or add it with a name mapping",
            column=column.name,
        )
    return _with_children(found, column, index, _by_id(below, column.children))


def _with_children(found: pa.Field, column: Column, index: int, children: tuple[Source, ...]) -> Found:
    in_place = all(isinstance(c, Found) and c.index == i and c.is_unchanged for i, c in enumerate(children))
    return Found(column, index, children, is_unchanged=in_place and found.type == arrow_type(column))


def _fields_below(found: pa.Field, column: Column) -> list[pa.Field]:
    type_ = found.type
    if column.kind is Kind.STRUCT and pa.types.is_struct(type_):
        return list(type_)
    if column.kind is Kind.LIST and is_list(type_):
        return [type_.value_field]
    if column.kind is Kind.MAP and pa.types.is_map(type_):
        return [type_.key_field, type_.item_field]
    raise UnreadableFile(f"column '{column.name}' is a {column.type}, but the file has {type_}", column=column.name)


# ---------------------------------------------------------------------------------------- by name mapping


def _by_name(
    fields: Sequence[pa.Field],
    columns: Sequence[Column],
    entries: Sequence[NameMappingEntry],
    path_values: Mapping[str, str | None],
) -> tuple[Source, ...]:
    by_target = {entry.target_field_id: entry for entry in entries}
    return tuple(_mapped(fields, column, by_target.get(column.column_id), path_values) for column in columns)


def _mapped(
    fields: Sequence[pa.Field], column: Column, entry: NameMappingEntry | None, path_values: Mapping[str, str | None]
) -> Source:
    if entry is None:
        return Constant(column, column.initial_default)
    if entry.is_partition:
        return Constant(column, _path_value(path_values.get(entry.source_name), column))
    for index, found in enumerate(fields):
        if fold(found.name) == fold(entry.source_name):
            return _mapped_field(found, column, index, entry)
    return Constant(column, column.initial_default)


def _mapped_field(found: pa.Field, column: Column, index: int, entry: NameMappingEntry) -> Found:
    if not column.is_nested:
        return Found(column, index, is_unchanged=found.type == scalar_arrow_type(column.type))
    below = _fields_below(found, column)
    if column.kind is Kind.STRUCT:
        return _with_children(found, column, index, _by_name(below, column.children, entry.children, {}))
    by_target = {child.target_field_id: child for child in entry.children}
    if any(node.column_id not in by_target for node in column.children):
        raise UnreadableFile(f"its name mapping says nothing of what is below '{column.name}'", column=column.name)
    children = [
        _mapped_field(child, node, place, by_target[node.column_id])
        for place, (child, node) in enumerate(zip(below, column.children, strict=True))
    ]
    return _with_children(found, column, index, tuple(children))


def _path_value(text: str | None, column: Column) -> str | None:
    """Return the text of a value from a hive directory; an empty one is null, except for texts."""
    return None if text == "" and column.type != "varchar" else text
