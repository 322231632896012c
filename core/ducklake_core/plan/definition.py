"""Changes of a table's definition, as pure functions from one `TableVersion` to the next.

A column is named by its path: `a`, or `st.b`, `l.element`, `m.value.x` inside nested types; parts may be quoted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

import pyarrow as pa

from ducklake_core.errors import InvalidInput, ObjectExists, ObjectNotFound
from ducklake_core.model import Column, Partitioning, PartitionKey, SortKey, SortOrder, TableVersion
from ducklake_core.spec.names import fold, is_storable, nearest_name, quote_name, split_path
from ducklake_core.spec.partition import check_transform, parse_partition_expressions
from ducklake_core.spec.promotions import is_promotion
from ducklake_core.spec.text import literal_text
from ducklake_core.spec.types import INTERNAL_NAMES, build_column, node_of

Edit = Callable[[Column], Column | None]


def add_column(
    table: TableVersion, path: str, type_: str | pa.DataType, default: object = None, *, nulls_allowed: bool = True
) -> TableVersion:
    """Add a column or, with a longer path, a struct field; rows of before have `default` there."""
    *parents, name = split_path(path)
    check_column_name(name)
    column = build_column(name, node_of(type_, name), table.next_column_id)
    if not nulls_allowed and default is None:
        raise InvalidInput(f"column '{path}' cannot forbid nulls without a default: rows that exist would have nulls")
    column = replace(column, nulls_allowed=nulls_allowed)
    if default is not None:
        column = with_default(column, default, is_new=True)
    next_id = table.next_column_id + sum(1 for _ in column.walk())
    if not parents:
        _refuse_internal(name)
        _refuse_duplicate(table.columns, name, table.qualified_name)
        return table.with_columns((*table.columns, column), next_id)

    def add_field(parent: Column) -> Column:
        if parent.type != "struct":
            raise InvalidInput(f"column '{'.'.join(parents)}' is a {parent.type}: fields can be added to a struct only")
        _refuse_duplicate(parent.children, name, f"{table.qualified_name}.{'.'.join(parents)}")
        # The reference writes added fields as not null and ignores the flag below the top level.
        return replace(parent, children=(*parent.children, replace(column, nulls_allowed=False)))

    return replace(_edit(table, parents, add_field), next_column_id=next_id)


def drop_column(table: TableVersion, path: str) -> TableVersion:
    """Drop a column or a struct field. The last column, and those that partition or sort, must stay."""
    parts = split_path(path)
    column = find_column(table, parts)
    _refuse_in_use(table, column, path)
    siblings = table.columns if len(parts) == 1 else find_column(table, parts[:-1]).children
    if len(siblings) == 1:
        raise InvalidInput(
            f"column '{path}' of '{table.qualified_name}' is the last one: a table or struct cannot be empty"
        )
    if len(parts) > 1 and find_column(table, parts[:-1]).type != "struct":
        raise InvalidInput(f"'{path}' is part of a {find_column(table, parts[:-1]).type} and cannot be dropped")
    return _edit(table, parts, lambda _: None)


def rename_column(table: TableVersion, path: str, new_name: str, provisional_id: int = -1) -> TableVersion:
    """Rename a column or a struct field; a sort order that names it becomes a new one, `provisional_id`."""
    check_column_name(new_name)
    parts = split_path(path)
    column = find_column(table, parts)
    parent = find_column(table, parts[:-1]) if len(parts) > 1 else None
    if parent is not None and parent.type != "struct":
        raise InvalidInput(f"'{path}' is part of a {parent.type} and cannot be renamed")
    siblings = parent.children if parent else table.columns
    others = tuple(c for c in siblings if c.column_id != column.column_id)
    _refuse_duplicate(others, new_name, table.qualified_name)
    if parent is None:
        _refuse_internal(new_name)
        renamed = _edit(table, parts, lambda c: replace(c, name=new_name))
        return _rename_sort_keys(renamed, column.name, new_name, provisional_id)
    # As the reference writes a renamed field: no default kind, and the flag that it ignores there.
    return _edit(table, parts, lambda c: replace(c, name=new_name, nulls_allowed=False, default_value_type=""))


def promote_column(table: TableVersion, path: str, type_: str | pa.DataType) -> TableVersion:
    """Change the type of a column or field to one that holds every value of the old type."""
    parts = split_path(path)
    new = node_of(type_, path)
    old = find_column(table, parts)
    if new.fields or not is_promotion(old.type, new.type):
        raise InvalidInput(
            f"column '{path}' of '{table.qualified_name}' cannot change from {old.type} to {new.type}: "
            "only changes that lose no value are allowed",
            column=path,
            old_type=old.type,
            new_type=new.type,
        )
    return _edit(table, parts, lambda c: replace(c, type=new.type))


def set_default(table: TableVersion, path: str, default: object) -> TableVersion:
    """Set the default of rows to come; None removes it."""
    return _edit(table, split_path(path), lambda c: with_default(c, default, is_new=False))


def set_nulls_allowed(table: TableVersion, path: str, *, allowed: bool) -> TableVersion:
    """Allow or forbid nulls in a top-level column."""
    parts = split_path(path)
    if len(parts) > 1:
        raise InvalidInput(f"'{path}' is a nested field: only columns of the table can forbid nulls")
    return _edit(table, parts, lambda c: replace(c, nulls_allowed=allowed))


def set_comment(table: TableVersion, comment: str | None, path: str | None = None) -> TableVersion:
    """Set the comment of the table or of a column; None removes it."""
    if comment is not None and not is_storable(comment):
        raise InvalidInput(f"a comment on '{table.qualified_name}' has a NUL character or is no Unicode")
    if path is None:
        return replace(table, comment=comment)
    parts = split_path(path)
    if len(parts) > 1:
        raise InvalidInput(f"'{path}' is a nested field: only tables and their columns can have comments")
    return _edit(table, parts, lambda c: replace(c, comment=comment))


def set_partitioning(table: TableVersion, expressions: Sequence[str], provisional_id: int) -> TableVersion:
    """Partition rows to come by expressions such as `id`, `date(ts)` or `bucket(16, id)`; none to stop."""
    keys = []
    for name, transform in parse_partition_expressions(expressions):
        column = find_column(table, [name])
        check_transform(column, transform)
        keys.append(PartitionKey(column.column_id, transform))
    if not keys and (table.partitioning is None or not table.partitioning.keys):
        return table
    return replace(table, partitioning=Partitioning(provisional_id, tuple(keys)))


def set_sort_order(table: TableVersion, expressions: Sequence[str | SortKey], provisional_id: int) -> TableVersion:
    """Sort rows to come by expressions such as `ts` or `ts DESC NULLS FIRST`; none to stop."""
    keys = tuple(k if isinstance(k, SortKey) else _parse_sort_key(table, k) for k in expressions)
    return replace(table, sort_order=SortOrder(provisional_id, keys) if keys else None)


def find_column(table: TableVersion, parts: Sequence[str]) -> Column:
    """Find a node by its path, regardless of case."""
    children: tuple[Column, ...] = table.columns
    found: Column | None = None
    for depth, part in enumerate(parts):
        found = next((c for c in children if fold(c.name) == fold(part)), None)
        if found is None:
            names = [c.name for c in children]
            near = nearest_name(part, names)
            hint = f"did you mean '{near}'?" if near else f"there are {', '.join(names) or 'none'}"
            raise ObjectNotFound(
                f"table '{table.qualified_name}' has no column '{'.'.join(parts[: depth + 1])}'; {hint}"
            )
        children = found.children
    if found is None:
        raise InvalidInput("a column's path is empty")
    return found


def check_column_name(name: str) -> None:
    if not name or not is_storable(name):
        raise InvalidInput(f"{name!r} cannot be a column's name: it is empty, has a NUL character or is no Unicode")


def check_table_columns(columns: Sequence[Column], table_name: str) -> None:
    """Refuse columns that no table can have: none, nameless ones, names that differ only by case or are DuckLake's."""
    for column in columns:
        _refuse_internal(column.name)
    _check_siblings(columns, table_name)


def find_internal_name(columns: Sequence[Column]) -> str | None:
    """Return the column that has the name of an internal one of data files; None as it should be."""
    return next((c.name for c in columns if fold(c.name) in INTERNAL_NAMES), None)


def _refuse_internal(name: str) -> None:
    """Refuse what readers, the reference among them, take for row ids and snapshots; inside a struct no one does."""
    if fold(name) in INTERNAL_NAMES:
        raise InvalidInput(
            f"'{name}' cannot be a column's name: DuckLake's data files have an internal column of that name; "
            "choose another",
            column=name,
        )


def _check_siblings(columns: Sequence[Column], table_name: str) -> None:
    if not columns:
        raise InvalidInput(f"table '{table_name}' needs at least one column", name=table_name)
    for column in columns:
        check_column_name(column.name)
        for node in column.walk():
            if node.type == "struct":
                _check_siblings(node.children, f"{table_name}.{node.name}")
    counts = Counter(fold(c.name) for c in columns)
    twice = next((c.name for c in columns if counts[fold(c.name)] > 1), None)
    if twice is not None:
        raise InvalidInput(f"'{table_name}' has two columns '{twice}': names differ by more than case", name=table_name)


def with_default(column: Column, default: object, *, is_new: bool) -> Column:
    """Return the column with a literal default; a new column has it in rows of before as well."""
    if default is None:
        return replace(column, default_value=None)
    if column.is_nested:
        raise InvalidInput(f"column '{column.name}' is a {column.type}, which cannot have a default")
    text = literal_text(default, column)
    if "\0" in text:
        raise InvalidInput(f"the default of column '{column.name}' cannot have a NUL character", column=column.name)
    return replace(
        column,
        default_value=text,
        default_value_type="literal",
        initial_default=text if is_new else column.initial_default,
    )


def _edit(table: TableVersion, parts: Sequence[str], edit: Edit) -> TableVersion:
    find_column(table, parts)
    return table.with_columns(_edit_in(table.columns, parts, edit))


def _edit_in(columns: tuple[Column, ...], parts: Sequence[str], edit: Edit) -> tuple[Column, ...]:
    edited = []
    for column in columns:
        if fold(column.name) != fold(parts[0]):
            edited.append(column)
        elif len(parts) > 1:
            edited.append(replace(column, children=_edit_in(column.children, parts[1:], edit)))
        else:
            kept = edit(column)
            edited += [] if kept is None else [kept]
    return tuple(edited)


def _refuse_duplicate(columns: Sequence[Column], name: str, owner: str) -> None:
    if any(fold(c.name) == fold(name) for c in columns):
        raise ObjectExists(f"'{owner}' has a column '{name}' already; names differ by more than case", column=name)


def _refuse_in_use(table: TableVersion, column: Column, path: str) -> None:
    ids = {node.column_id for node in column.walk()}
    if table.partitioning and any(k.column_id in ids for k in table.partitioning.keys):
        raise InvalidInput(f"column '{path}' partitions table '{table.qualified_name}': change the partitioning first")
    if table.sort_order and any(_sorts_by(key, column.name) for key in table.sort_order.keys):
        raise InvalidInput(f"column '{path}' sorts table '{table.qualified_name}': change the sort order first")


def _rename_sort_keys(table: TableVersion, old: str, new: str, provisional_id: int) -> TableVersion:
    order = table.sort_order
    if order is None or not any(_sorts_by(key, old) for key in order.keys):
        return table
    from ducklake_core.plan.sort_expressions import renamed_key  # noqa: PLC0415 # see there

    keys = tuple(renamed_key(key, old, new) for key in order.keys)
    return replace(table, sort_order=SortOrder(provisional_id, keys))


def _sorts_by(key: SortKey, column: str) -> bool:
    from ducklake_core.plan.sort_expressions import sort_columns  # noqa: PLC0415 # see there

    return fold(column) in sort_columns(key)


def _parse_sort_key(table: TableVersion, text: str) -> SortKey:
    words = text.split()
    nulls_first = descending = False
    if [w.upper() for w in words[-2:]] in (["NULLS", "FIRST"], ["NULLS", "LAST"]):
        nulls_first, words = words[-1].upper() == "FIRST", words[:-2]
    if words and words[-1].upper() in ("ASC", "DESC"):
        descending, words = words[-1].upper() == "DESC", words[:-1]
    parts = split_path(" ".join(words))
    column = find_column(table, parts)
    if len(parts) > 1:
        raise InvalidInput(
            f"cannot sort '{table.qualified_name}' by '{text}': only columns can be sorted by, no fields"
        )
    return SortKey(quote_name(column.name), descending, nulls_first)
