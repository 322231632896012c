"""Arrow values ⇄ what a table of inlined rows holds in SQLite. Pure; runs where the commit runs.

Integers and booleans are stored as integers, blobs as bytes, everything else as DuckDB's text: SQLite would turn a NaN
into NULL and has no decimals or times.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from ducklake_core.model import Column
from ducklake_core.spec.arrays import plain, single
from ducklake_core.spec.few_rows import FewValues, few_texts
from ducklake_core.spec.inlined import inlined_type
from ducklake_core.spec.text import from_text, to_text
from ducklake_core.spec.types import arrow_type


def encode_rows(table: pa.Table, columns: Sequence[Column]) -> list[tuple[object, ...]]:
    """Return the rows for `executemany`; the table's columns are those of `columns`, in that order."""
    encoded = [encode_column(table.column(i), column) for i, column in enumerate(columns)]
    return list(zip(*encoded, strict=True))


def encode_few(rows: Sequence[FewValues]) -> list[tuple[object, ...]]:
    """Return the same of few rows whose values were taken out of their arrays."""
    return list(zip(*map(_few_column, rows), strict=True))


def _few_column(values: FewValues) -> Sequence[object]:
    is_text = inlined_type(values.column, "sqlite") == "VARCHAR"
    return few_texts(values) if is_text or values.items is None else values.items


def encode_column(array: pa.Array | pa.ChunkedArray, column: Column) -> list[object]:
    """Return the values of one column as sqlite3 binds them."""
    array = single(array)
    stored = inlined_type(column, "sqlite")
    if stored == "VARCHAR" and column.type not in ("varchar", "json"):
        array = to_text(array, column)
    elif column.type == "boolean":
        array = array.cast(pa.int8())
    return list(plain(array).to_pylist())


def decode_column(values: list[object], column: Column) -> pa.Array:
    """Return the Arrow array of `arrow_type(column)` of values read from SQLite."""
    stored = inlined_type(column, "sqlite")
    if stored == "BLOB":
        return pa.array([v.encode() if isinstance(v, str) else v for v in values], arrow_type(column))
    if stored == "VARCHAR" or any(isinstance(v, str) for v in values):
        return from_text(pa.array([v if v is None else str(v) for v in values], pa.string()), column)
    return pa.array(values, pa.int64()).cast(arrow_type(column))
