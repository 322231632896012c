"""Where changes are kept that no version of a row shows, so that a late one still finds its place. Pure.

Such a companion is a table of the lake, written in the same snapshot as the versions (ADR 18). It has the columns of
the table, each named by its id, `is_delete`, and when the change was noted.
"""

from __future__ import annotations

from datetime import datetime

import numpy as np
import pyarrow as pa

from ducklake_core.errors import SchemaMismatch
from ducklake_core.model import Column, TableVersion
from ducklake_core.spec.types import type_text
from ducklake_core.upsert.history_columns import HistoryColumns

IS_DELETE, NOTED_AT = "is_delete", "noted_at"
_KEY_COMMENT = "key"


def column_name(column: Column) -> str:
    return f"column_{column.column_id}"


def hidden_columns(columns: HistoryColumns) -> dict[str, str]:
    """Return the columns of a companion, by name."""
    named = {column_name(c): type_text(c) for c in (*columns.rows.columns, columns.start)}
    return {**named, IS_DELETE: "boolean", NOTED_AT: "timestamptz"}


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
    found = {column_name(c): (keys if c.name in named else rows).column(c.name) for c in columns.rows.columns}
    noted = pa.array([now] * len(is_delete), pa.timestamp("us", "UTC"))
    return pa.table({**found, column_name(columns.start): starts, IS_DELETE: is_delete, NOTED_AT: noted})
