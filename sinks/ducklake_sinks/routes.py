"""Which table each row goes to, where a column of the data says so. Pure; runs on driver and executors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from ducklake_core.errors import InvalidInput
from ducklake_core.spec.names import check_name, fold, split_table_name

TableKey: TypeAlias = tuple[str, str]  # what all names of one table share
COMPUTED_ROUTE = "__ducklake_route"  # the column that a route function fills


def route_key(name: str) -> TableKey:
    """Return what all names of one table share; raise InvalidInput for what is no name."""
    schema, table = split_table_name(name)
    return fold(schema), fold(table)


def split_by_route(table: pa.Table, column: str) -> Iterator[tuple[str | None, pa.Table]]:
    """Yield the name of each table with its rows, the first seen first; None for rows that name no table.

    A column that was computed only to name the table is left out.
    """
    names = table.column(column).cast(pa.string())
    rows = table.drop_columns([column]) if column == COMPUTED_ROUTE else table
    for name in pc.unique(names).to_pylist():
        mask = pc.is_null(names) if name is None else pc.fill_null(pc.equal(names, name), False)  # noqa: FBT003 # Arrow's signature
        yield name, rows.filter(mask)


def why_no_table(name: str | None, column: str, dead_letters: str) -> str | None:
    """Return the reason why a value names no table that rows may go to, None when it does."""
    shown = "the route" if column == COMPUTED_ROUTE else f"column '{column}'"
    if name is None:
        return f"{shown} is null, so no table is named"
    try:
        for part, noun in zip(split_table_name(name), ("schema", "table"), strict=True):
            check_name(part, noun)
    except InvalidInput as error:
        return f"{shown} names no table: {error}"
    if route_key(name) == route_key(dead_letters):
        return f"{shown} names '{name}', the table for dead letters"
    return None
