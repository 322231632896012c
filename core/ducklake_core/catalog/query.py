"""A query of the catalog: its SELECT, and the names of what comes back. Asked within a session."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from sqlalchemy import ColumnElement, Select, Table, select

if TYPE_CHECKING:
    from ducklake_core.catalog.session import Row, Session

NamedRow = TypeVar("NamedRow", bound=NamedTuple)


@dataclass(frozen=True, slots=True, eq=False)  # compared by identity: there is one of each
class Query(Generic[NamedRow]):
    """A SELECT whose columns are the fields of its rows, in that order: names cost no look-up when rows are read."""

    row: type[NamedRow]
    select: Select[Any]  # Any: a catalog row has values of many types

    def __post_init__(self) -> None:
        selected = tuple(self.select.selected_columns.keys())
        if selected != self.row._fields:
            raise TypeError(f"a query of {self.row.__name__} selects {', '.join(selected)}")

    def ask(self, session: Session, **parameters: object) -> list[NamedRow]:
        return [*map(self.row._make, session.query(self.select, **parameters))]

    def named(self, rows: Iterable[Row]) -> list[NamedRow]:
        """Give the rows that a session found for the SELECT their names."""
        return [*map(self.row._make, rows)]


def select_fields(row: type[NamedRow], table: Table, *more: ColumnElement[Any]) -> Select[Any]:  # Any: see Query
    """Select those columns of a table that are fields of a row, and after them others, which are its last fields."""
    names = row._fields[: len(row._fields) - len(more)]
    return select(*(table.c[name] for name in names), *more)


def select_labelled(columns: Mapping[str, ColumnElement[Any]]) -> Select[Any]:  # Any: see Query
    """Select what is computed, by the names that its rows have for it."""
    labelled: list[ColumnElement[Any]] = [column.label(name) for name, column in columns.items()]
    return select(*labelled)
