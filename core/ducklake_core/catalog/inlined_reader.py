"""Reads inlined rows: those live at a snapshot for readers, all versions of them for a flush. All in chunks."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ducklake_core.catalog import inlined_queries, queries
from ducklake_core.catalog.database import Database
from ducklake_core.catalog.inlined_store import FetchedRows, RowQuery, fetched_whole
from ducklake_core.catalog.inlined_tables import SYSTEM_COLUMNS, inlined_table
from ducklake_core.catalog.row_versions import RowVersions
from ducklake_core.catalog.session import Session, Statement
from ducklake_core.model import Column, InlinedTable, SnapshotId, SnapshotSpan, TableVersion
from ducklake_core.plan.row_id_pieces import CountedRows, RowIdPiece, row_id_pieces


@dataclass(frozen=True, slots=True)
class RowIdRange:
    """Row ids that follow each other: `first` is one of them, `end` is not."""

    first: int
    end: int


@dataclass(frozen=True, slots=True)
class RowPage:
    """The next rows, so many at most, from a row id on."""

    first: int
    limit: int


# Types whose values have one form in every table of inlined rows, whoever wrote them.
_OF_ONE_FORM = frozenset({*(f"int{n}" for n in (8, 16, 32, 64)), "uint8", "uint16", "uint32", "varchar", "uuid"})


@dataclass(frozen=True, slots=True, eq=False)
class WantedValues:
    """Which rows are wanted, at least: those that have one of some values in a column."""

    column: Column
    values: pa.Array

    def place_in(self, inlined: InlinedTable) -> int | None:
        """Return where an inlined table has the column, None when the database cannot be asked for the values."""
        if self.column.type not in _OF_ONE_FORM or not len(self.values):
            return None
        found = (i for i, c in enumerate(inlined.columns) if c.column_id == self.column.column_id)
        place = next(found, None)
        return place if place is not None and inlined.columns[place].type == self.column.type else None

    def pieces(self, size: int) -> Iterator[WantedValues]:
        """Yield them with so many values at most in each."""
        for first in range(0, len(self.values), size):
            yield WantedValues(self.column, self.values.slice(first, size))


@dataclass(frozen=True, slots=True)
class InlinedExtent:
    """How much one inlined table holds: live rows, their row ids, and about how many bytes, ended rows included."""

    rows: int
    row_ids: RowIdRange
    size_bytes: int


def read_inlined_rows(
    session: Session,
    inlined: InlinedTable,
    columns: Sequence[Column],
    snapshot: SnapshotId,
    row_ids: RowIdRange | RowPage | None = None,
) -> tuple[pa.Table, np.ndarray]:
    """Return live rows with the chosen columns (as the inlined table has them), and their row ids.

    `row_ids`: only the rows that have one of them.
    """
    found = _fetch_all(session, live_rows_query(session, inlined, columns, snapshot, row_ids))
    [found_ids] = found.numbers
    return found.rows, found_ids


def live_rows_query(
    session: Session,
    inlined: InlinedTable,
    columns: Sequence[Column],
    snapshot: SnapshotId,
    row_ids: RowIdRange | RowPage | None = None,
    wanted: Sequence[WantedValues] = (),
) -> RowQuery:
    """Return the query of `read_inlined_rows`. `wanted`: rows that lack a value of one of these may be left out."""
    table, picked = inlined_queries.pick_columns(session, inlined, tuple(c.column_id for c in columns))
    statement = Statement(inlined_queries.live_rows(table, picked), {"snapshot": snapshot})
    if isinstance(row_ids, RowIdRange):
        bounds = {"first_row_id": row_ids.first, "end_row_id": row_ids.end}
        statement = Statement(inlined_queries.live_rows_between(table, picked), {"snapshot": snapshot, **bounds})
    elif isinstance(row_ids, RowPage):
        bounds = {"first_row_id": row_ids.first, "limit": row_ids.limit}
        statement = Statement(inlined_queries.live_rows_from(table, picked), {"snapshot": snapshot, **bounds})
    elif asked := [(place, one) for one in wanted if (place := one.place_in(inlined)) is not None]:
        store = session.dialect.inlined
        values = {f"among_{i}": store.among_values(one.values, one.column) for i, (_, one) in enumerate(asked)}
        places = tuple((place, one.column) for place, one in asked)
        among = inlined_queries.live_rows_among(table, picked, places, store)
        statement = Statement(among, {"snapshot": snapshot, **values})
    return RowQuery(statement, inlined.name, 1, columns)


def read_inlined_changes(
    session: Session,
    inlined: InlinedTable,
    columns: Sequence[Column],
    span: SnapshotSpan,
    *,
    row_ids: RowIdRange | None = None,
    limit: int | None = None,
) -> RowVersions:
    """Return the row versions that a range of snapshots began or ended, with the chosen columns.

    `row_ids`: only those that have one of them; `limit`: any so many of them.
    """
    table, picked = inlined_queries.pick_columns(session, inlined, tuple(c.column_id for c in columns))
    parameters: dict[str, object] = {"start": span.start, "end": span.end}
    if row_ids is not None:
        parameters |= {"first_row_id": row_ids.first, "end_row_id": row_ids.end}
    if limit is not None:
        parameters |= {"limit": limit}
    statement = Statement(inlined_queries.changed_versions(table, picked, frozenset(parameters)), parameters)
    found = _fetch_all(session, RowQuery(statement, inlined.name, len(SYSTEM_COLUMNS), columns))
    return RowVersions(found.rows, *found.numbers)


def read_spread(
    session: Session, tables: Sequence[InlinedTable], span: SnapshotSpan, rows: int
) -> tuple[RowIdPiece, ...]:
    """Return where the row versions are that a range of snapshots began or ended: pieces of about so many, by row ids.

    All versions of a row are in one piece, whichever of the tables they are in. The rows themselves are not read.
    """
    rules, schema = session.dialect.inlined_rules, session.database.url.metadata_schema
    sql_tables = tuple(inlined_table(t.name, (), rules, schema) for t in tables)
    found = session.query(inlined_queries.spread(sql_tables), start=span.start, end=span.end, rows=rows)
    return tuple(row_id_pieces((CountedRows(*map(int, row)) for row in found), len(tables)))


def count_inlined_changes(session: Session, table: TableVersion, span: SnapshotSpan) -> Iterator[tuple[int, int]]:
    """Yield how many inlined row versions each snapshot of a range began, and how many it ended."""
    rules, schema = session.dialect.inlined_rules, session.database.url.metadata_schema
    tables = [inlined_table(t.name, (), rules, schema) for t in table.inlined_tables]
    marks = [mark for t in tables for mark in (t.c.begin_snapshot, t.c.end_snapshot)]
    statements = [Statement(inlined_queries.count_by(mark), {"start": span.start, "end": span.end}) for mark in marks]
    for rows in session.run(statements) if statements else ():
        yield from ((snapshot, count) for snapshot, count in rows)


def read_row_versions(
    database: Database, inlined: InlinedTable, snapshot: SnapshotId, chunk_bytes: int
) -> Generator[RowVersions, None, None]:
    """Yield all row versions begun by a snapshot, by row id and begin, in chunks of about so many bytes.

    Where a reader keeps writers from committing, each chunk is a short transaction of its own: who needs all chunks to
    be of one state must check afterwards.
    """
    return database.dialect.inlined.read_versions(database, inlined, snapshot, chunk_bytes)


def count_row_versions(session: Session, names: Sequence[str], snapshot: SnapshotId) -> list[int]:
    """Return how many row versions each of some inlined tables has that a snapshot or one before it began."""
    rules, schema = session.dialect.inlined_rules, session.database.url.metadata_schema
    tables = [inlined_table(name, (), rules, schema) for name in names]
    statements = [Statement(inlined_queries.count_versions(table), {"snapshot": snapshot}) for table in tables]
    return [int(count) for [[count]] in session.run(statements)] if statements else []


def read_inlined_extents(session: Session, tables: Sequence[InlinedTable], snapshot: SnapshotId) -> list[InlinedExtent]:
    """Return how much each of some inlined tables holds at a snapshot, without reading the rows."""
    if not tables:
        return []
    sql_tables = [table for table, _ in (inlined_queries.pick_columns(session, inlined, ()) for inlined in tables)]
    row_size = session.dialect.inlined.row_size
    statements = [Statement(inlined_queries.extent(table), {"snapshot": snapshot}) for table in sql_tables]
    statements += [Statement(queries.row_count_and_bytes(table, row_size(table))) for table in sql_tables]
    found = session.run(statements)
    return [
        InlinedExtent(int(count), RowIdRange(int(first), int(end)), int(size))
        for [(count, first, end)], [(_, size)] in zip(found[: len(tables)], found[len(tables) :], strict=True)
    ]


def _fetch_all(session: Session, query: RowQuery) -> FetchedRows:
    return fetched_whole([*session.dialect.inlined.fetch(session, query)], query)
