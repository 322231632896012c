"""The columns of a table that keeps all versions of its rows: when each began and ended, and the rest. Pure."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from ducklake_core.errors import InvalidInput, SchemaMismatch
from ducklake_core.model import Column, TableVersion
from ducklake_core.spec.names import fold
from ducklake_core.upsert.events import key_columns
from ducklake_core.upsert.rules import UpsertRules

START_AT, END_AT = "__START_AT", "__END_AT"


@dataclass(frozen=True, slots=True)
class HistoryColumns:
    """`rows` is the table as events know it, without the two columns; `tracked`: new values make a new version."""

    start: Column
    end: Column
    rows: TableVersion
    keys: tuple[Column, ...]
    tracked: tuple[Column, ...]

    @classmethod
    def of(cls, table: TableVersion, rules: UpsertRules) -> HistoryColumns:
        """Raise SchemaMismatch for a table that cannot keep versions, and for columns to track that it lacks."""
        start, end = table.column(START_AT), table.column(END_AT)
        if start is None or end is None or start.type != end.type:
            raise SchemaMismatch(
                f"table '{table.qualified_name}' keeps no versions of its rows: stored_as_scd_type=2 needs columns "
                f"'{START_AT}' and '{END_AT}', both of the type of sequence_by",
                columns=[START_AT, END_AT],
            )
        rows = table.with_columns(tuple(c for c in table.columns if c not in (start, end)))
        keys = key_columns(rows, rules)
        return cls(start, end, rows, keys, _tracked(rows, keys, rules))


def _tracked(rows: TableVersion, keys: tuple[Column, ...], rules: UpsertRules) -> tuple[Column, ...]:
    others = {fold(c.name): c for c in rows.columns if c not in keys}
    unknown = [name for name in rules.track_history_columns if fold(name) not in others]
    if unknown:
        raise SchemaMismatch(
            f"track_history_columns has '{unknown[0]}', which is no column of '{rows.qualified_name}' beside its keys",
            columns=unknown,
        )
    return tuple(others[fold(name)] for name in rules.track_history_columns) or tuple(others.values())


def refuse_versions(table: TableVersion, data: pa.Table) -> None:
    """Raise InvalidInput where one row for each key is to be changed in a table that keeps versions of its rows."""
    given = {fold(name) for name in data.column_names}
    lacking = [name for name in (START_AT, END_AT) if table.column(name) is not None and fold(name) not in given]
    if len(lacking) == 2:
        raise InvalidInput(
            f"table '{table.qualified_name}' keeps versions of its rows ('{START_AT}', '{END_AT}'): use upsert with "
            "stored_as_scd_type=2, or delete with a filter to have no trace of a key left"
        )
