"""Reads what a table has inlined, so that it is known from our next commit on: see `KnownRows`. Runs on the driver."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from ducklake_core.catalog.inlined_reader import RowPage
from ducklake_core.catalog.session import Session
from ducklake_core.files.parquet_reader import ROW_IDS
from ducklake_core.model import Column, DataFile, DataFileId, TableVersion
from ducklake_core.plan.file_facts import FieldFacts
from ducklake_core.read.inlined import read_inlined
from ducklake_core.read.listing import ask_catalog
from ducklake_core.read.request import RowRequest
from ducklake_core.row_writes import RowWriter
from ducklake_core.spec.kinds import NESTED, UNORDERED
from ducklake_core.upsert.known_rows import KnownRows, Segment

_MOST_ROWS = 20_000  # which take some 10 ms to be read, once


def learn_rows(
    writer: RowWriter,
    table: TableVersion,
    keys: tuple[Column, ...],
    request: RowRequest,
    files: Sequence[DataFile],
    facts: Mapping[DataFileId, tuple[FieldFacts, ...]],
) -> None:
    """Read all inlined rows of a table at the base, if they are few, and know them with its files."""
    has_odd_values = any(c.kind in (*NESTED, *UNORDERED) for c in table.columns)
    if has_odd_values or not writer.known.may_learn(table.table_id, writer.base):
        return
    segments = ask_catalog(writer.database, table, lambda session, known: [*_segments(session, known, keys, request)])
    if any(len(segment.row_ids) > _MOST_ROWS for segment in segments):
        writer.known.refuse(table.table_id, writer.base)
        return
    gone = {f.data_file_id: np.asarray(f.inlined_deletes, np.int64) for f in files if f.inlined_deletes}
    by_id = {f.data_file_id: f for f in files}
    rows = KnownRows(keys, table.columns, writer.base, by_id, facts, gone, tuple(segments))
    writer.known.learn(table.table_id, rows)


def _segments(session: Session, table: TableVersion, keys: Sequence[Column], request: RowRequest) -> Iterator[Segment]:
    names = [c.name for c in table.columns]
    for inlined in table.inlined_tables:
        found = read_inlined(session, inlined, request, RowPage(0, _MOST_ROWS + 1)).combine_chunks()
        if found.num_rows:
            yield Segment.of(inlined, found.select(names), found.column(ROW_IDS).to_numpy(), keys)
