"""What has happened to the columns of a table between two snapshots, in words. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ducklake_core.model import Column


@dataclass(frozen=True, slots=True)
class ColumnChange:
    """One change. `is_breaking`: who knows the old columns does not find them among the new ones."""

    text: str
    is_breaking: bool


def column_changes(old: Sequence[Column], new: Sequence[Column], prefix: str = "") -> Iterator[ColumnChange]:
    """Yield what makes the new columns differ from the old ones, at every depth; columns are known by their ids."""
    after = {column.column_id: column for column in new}
    before = {column.column_id for column in old}
    for column in old:
        name = prefix + column.name
        found = after.get(column.column_id)
        if found is None:
            yield ColumnChange(f"column '{name}' was dropped", is_breaking=True)
            continue
        if found.name != column.name:
            yield ColumnChange(f"column '{name}' was renamed to '{found.name}'", is_breaking=True)
        if found.type != column.type:
            text = f"column '{name}' was changed from {column.type} to {found.type}"
            yield ColumnChange(text, is_breaking=False)
        yield from column_changes(column.children, found.children, f"{name}.")
    for column in new:
        if column.column_id not in before:
            yield ColumnChange(f"column '{prefix}{column.name}' was added", is_breaking=False)


def describe(changes: Sequence[ColumnChange]) -> str:
    return ", ".join(change.text for change in changes)
