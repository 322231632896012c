"""The catalog rows that turn one definition of a table into another (format §2.2, §3.1, §4.3, §12). Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ducklake_core.model import Column, ColumnId, Partitioning, SnapshotId, SortOrder, TableVersion
from ducklake_core.plan.writes import EndRows, InsertRows, Write
from ducklake_core.spec.memo import per_object

# What ends with a table: every catalog table that holds a live row of it.
_ENDS_WITH_TABLE = (
    "ducklake_table",
    "ducklake_column",
    "ducklake_column_tag",
    "ducklake_partition_info",
    "ducklake_sort_info",
    "ducklake_data_file",
    "ducklake_delete_file",
)


def definition_writes(before: TableVersion | None, after: TableVersion | None, snapshot: SnapshotId) -> Iterator[Write]:
    """Yield what makes `before` into `after`; None before is a creation, None after a drop."""
    if after is None:
        if before is not None:
            yield from _drop(before, snapshot)
        return
    yield from _table(before, after, snapshot)
    yield from _columns(before, after, snapshot)
    yield from _comments(before, after, snapshot)
    yield from _partitioning(before, after, snapshot)
    yield from _sort_order(before, after, snapshot)


def has_new_shape(before: TableVersion | None, after: TableVersion) -> bool:
    """Tell whether inlined rows need a new table: for another name, other columns or another partitioning."""
    return before is not after and (before is None or _shape(before) != _shape(after))


def has_new_version(before: TableVersion | None, after: TableVersion) -> bool:
    """Tell whether `ducklake_schema_versions` gets a row: comments and sort order leave it alone."""
    if before is after:
        return False
    return has_new_shape(before, after) or (before is not None and _plain(before.columns) != _plain(after.columns))


def has_new_types(before: TableVersion, after: TableVersion) -> bool:
    """Tell whether a column or field was promoted."""
    if before is after:
        return False
    types = {node.column_id: node.type for column in before.columns for node in column.walk()}
    return any(types.get(n.column_id, n.type) != n.type for column in after.columns for n in column.walk())


def has_same_columns(some: Iterable[Column], others: Iterable[Column]) -> bool:
    """Tell whether rows of both have the same columns, whatever their defaults and comments."""
    return _nodes(tuple(some)) == _nodes(tuple(others))


def _shape(table: TableVersion) -> tuple[Any, ...]:
    return table.schema_id, table.name, _nodes(table.columns), table.partitioning


@per_object
def _nodes(columns: tuple[Column, ...]) -> tuple[Any, ...]:
    return tuple((n.column_id, n.name, n.type) for column in columns for n in column.walk())


def _plain(columns: Iterable[Column]) -> list[tuple[Any, ...]]:
    return [_facts(node) for column in columns for node in column.walk()]


def _facts(node: Column) -> tuple[Any, ...]:
    return node.column_id, node.name, node.type, node.nulls_allowed, node.default_value, node.default_value_type


def _drop(table: TableVersion, snapshot: SnapshotId) -> Iterator[Write]:
    key = ({"table_id": table.table_id},)
    for name in _ENDS_WITH_TABLE:
        yield EndRows(name, key, snapshot)
    yield EndRows("ducklake_tag", ({"object_id": table.table_id},), snapshot)


def _table(before: TableVersion | None, after: TableVersion, snapshot: SnapshotId) -> Iterator[Write]:
    if before is not None and (before.name, before.schema_id) == (after.name, after.schema_id):
        return
    if before is not None:
        yield EndRows("ducklake_table", ({"table_id": after.table_id},), snapshot)
    row = {
        "table_id": after.table_id,
        "table_uuid": after.table_uuid,
        "begin_snapshot": snapshot,
        "end_snapshot": None,
        "schema_id": after.schema_id,
        "table_name": after.name,
        "path": after.path,
        "path_is_relative": after.path_is_relative,
    }
    yield InsertRows("ducklake_table", (row,))


def _columns(before: TableVersion | None, after: TableVersion, snapshot: SnapshotId) -> Iterator[Write]:
    old = {} if before is None else before.nodes()
    new = after.nodes()
    parents = {child.column_id: node.column_id for node in new.values() for child in node.children}
    ended = [i for i, node in old.items() if i not in new or _facts(new[i]) != _facts(node)]
    added = [node for i, node in new.items() if i not in old or _facts(old[i]) != _facts(node)]
    if ended:
        keys = tuple({"table_id": after.table_id, "column_id": i} for i in ended)
        yield EndRows("ducklake_column", keys, snapshot)
    if added:
        rows = tuple(_column_row(node, after, parents.get(node.column_id), snapshot) for node in added)
        yield InsertRows("ducklake_column", rows)


def _column_row(node: Column, table: TableVersion, parent: ColumnId | None, snapshot: SnapshotId) -> dict[str, Any]:
    return {
        "column_id": node.column_id,
        "begin_snapshot": snapshot,
        "end_snapshot": None,
        "table_id": table.table_id,
        "column_order": node.column_id,
        "column_name": node.name,
        "column_type": node.type,
        "initial_default": node.initial_default,
        "default_value": "NULL" if node.default_value is None else node.default_value,
        "nulls_allowed": node.nulls_allowed,
        "parent_column": parent,
        "default_value_type": node.default_value_type,
        "default_value_dialect": "duckdb",
    }


def _comments(before: TableVersion | None, after: TableVersion, snapshot: SnapshotId) -> Iterator[Write]:
    old_comment = before.comment if before else None
    if after.comment != old_comment:
        yield EndRows("ducklake_tag", ({"object_id": after.table_id},), snapshot)
        yield InsertRows("ducklake_tag", (_tag({"object_id": after.table_id}, after.comment, snapshot),))
    old = {c.column_id: c.comment for c in before.columns} if before else {}
    for column in after.columns:
        if column.comment != old.get(column.column_id):
            key = {"table_id": after.table_id, "column_id": column.column_id}
            yield EndRows("ducklake_column_tag", (key,), snapshot)
            yield InsertRows("ducklake_column_tag", (_tag(key, column.comment, snapshot),))


def _tag(key: dict[str, Any], comment: str | None, snapshot: SnapshotId) -> dict[str, Any]:
    return {**key, "begin_snapshot": snapshot, "end_snapshot": None, "key": "comment", "value": comment}


def _partitioning(before: TableVersion | None, after: TableVersion, snapshot: SnapshotId) -> Iterator[Write]:
    old = before.partitioning if before else None
    if after.partitioning is None or after.partitioning == old:
        return
    if old is not None:
        yield EndRows("ducklake_partition_info", ({"partition_id": old.partition_id},), snapshot)
    yield from _partitioning_rows(after.partitioning, after, snapshot)


def _partitioning_rows(partitioning: Partitioning, table: TableVersion, snapshot: SnapshotId) -> Iterator[Write]:
    identity = {"partition_id": partitioning.partition_id, "table_id": table.table_id}
    yield InsertRows("ducklake_partition_info", ({**identity, "begin_snapshot": snapshot, "end_snapshot": None},))
    keys = tuple(
        {**identity, "partition_key_index": index, "column_id": key.column_id, "transform": key.transform}
        for index, key in enumerate(partitioning.keys)
    )
    if keys:
        yield InsertRows("ducklake_partition_column", keys)


def _sort_order(before: TableVersion | None, after: TableVersion, snapshot: SnapshotId) -> Iterator[Write]:
    old = before.sort_order if before else None
    if after.sort_order == old:
        return
    if old is not None:
        yield EndRows("ducklake_sort_info", ({"sort_id": old.sort_id},), snapshot)
    if after.sort_order is not None:
        yield from _sort_rows(after.sort_order, after, snapshot)


def _sort_rows(order: SortOrder, table: TableVersion, snapshot: SnapshotId) -> Iterator[Write]:
    identity = {"sort_id": order.sort_id, "table_id": table.table_id}
    yield InsertRows("ducklake_sort_info", ({**identity, "begin_snapshot": snapshot, "end_snapshot": None},))
    rows = tuple(
        {
            **identity,
            "sort_key_index": index,
            "expression": key.expression,
            "dialect": "duckdb",
            "sort_direction": "DESC" if key.descending else "ASC",
            "null_order": "NULLS_FIRST" if key.nulls_first else "NULLS_LAST",
        }
        for index, key in enumerate(order.keys)
    )
    yield InsertRows("ducklake_sort_expression", rows)
