"""The name mappings of data files that somebody else wrote: their numbers, and their rows of the catalog. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from ducklake_core.model import NameMapping, NameMappingEntry, NewDataFile, TableId
from ducklake_core.plan.writes import InsertRows, Write


def mapping_key(entries: Sequence[NameMappingEntry]) -> frozenset[object]:
    """Return what two mappings have in common that mean the same: the order of fields does not matter."""
    return frozenset((e.source_name, e.target_field_id, e.is_partition, mapping_key(e.children)) for e in entries)


def number_mappings(
    files: Sequence[NewDataFile], first_id: int
) -> tuple[tuple[NewDataFile, ...], tuple[NameMapping, ...]]:
    """Give each new mapping an id, once for equal ones; return the files with theirs, and the new mappings."""
    if all(file.mapping is None for file in files):
        return tuple(files), ()
    new: dict[object, NameMapping] = {}
    numbered = []
    for file in files:
        mapping = file.mapping
        if mapping is not None and mapping.mapping_id < 0:
            mapping = new.setdefault(mapping_key(mapping.entries), replace(mapping, mapping_id=first_id + len(new)))
        numbered.append(replace(file, mapping=mapping))
    return tuple(numbered), tuple(new.values())


def mapping_writes(table_id: TableId, mappings: Sequence[NameMapping]) -> Iterator[Write]:
    """Yield the rows of new mappings."""
    if not mappings:
        return
    rows = [{"mapping_id": m.mapping_id, "table_id": table_id, "type": "map_by_name"} for m in mappings]
    yield InsertRows("ducklake_column_mapping", tuple(rows))
    yield InsertRows("ducklake_name_mapping", tuple(row for m in mappings for row in _entry_rows(m)))


def _entry_rows(mapping: NameMapping) -> list[dict[str, Any]]:
    """Return a row for each entry; they are numbered depth first, from 0 in each mapping."""
    rows: list[dict[str, Any]] = []

    def add(entries: Sequence[NameMappingEntry], parent: int | None) -> None:
        for entry in entries:
            number = len(rows)
            row = {
                "mapping_id": mapping.mapping_id,
                "column_id": number,
                "source_name": entry.source_name,
                "target_field_id": entry.target_field_id,
                "parent_column": parent,
                "is_partition": entry.is_partition,
            }
            rows.append(row)
            add(entry.children, number)

    add(mapping.entries, None)
    return rows
