"""What tables the catalog has and should have: those of the format, those of inlined rows, and whose they are."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from sqlalchemy import text

from ducklake_core.catalog.checks.question import filled, sql_name
from ducklake_core.catalog.database import Database
from ducklake_core.catalog.inlined_tables import SYSTEM_COLUMNS
from ducklake_core.catalog.session import Session, Statement
from ducklake_core.catalog.stored_tables import catalog_columns

_INLINED = re.compile(r"ducklake_inlined_(data|delete)_(\d+)(?:_\d+)?")


@dataclass(frozen=True)
class Inventory:
    """The tables of the database by their columns, the registered tables of inlined rows, and the lake's own tables."""

    stored: Mapping[str, Sequence[str]]
    registered: Mapping[str, int]  # of inlined rows, each with the id of its table
    live_ids: frozenset[int]
    known_ids: frozenset[int]  # those of tables that were dropped, and not forgotten, as well

    @cached_property
    def rows_by_table(self) -> dict[int, list[str]]:
        """The tables of inlined rows that are registered, there, and have the columns of the format."""
        found = defaultdict[int, list[str]](list)
        for name, table_id in self.registered.items():
            if self.has_system_columns(name):
                found[table_id].append(name)
        return found

    @cached_property
    def deletes_by_table(self) -> dict[int, str]:
        """The tables of inlined deletes of the lake's tables."""
        names = {table_id: f"ducklake_inlined_delete_{table_id}" for table_id in self.known_ids}
        return {table_id: name for table_id, name in names.items() if name in self.stored}

    @property
    def inlined(self) -> list[tuple[str, int, bool]]:
        """All tables of inlined rows or deletes: name, id of the table, and whether they are deletes."""
        found = [(name, _INLINED.fullmatch(name)) for name in self.stored]
        return [(name, int(match[2]), match[1] == "delete") for name, match in found if match]

    def has_system_columns(self, name: str) -> bool:
        """Tell whether a table of inlined rows is there and begins with the columns that all of them have."""
        return tuple(self.stored.get(name, ()))[: len(SYSTEM_COLUMNS)] == SYSTEM_COLUMNS

    def other_layout(self, expected: Mapping[str, Sequence[str]]) -> list[str]:
        """Return the catalog's tables that lack columns of the format, or have more."""
        return [name for name, columns in expected.items() if list(self.stored.get(name, ())) != list(columns)]


def read_inventory(session: Session) -> Inventory:
    """Read which tables there are."""
    registered = filled(session.database, "SELECT table_name, table_id FROM {ducklake_inlined_data_tables}")
    tables = filled(session.database, "SELECT table_id, max(CASE WHEN end_snapshot IS NULL THEN 1 ELSE 0 END)"
                             " FROM {ducklake_table} GROUP BY table_id")  # fmt: skip # one statement
    names, ids = session.run([Statement(text(registered)), Statement(text(tables))])
    live = frozenset(table_id for table_id, is_live in ids if is_live)
    return Inventory(catalog_columns(session), dict(tuple(row) for row in names), live, frozenset(i for i, _ in ids))


def union_of_rows(database: Database, names: Sequence[str]) -> str:
    """Return SQL for the row ids of some tables of inlined rows, with the snapshots that began and ended each."""
    columns = ", ".join(SYSTEM_COLUMNS)
    return " UNION ALL ".join(f"SELECT {columns} FROM {sql_name(database, name)}" for name in names)  # noqa: S608 # names of ours


def count_rows(session: Session, names: Sequence[str]) -> list[int]:
    """Return how many rows each of some tables has."""
    counts = [f"SELECT count(*) FROM {sql_name(session.database, name)}" for name in names]  # noqa: S608 # names of the catalog
    return [int(count) for [[count]] in session.run([Statement(text(sql)) for sql in counts])] if counts else []
