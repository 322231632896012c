"""Inlined rows as a table has them at a snapshot, read in a session of the catalog. Runs on driver and executors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from ducklake_core.catalog.inlined_reader import (
    RowIdRange,
    RowPage,
    WantedValues,
    live_rows_query,
    read_inlined_rows,
)
from ducklake_core.catalog.inlined_store import FetchedRows, RowQuery
from ducklake_core.catalog.session import Session
from ducklake_core.files.field_match import Constant, Found, assemble, match_fields
from ducklake_core.files.parquet_reader import ROW_IDS
from ducklake_core.model import Column, InlinedTable
from ducklake_core.read.request import POSITION_FIELDS, RowRequest
from ducklake_core.spec.types import identified_field


def read_inlined(
    session: Session,
    inlined: InlinedTable,
    request: RowRequest,
    row_ids: RowIdRange | RowPage | None = None,
) -> pa.Table:
    """Return the rows of an inlined table that match; `row_ids`: only those that have one of them."""
    rows, found_ids = read_inlined_rows(session, inlined, _present(inlined, request), request.snapshot, row_ids)
    return _as_asked(rows, found_ids, inlined, request)


def inlined_query(
    session: Session, inlined: InlinedTable, request: RowRequest, wanted: Sequence[WantedValues]
) -> RowQuery:
    """Return the query of an inlined table's rows; those that lack a value of one of `wanted` may be left out."""
    return live_rows_query(session, inlined, _present(inlined, request), request.snapshot, None, wanted)


def inlined_answer(found: FetchedRows, inlined: InlinedTable, request: RowRequest) -> pa.Table:
    """Return the rows of an `inlined_query` that match."""
    [found_ids] = found.numbers
    return _as_asked(found.rows, found_ids, inlined, request)


def _present(inlined: InlinedTable, request: RowRequest) -> list[Column]:
    """Return the columns to be read, as far as the inlined table has them."""
    ids = {c.column_id for c in request.needed_columns}
    return [c for c in inlined.columns if c.column_id in ids]


def _as_asked(rows: pa.Table, row_ids: np.ndarray, inlined: InlinedTable, request: RowRequest) -> pa.Table:
    found = as_table_columns(rows, len(row_ids), _present(inlined, request), request.needed_columns)
    return _shown(found, row_ids, inlined, request)


def as_table_columns(rows: pa.Table, count: int, present: Sequence[Column], columns: Sequence[Column]) -> pa.Table:
    """Make inlined rows, which have the columns they were written under, those of the table at the snapshot."""
    if tuple(present) == tuple(columns):
        return rows
    arrays = []
    for source in match_fields([identified_field(c) for c in present], columns) if present else _constants(columns):
        array = rows.column(source.index).combine_chunks() if isinstance(source, Found) else None
        arrays.append(assemble(source, array, count))
    return pa.table(arrays, names=[c.name for c in columns])


def _constants(columns: Sequence[Column]) -> list[Constant]:
    return [Constant(c, c.initial_default) for c in columns]


def _shown(rows: pa.Table, row_ids: np.ndarray, inlined: InlinedTable, request: RowRequest) -> pa.Table:
    """Filter rows and give them the columns asked for."""
    rows = rows.append_column(ROW_IDS, pa.array(row_ids, pa.int64()))
    rows = rows if request.row_filter is None else rows.filter(request.row_filter)
    shown = rows.select([*(c.name for c in request.columns), *([ROW_IDS] if request.with_row_ids else [])])
    if request.with_positions:
        count = rows.num_rows
        places = (pa.nulls(count, pa.int64()), pa.repeat(inlined.name, count), rows.column(ROW_IDS))
        for field, values in zip(POSITION_FIELDS, places, strict=True):
            shown = shown.append_column(field, values)
    return shown if shown.schema.equals(request.schema) else shown.cast(request.schema)
