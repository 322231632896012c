"""Arrow values ⇄ what a table of inlined rows holds behind a DB-API driver. Pure; runs where the commit runs.

Integers and booleans are stored as integers, blobs as bytes, everything else as DuckDB's text: drivers differ in what
they make of other types. SQLite would turn a NaN into NULL and has no decimals or times.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from ducklake_core.catalog.session import Row
from ducklake_core.model import Column
from ducklake_core.spec.arrays import plain, single
from ducklake_core.spec.inlined import InlinedRules, is_kept_as_text
from ducklake_core.spec.kinds import Kind
from ducklake_core.spec.small_rows import SmallColumn
from ducklake_core.spec.small_text import small_texts
from ducklake_core.spec.text import from_text, to_text
from ducklake_core.spec.types import arrow_type


def encode_rows(table: pa.Table, columns: Sequence[Column], rules: InlinedRules) -> list[tuple[object, ...]]:
    """Return the rows for `executemany`; the table's columns are those of `columns`, in that order."""
    encoded = [encode_column(table.column(i), column, rules) for i, column in enumerate(columns)]
    return list(zip(*encoded, strict=True))


def encode_few(rows: Sequence[SmallColumn], rules: InlinedRules) -> list[tuple[object, ...]]:
    """Return the same of few rows whose values were taken out of their arrays."""
    encoded: list[Sequence[object]] = [
        small_texts(values) if values.items is None or is_kept_as_text(values.column.type, rules) else values.items
        for values in rows
    ]
    return list(zip(*encoded, strict=True))


def encode_column(array: pa.Array | pa.ChunkedArray, column: Column, rules: InlinedRules) -> list[object]:
    """Return the values of one column as drivers bind them."""
    array = single(array)
    if is_kept_as_text(column.type, rules) and column.kind is not Kind.TEXT:
        array = to_text(array, column)
    elif column.type == "boolean":
        array = array.cast(pa.int8())
    return list(plain(array).to_pylist())


def decode_columns(rows: Sequence[Row], first: int, columns: Sequence[Column], rules: InlinedRules) -> list[pa.Array]:
    """Return the Arrow arrays of columns that rows of the database have from the place `first` on."""
    return [decode_column([row[i] for row in rows], column, rules) for i, column in enumerate(columns, first)]


def decode_column(values: list[object], column: Column, rules: InlinedRules) -> pa.Array:
    """Return the Arrow array of `arrow_type(column)` of values read from the database."""
    if column.type == "blob":
        return pa.array([v.encode() if isinstance(v, str) else v for v in values], arrow_type(column))
    if is_kept_as_text(column.type, rules) or any(isinstance(v, str) for v in values):
        texts = pa.array([v if v is None else str(v) for v in values], pa.string())
        return texts if column.type == "varchar" else from_text(texts, column)
    return pa.array(values, pa.int64()).cast(arrow_type(column))
