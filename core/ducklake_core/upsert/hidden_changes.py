"""Where changes are kept that no version of a row shows, so that a late one still finds its place. Pure.

Such a companion is a table of the lake, written in the same snapshot as the versions (ADR 18). It has the columns of
the table, each named by its id, as are the fields of structs, `is_delete`, and when the change was noted.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

import numpy as np
import pyarrow as pa

from ducklake_core.errors import SchemaMismatch
from ducklake_core.model import Column, TableVersion, nodes_of
from ducklake_core.plan.conform import conform_column
from ducklake_core.plan.evolution import AddColumn, plan_evolution
from ducklake_core.spec.types import arrow_type, build_columns, type_text
from ducklake_core.upsert.history_columns import HistoryColumns

IS_DELETE, NOTED_AT = "is_delete", "noted_at"
_KEY_COMMENT = "key"


def column_name(column: Column) -> str:
    return f"column_{column.column_id}"


def hidden_columns(columns: HistoryColumns) -> dict[str, str]:
    """Return the columns of a companion, by name."""
    named = {column_name(c): type_text(_named_by_ids(c)) for c in (*columns.rows.columns, columns.start)}
    return {**named, IS_DELETE: "boolean", NOTED_AT: "timestamptz"}


def _named_by_ids(column: Column) -> Column:
    return replace(column, name=column_name(column), children=tuple(map(_named_by_ids, column.children)))


def surplus_paths(companion: TableVersion, columns: HistoryColumns) -> list[str]:
    """Return the columns and fields that the companion has and its table has no more."""
    steps = plan_evolution(build_columns(hidden_columns(columns)), companion.columns)
    return [step.path for step in steps if isinstance(step, AddColumn)]


def with_initial_defaults(companion: TableVersion, columns: HistoryColumns, first_new: int) -> TableVersion:
    """Return a companion whose new columns, by their ids, have in rows of before what they have in the table."""
    defaults = {column_name(node): node.initial_default for node in nodes_of(columns.rows.columns)}

    def fill(column: Column) -> Column:
        default = defaults.get(column.name) if column.column_id >= first_new else column.initial_default
        return replace(column, initial_default=default, children=tuple(map(fill, column.children)))

    return companion.with_columns(tuple(map(fill, companion.columns)))


def hidden_comments(columns: HistoryColumns) -> dict[str, str]:
    """Return the comments that say which columns are keys, by the name of the column."""
    return {column_name(c): _KEY_COMMENT for c in columns.keys}


def check_keys(companion: TableVersion, columns: HistoryColumns) -> None:
    """Raise SchemaMismatch when the companion was made for other keys."""
    kept = {c.name for c in companion.columns if c.comment == _KEY_COMMENT}
    if kept != set(hidden_comments(columns)):
        names = {column_name(c): c.name for c in columns.rows.columns}
        raise SchemaMismatch(
            f"the versions in '{columns.rows.qualified_name}' are those of the keys "
            f"{sorted(names.get(name, name) for name in kept)}, and not of {sorted(c.name for c in columns.keys)}: "
            f"keys of a table stay the same; drop '{companion.qualified_name}' to begin anew",
            columns=sorted(kept),
        )


def hidden_rows(
    columns: HistoryColumns, keys: pa.Table, rows: pa.Table, starts: pa.Array, is_delete: np.ndarray, now: datetime
) -> pa.Table:
    """Return changes as rows of a companion; of a delete `rows` has nulls, and `keys` has its key, as of all."""
    named = {c.name for c in columns.keys}
    found = {
        column_name(c): _viewed((keys if c.name in named else rows).column(c.name), _named_by_ids(c))
        for c in columns.rows.columns
    }
    noted = pa.array([now] * len(is_delete), pa.timestamp("us", "UTC"))
    return pa.table({**found, column_name(columns.start): starts, IS_DELETE: is_delete, NOTED_AT: noted})


def table_rows(columns: HistoryColumns, kept: pa.Table) -> pa.Table:
    """Return rows of a companion as rows of its table, without the start."""
    return pa.table({c.name: _column_of_table(kept.column(column_name(c)), c) for c in columns.rows.columns})


def _column_of_table(values: pa.ChunkedArray, column: Column) -> pa.ChunkedArray:
    by_ids = _named_by_ids(column)
    return _viewed(conform_column(values, by_ids, by_ids.name), column)


def _viewed(values: pa.ChunkedArray, column: Column) -> pa.ChunkedArray:
    """Return the same values, with the names of the column for the fields of structs."""
    type_ = arrow_type(column)
    return values if values.type == type_ else pa.chunked_array([part.view(type_) for part in values.chunks], type_)
