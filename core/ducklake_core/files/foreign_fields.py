"""Which field of a Parquet file that somebody else wrote is which column of a table, by name, and whether it fits.

Pure; runs on the driver. The result is what the format calls a name mapping, and where the leaves are in the footer.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from ducklake_core.errors import SchemaMismatch, UnsupportedType
from ducklake_core.model import Column, NameMappingEntry
from ducklake_core.spec.kinds import Kind, kind_of
from ducklake_core.spec.names import fold
from ducklake_core.spec.promotions import is_promotion
from ducklake_core.spec.types import is_list, node_of_arrow


@dataclass(frozen=True, slots=True)
class AddRules:
    """What may be missing or left over in a file that is added, and whether values may come from its path.

    `path_columns`: those alone have their values there; None: all that a directory names.
    """

    allow_missing: bool = False
    ignore_extra_columns: bool = False
    hive_partitioning: bool = True
    path_columns: frozenset[str] | None = None

    def is_in_path(self, name: str) -> bool:
        return self.hive_partitioning and (self.path_columns is None or name in self.path_columns)


@dataclass(frozen=True, slots=True)
class FoundLeaf:
    """A leaf of the table that the file has: its number among the file's leaves, and its type there."""

    column: Column
    index: int
    type: pa.DataType


@dataclass(slots=True)
class FieldMatcher:
    """Matches the fields of one file. `leaf_paths`: Parquet's own paths of its leaves, in order."""

    rules: AddRules
    leaf_paths: Sequence[str]
    found: list[FoundLeaf] = field(default_factory=list)
    missing: list[Column] = field(default_factory=list)
    _next_leaf: int = 0

    def match(
        self, fields: Sequence[pa.Field], columns: Sequence[Column], in_path: Mapping[str, Column]
    ) -> tuple[NameMappingEntry, ...]:
        """Return the name mapping; a column whose value is in the path is taken from there, also if the file has it."""
        entries = self._entries(fields, columns, "", {fold(name) for name in in_path})
        of_path = [NameMappingEntry(name, in_path[name].column_id, is_partition=True) for name in in_path]
        return (*entries, *of_path)

    def _entries(
        self, fields: Sequence[pa.Field], columns: Sequence[Column], parent: str, in_path: Collection[str] = ()
    ) -> tuple[NameMappingEntry, ...]:
        left, entries = {fold(c.name): c for c in columns if fold(c.name) not in in_path}, []
        known = set(left)
        for one in fields:
            column = left.pop(fold(one.name), None)
            if column is not None:
                entries.append(self._entry(one, column, one.name, f"{parent}{one.name}"))
                continue
            if fold(one.name) not in in_path:
                self._check_extra(f"{parent}{one.name}", is_twice=fold(one.name) in known)
            self._next_leaf += _count_leaves(one.type)
        if left and not self.rules.allow_missing:
            name = f"{parent}{next(iter(left.values())).name}"
            raise SchemaMismatch(f"it has no column '{name}': allow_missing=True reads nulls there", columns=[name])
        self.missing += left.values()
        return tuple(entries)

    def _check_extra(self, name: str, *, is_twice: bool) -> None:
        if is_twice:
            raise SchemaMismatch(f"it has two columns '{name}', whose names differ in case at most", columns=[name])
        if not self.rules.ignore_extra_columns:
            raise SchemaMismatch(
                f"its column '{name}' is not in the table: add it there, or ignore_extra_columns=True leaves it out",
                columns=[name],
            )

    def _entry(self, one: pa.Field, column: Column, source_name: str, path: str) -> NameMappingEntry:
        """Return the mapping of a field; `path`: what Parquet's paths of its leaves begin with."""
        children: tuple[NameMappingEntry, ...] = ()
        match column.kind:
            case Kind.STRUCT if pa.types.is_struct(one.type):
                children = self._entries(list(one.type), column.children, f"{path}.")
            case Kind.LIST if is_list(one.type):
                children = (self._element(one.type.value_field, column.children[0], path),)
            case Kind.MAP if pa.types.is_map(one.type):
                parts = zip((one.type.key_field, one.type.item_field), column.children, strict=True)
                between = self.leaf_paths[self._next_leaf].removeprefix(f"{path}.").partition(".")[0]
                children = tuple(
                    self._entry(part, node, node.name, f"{path}.{between}.{part.name}") for part, node in parts
                )
            case Kind.STRUCT | Kind.LIST | Kind.MAP:
                raise _mismatch(path, str(one.type), column)
            case _:
                self._leaf(one, column, path)
        return NameMappingEntry(source_name, column.column_id, children=children)

    def _element(self, one: pa.Field, column: Column, path: str) -> NameMappingEntry:
        """Return the mapping of a list's element, which is called after the group between: `list`, `bag` or another."""
        between, _, inner = self.leaf_paths[self._next_leaf].removeprefix(f"{path}.").partition(".")
        if inner != one.name and not inner.startswith(f"{one.name}."):
            raise SchemaMismatch(
                f"list '{path}' has the two levels of old writers, not three; write the file again", columns=[path]
            )
        return self._entry(one, column, between, f"{path}.{between}.{one.name}")

    def _leaf(self, one: pa.Field, column: Column, path: str) -> None:
        type_ = one.type.value_type if pa.types.is_dictionary(one.type) else one.type
        if not _fits(type_, column.type, path):
            raise _mismatch(path, str(one.type), column)
        self.found.append(FoundLeaf(column, self._next_leaf, type_))
        self._next_leaf += 1


def _fits(type_: pa.DataType, wanted: str, name: str) -> bool:
    """Tell whether DuckDB and we read such a file without loss: the same kind of type, and no wider.

    DuckDB takes milliseconds of a day for integers, and a half-precision float for bytes.
    """
    if pa.types.is_time32(type_) or pa.types.is_float16(type_) or pa.types.is_nested(type_):
        return False
    try:
        found = node_of_arrow(type_, name).type
    except UnsupportedType:
        return False
    return kind_of(found) is kind_of(wanted) and is_promotion(found, wanted)


def _mismatch(name: str, found: str, column: Column) -> SchemaMismatch:
    return SchemaMismatch(
        f"its column '{name}' has type '{found}', but '{column.type}' of the table needs values of that type or of a "
        "narrower one of its kind: change the table's column, or write the file again",
        columns=[name],
    )


def _count_leaves(type_: pa.DataType) -> int:
    if pa.types.is_dictionary(type_) or not pa.types.is_nested(type_):
        return 1
    return sum(_count_leaves(type_.field(index).type) for index in range(type_.num_fields))
