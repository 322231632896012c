"""Reads many small data files: each by one request, and what is made of their rows is made once for all of them.

Runs on driver and executors; needs no catalog. A file of a thousand rows is decoded faster than its columns are taken
into Python and put together again one by one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
import pyarrow as pa

from ducklake_core.files.parquet_reader import (
    ReadPlan,
    ReadPlans,
    ReadRequest,
    is_partial,
    naming_the_file,
    only_named,
    open_parquet,
    row_ids_of,
    seen_rows,
    snapshot_ids_of,
)
from ducklake_core.files.storage import Storage
from ducklake_core.model import DataFile
from ducklake_core.spec.utf8 import find_invalid_text


@dataclass(frozen=True, slots=True, eq=False)
class _Content:
    """What a file has, as it has it. `dropped`: the positions of deleted rows."""

    file: DataFile
    dropped: np.ndarray | None
    plan: ReadPlan
    rows: pa.Table


def read_small_files(
    storage: Storage, files: Iterable[tuple[DataFile, np.ndarray | None]], request: ReadRequest, plans: ReadPlans
) -> pa.Table:
    """Read the rows of files in their order, each given with the positions of its deleted rows.

    The request asks for no positions. Raises UnreadableFile, which names the file.
    """
    contents = [_read(storage, file, dropped, request, plans) for file, dropped in files]
    tables = [request.schema.empty_table()]
    for _, alike in groupby(contents, lambda content: id(_plan_as_is(content, request))):  # so are their schemas
        some = list(alike)
        plan = _plan_as_is(some[0], request)
        together = None if plan is None else _together(plan, some, request)
        tables += [together] if together is not None else [_each(content, request) for content in some]
    return pa.concat_tables(tables)


def _read(
    storage: Storage, file: DataFile, dropped: np.ndarray | None, request: ReadRequest, plans: ReadPlans
) -> _Content:
    with naming_the_file(file, request.snapshot), storage.open_input(file.path) as source:
        parquet = open_parquet(pa.BufferReader(source.read_buffer()), file, request)
        schema = parquet.schema_arrow
        plan = plans.plan_of(schema, file, request)
        columns = None if len(plan.names) in (0, len(schema)) else plan.names  # without any there would be no rows
        rows = parquet.read(columns, use_threads=request.with_threads)
        return _Content(file, dropped, plan, rows if columns is None else only_named(rows, columns))


def _plan_as_is(content: _Content, request: ReadRequest) -> ReadPlan | None:
    """Return the plan of a file all of whose rows and columns are seen as they are, else None."""
    file, plan = content.file, content.plan
    is_whole = content.dropped is None and not is_partial(file, request)
    has_row_ids = plan.row_id_name is not None or file.row_id_start is not None or not request.with_row_ids
    return plan if is_whole and has_row_ids and plan.is_plain else None


def _together(plan: ReadPlan, contents: Sequence[_Content], request: ReadRequest) -> pa.Table | None:
    """Return the rows of files of one plan; None when some text is to be mended, and it must be told in which file."""
    if any(next(find_invalid_text(content.rows), None) is not None for content in contents):
        return None
    rows = pa.concat_tables([content.rows for content in contents])
    arrays = [rows.column(place) for place in plan.places if place is not None]
    if request.with_row_ids:
        arrays.append(_joined(row_ids_of(c.rows, plan, c.file, _positions(c.rows)) for c in contents))
    if request.with_snapshot_ids:
        arrays.append(_joined(snapshot_ids_of(c.rows, plan, c.file) for c in contents))
    return pa.Table.from_arrays(arrays, schema=plan.schema)


def _each(content: _Content, request: ReadRequest) -> pa.Table:
    return pa.Table.from_batches(_seen(content, request), request.schema)


def _seen(content: _Content, request: ReadRequest) -> Iterator[pa.RecordBatch]:
    start = 0
    with naming_the_file(content.file, request.snapshot):
        for rows in content.rows.combine_chunks().to_batches():
            yield seen_rows(rows, content.plan, content.file, request, start, content.dropped)
            start += rows.num_rows


def _positions(rows: pa.Table) -> np.ndarray:
    return np.arange(rows.num_rows, dtype=np.int64)


def _joined(parts: Iterable[pa.Array | pa.ChunkedArray]) -> pa.ChunkedArray:
    chunks = [part.chunks if isinstance(part, pa.ChunkedArray) else [part] for part in parts]
    return pa.chunked_array([chunk for some in chunks for chunk in some], pa.int64())
