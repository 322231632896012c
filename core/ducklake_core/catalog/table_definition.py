"""What the catalog has of the definition of a table, as rows, and as one snapshot sees it. Pure.

A row that breaks the format becomes `CorruptCatalog`, naming the table and the row.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from ducklake_core.errors import CorruptCatalog
from ducklake_core.model import (
    Column,
    ColumnId,
    InlinedTable,
    Partitioning,
    PartitionKey,
    SnapshotId,
    SortKey,
    SortOrder,
    TableVersion,
)
from ducklake_core.spec.paths import join_path
from ducklake_core.spec.rows import (
    ColumnRow,
    ColumnTagRow,
    InlinedTableRow,
    PartitionColumnRow,
    PartitionInfoRow,
    SchemaVersionRow,
    SortExpressionRow,
    SortInfoRow,
    TableRow,
    TagRow,
)
from ducklake_core.spec.types import stored_type


@dataclass(frozen=True, slots=True)
class DefinitionRows:
    """What the catalog has of the definition of one table, live and ended."""

    columns: list[ColumnRow]
    column_tags: list[ColumnTagRow]
    partition_infos: list[PartitionInfoRow]
    partition_columns: list[PartitionColumnRow]
    sort_infos: list[SortInfoRow]
    sort_expressions: list[SortExpressionRow]
    inlined_tables: list[InlinedTableRow]
    schema_versions: list[SchemaVersionRow]
    tags: list[TagRow]


def definition_of(row: TableRow, found: DefinitionRows, snapshot: SnapshotId, data_path: str) -> TableVersion:
    """Return the table as a snapshot has it."""
    table = identity_of(row, data_path)
    columns = columns_at(found.columns, snapshot, table.qualified_name)
    if not columns:
        raise CorruptCatalog(f"table '{table.qualified_name}' has no live column at snapshot {snapshot}")
    columns = _with_comments(columns, found.column_tags, snapshot)
    return replace(
        table,
        columns=columns,
        next_column_id=max(r.column_id for r in found.columns) + 1,
        partitioning=_partitioning_at(found, snapshot),
        sort_order=_sort_order_at(found, snapshot),
        comment=next((r.value for r in found.tags if r.key == "comment" and _is_live(r, snapshot)), None),
        inlined_tables=_inlined_tables(found, row.begin_snapshot, table.qualified_name, columns),
        # Expiry removes the row of a name that the table had before, but none of its columns.
        begin_snapshot=min(r.begin_snapshot for r in found.columns),
    )


def identity_of(row: TableRow, data_path: str) -> TableVersion:
    """Return the table without its columns and all that comes with them."""
    is_relative = row.path_is_relative is not False
    schema_is_relative = row.schema_path_is_relative is not False
    schema_directory = join_path(data_path, row.schema_path or "", is_relative=schema_is_relative)
    return TableVersion(
        table_id=row.table_id,
        table_uuid=row.table_uuid,
        schema_id=row.schema_id,
        schema_name=row.schema_name,
        name=row.table_name,
        path=row.path or "",
        path_is_relative=is_relative,
        directory=join_path(schema_directory, row.path or "", is_relative=is_relative),
        columns=(),
        next_column_id=1,
    )


def columns_at(rows: Iterable[ColumnRow], snapshot: int, table_name: str) -> tuple[Column, ...]:
    """Build the column trees live at a snapshot from rows of `ducklake_column`."""
    live = [r for r in rows if _is_live(r, snapshot)]
    known = {r.column_id for r in live}
    children: dict[int | None, list[ColumnRow]] = defaultdict(list)
    for row in sorted(live, key=lambda r: r.column_id if r.column_order is None else r.column_order):
        if _is_broken(row, known):
            raise CorruptCatalog(
                f"table '{table_name}' has a broken row in 'ducklake_column': column_id {row.column_id}, name "
                f"'{row.column_name}', type '{row.column_type}', nulls_allowed {row.nulls_allowed}, parent_column "
                f"{row.parent_column}"
            )
        children[row.parent_column].append(row)
    return tuple(_column_of(row, children) for row in children[None])


def _is_broken(row: ColumnRow, known: Collection[ColumnId]) -> bool:
    is_orphan = row.parent_column is not None and row.parent_column not in known
    has_type = row.column_type is not None and stored_type(row.column_type) is not None
    return is_orphan or not has_type or row.column_name is None or row.nulls_allowed is None


def _column_of(row: ColumnRow, children: Mapping[int | None, list[ColumnRow]]) -> Column:
    has_default = row.default_value != "NULL" or row.default_value_type == "expression"
    type_ = row.column_type or ""
    return Column(
        column_id=row.column_id,
        name=row.column_name or "",
        type=stored_type(type_) or type_,
        nulls_allowed=bool(row.nulls_allowed),
        initial_default=row.initial_default,
        default_value=row.default_value if has_default else None,
        default_value_type=row.default_value_type or "",
        children=tuple(_column_of(child, children) for child in children.get(row.column_id, ())),
    )


def _with_comments(
    columns: tuple[Column, ...], tags: Iterable[ColumnTagRow], snapshot: SnapshotId
) -> tuple[Column, ...]:
    comments = {r.column_id: r.value for r in tags if r.key == "comment" and _is_live(r, snapshot)}
    return tuple(replace(c, comment=comments.get(c.column_id)) for c in columns)


def _partitioning_at(found: DefinitionRows, snapshot: SnapshotId) -> Partitioning | None:
    live = [r.partition_id for r in found.partition_infos if _is_live(r, snapshot)]
    if not live:
        return None
    rows = [r for r in found.partition_columns if r.partition_id == live[-1]]
    keys = sorted(rows, key=lambda r: r.partition_key_index)
    return Partitioning(live[-1], tuple(PartitionKey(r.column_id, r.transform.lower()) for r in keys))


def _sort_order_at(found: DefinitionRows, snapshot: SnapshotId) -> SortOrder | None:
    live = [r.sort_id for r in found.sort_infos if _is_live(r, snapshot)]
    if not live:
        return None
    rows = sorted((r for r in found.sort_expressions if r.sort_id == live[-1]), key=lambda r: r.sort_key_index)
    keys = (SortKey(r.expression, r.sort_direction == "DESC", r.null_order == "NULLS_FIRST") for r in rows)
    return SortOrder(live[-1], tuple(keys))


def _inlined_tables(
    found: DefinitionRows, table_begin: SnapshotId, name: str, newest: tuple[Column, ...]
) -> tuple[InlinedTable, ...]:
    begins = {r.schema_version: r.begin_snapshot for r in found.schema_versions}
    tables = []
    for row in sorted(found.inlined_tables, key=lambda r: r.schema_version):
        # A table made lazily by an insert has no schema version of its own: the definition of the newest one before it.
        begin = max((b for v, b in begins.items() if v <= row.schema_version), default=table_begin)
        columns = columns_at(found.columns, begin, name)
        columns = newest if columns == newest else columns  # what is derived of them is derived once
        partitioning = _partitioning_at(found, begin)
        tables.append(InlinedTable(row.table_name, row.schema_version, columns, partitioning=partitioning))
    return tuple(tables)


class _Lived(Protocol):
    @property
    def begin_snapshot(self) -> SnapshotId | None: ...
    @property
    def end_snapshot(self) -> SnapshotId | None: ...


def _is_live(row: _Lived, snapshot: int) -> bool:
    begin, end = row.begin_snapshot, row.end_snapshot
    return begin is not None and begin <= snapshot and (end is None or snapshot < end)
