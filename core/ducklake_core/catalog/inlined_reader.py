"""Reads inlined rows: those live at a snapshot for readers, all versions of them for a flush.

PostgreSQL sends them by COPY, as bytes that are decoded a column at a time, and many that lie in order by pages; SQLite
gives Python values. All in chunks.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Select,
    String,
    Table,
    and_,
    bindparam,
    func,
    literal_column,
    or_,
    select,
    tuple_,
)
from sqlalchemy import cast as sql_cast

from ducklake_core.catalog import queries
from ducklake_core.catalog.database import Database
from ducklake_core.catalog.dbapi import values as dbapi_values
from ducklake_core.catalog.dbapi.sqlite_rules import SQLITE_RULES
from ducklake_core.catalog.inlined_tables import SYSTEM_COLUMNS, inlined_table, user_columns
from ducklake_core.catalog.postgres import encode
from ducklake_core.catalog.postgres.copy_decode import CopiedRows, split_rows
from ducklake_core.catalog.postgres.joined_decode import PLACE, page_start
from ducklake_core.catalog.postgres.page_reader import Pages, count_pages, read_in_order
from ducklake_core.catalog.postgres.rules import POSTGRES_RULES
from ducklake_core.catalog.row_versions import RowVersions, no_columns, table_of
from ducklake_core.catalog.session import Row, Session, Statement
from ducklake_core.model import Column, ColumnId, InlinedTable, SnapshotId, SnapshotSpan, TableVersion
from ducklake_core.spec.inlined import InlinedRules
from ducklake_core.text_repair import with_valid_text

READ_CHUNK_BYTES = 64 * 2**20
# What a row of SQLite takes as Python values besides its contents: a tuple, and an object for nearly every cell.
_ROW_OVERHEAD, _CELL_OVERHEAD = 64, 48


@dataclass(frozen=True, slots=True)
class RowIdRange:
    """Row ids that follow each other: `first` is one of them, `end` is not."""

    first: int
    end: int


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
    row_ids: RowIdRange | None = None,
) -> tuple[pa.Table, np.ndarray]:
    """Return live rows with the chosen columns (as the inlined table has them), and their row ids.

    `row_ids`: only the rows that have one of them.
    """
    table, picked = _picked(session, inlined, tuple(c.column_id for c in columns))
    statement = Statement(_live_rows(table, picked), {"snapshot": snapshot})
    if row_ids is not None:
        bounds = {"first_row_id": row_ids.first, "end_row_id": row_ids.end}
        statement = Statement(_live_rows_between(table, picked), {"snapshot": snapshot, **bounds})
    if session.dialect.name == "sqlite":
        rows = session.run([statement])[0]
        return _rows_of(rows, columns, 1), _int64s(rows, 0)
    chunks: list[pa.Table] = []
    found = [np.empty(0, np.int64)]
    with session.copy_out(statement) as messages:
        for copied in split_rows(messages, 1 + len(columns), READ_CHUNK_BYTES):
            chunks.append(_copied_rows(copied, inlined.name, columns, 1))
            found.append(copied.int64s(0))
    ids = np.concatenate(found)
    if not columns or not chunks:  # Arrow forgets how many rows there are when it joins tables without columns
        return _rows_of([], columns, 1) if columns else no_columns(len(ids)), ids
    return pa.concat_tables(chunks), ids


def read_inlined_changes(
    session: Session, inlined: InlinedTable, columns: Sequence[Column], span: SnapshotSpan
) -> RowVersions:
    """Return the row versions that a range of snapshots began or ended, with the chosen columns."""
    table, picked = _picked(session, inlined, tuple(c.column_id for c in columns))
    statement = Statement(_changed_versions(table, picked), {"start": span.start, "end": span.end})
    if session.dialect.name == "sqlite":
        rows = session.run([statement])[0]
        return RowVersions(_rows_of(rows, columns, 3), _int64s(rows, 0), _int64s(rows, 1), _int64s(rows, 2))
    chunks = []
    with session.copy_out(statement) as messages:
        for copied in split_rows(messages, 3 + len(columns), READ_CHUNK_BYTES):
            numbers = (copied.int64s(0), copied.int64s(1), copied.int64s(2))
            chunks.append(RowVersions(_copied_rows(copied, inlined.name, columns, 3), *numbers))
    return _joined(chunks, columns)


def count_inlined_changes(session: Session, table: TableVersion, span: SnapshotSpan) -> Iterator[tuple[int, int]]:
    """Yield how many inlined row versions each snapshot of a range began, and how many it ended."""
    rules, schema = session.dialect.inlined_rules, session.database.url.metadata_schema
    tables = [inlined_table(t.name, (), rules, schema) for t in table.inlined_tables]
    marks = [mark for t in tables for mark in (t.c.begin_snapshot, t.c.end_snapshot)]
    statements = [Statement(_count_by(mark), {"start": span.start, "end": span.end}) for mark in marks]
    for rows in session.run(statements) if statements else ():
        yield from ((row[0], row[1]) for row in rows)


@lru_cache(maxsize=512)
def _count_by(mark: ColumnElement[int]) -> Select[int, int]:
    start, end = (bindparam(name, type_=BigInteger) for name in ("start", "end"))
    return select(mark, func.count()).where(mark > start, mark <= end).group_by(mark)


def _joined(chunks: Sequence[RowVersions], columns: Sequence[Column]) -> RowVersions:
    empty = np.empty(0, np.int64)
    if not chunks:
        return RowVersions(_rows_of([], columns, 3), empty, empty, empty)
    numbers = ([c.row_ids for c in chunks], [c.begins for c in chunks], [c.ends for c in chunks])
    row_ids, begins, ends = (np.concatenate(found) for found in numbers)
    rows = pa.concat_tables([c.rows for c in chunks]) if columns else no_columns(len(row_ids))
    return RowVersions(rows, row_ids, begins, ends)


def read_row_versions(
    database: Database, inlined: InlinedTable, snapshot: SnapshotId, chunk_bytes: int
) -> Generator[RowVersions, None, None]:
    """Yield all row versions begun by a snapshot, by row id and begin, in chunks of about so many bytes.

    PostgreSQL reads in one transaction, which locks no row. Of many rows those that lie in that order come first, then
    the others, in that order as well. On SQLite a reader keeps writers from committing: there each chunk is a short
    transaction of its own, and who needs all chunks to be of one state must check afterwards.
    """
    if database.dialect.name == "sqlite":
        yield from _paged(database, inlined, snapshot, chunk_bytes)
        return
    with database.read() as session:
        table, picked = _picked(session, inlined, tuple(c.column_id for c in inlined.columns))
        wanted = Pages(table, picked, inlined.columns, snapshot)
        count, first = count_pages(session, inlined.name, len(inlined.columns)), 0
        if count:
            for versions, first in read_in_order(session, wanted, count, chunk_bytes):  # noqa: B007 # see below
                yield versions
        if first < count or not count:
            yield from _sorted(session, wanted, first, chunk_bytes)


def count_row_versions(session: Session, names: Sequence[str], snapshot: SnapshotId) -> list[int]:
    """Return how many row versions each of some inlined tables has that a snapshot or one before it began."""
    rules, schema = session.dialect.inlined_rules, session.database.url.metadata_schema
    tables = [inlined_table(name, (), rules, schema) for name in names]
    statements = [Statement(_count(table), {"snapshot": snapshot}) for table in tables]
    return [int(rows[0][0]) for rows in session.run(statements)] if statements else []


def read_inlined_extents(session: Session, tables: Sequence[InlinedTable], snapshot: SnapshotId) -> list[InlinedExtent]:
    """Return how much each of some inlined tables holds at a snapshot, without reading the rows."""
    if not tables:
        return []
    sql_tables = [_picked(session, inlined, ())[0] for inlined in tables]
    statements = [Statement(_extent(table), {"snapshot": snapshot}) for table in sql_tables]
    statements += [Statement(queries.row_count_and_bytes(table, session.dialect.name)) for table in sql_tables]
    found = session.run(statements)
    return [
        InlinedExtent(int(count), RowIdRange(int(first), int(end)), int(size))
        for [(count, first, end)], [(_, size)] in zip(found[: len(tables)], found[len(tables) :], strict=True)
    ]


def _sorted(session: Session, pages: Pages, first: int, chunk_bytes: int) -> Iterator[RowVersions]:
    """Yield the row versions of all pages from one on, as the server sorts them."""
    statement = Statement(_all_versions(pages.table, pages.picked), {"snapshot": pages.snapshot})
    if first:
        parameters = {"snapshot": pages.snapshot, "first": page_start(first)}
        statement = Statement(_versions_from(pages.table, pages.picked), parameters)
    with session.copy_out(statement) as messages:
        for copied in split_rows(messages, len(SYSTEM_COLUMNS) + len(pages.columns), chunk_bytes):
            rows = _copied_rows(copied, pages.table.name, pages.columns, len(SYSTEM_COLUMNS))
            yield RowVersions(rows, copied.int64s(0), copied.int64s(1), copied.int64s(2))


def _paged(database: Database, inlined: InlinedTable, snapshot: SnapshotId, chunk_bytes: int) -> Iterator[RowVersions]:
    with database.read() as session:
        table, picked = _picked(session, inlined, tuple(c.column_id for c in inlined.columns))
        [[count, size, largest]] = session.query(_size(table))
    overhead = _ROW_OVERHEAD + _CELL_OVERHEAD * len(table.columns)
    limit = max(1, chunk_bytes // ((size or 0) // max(1, count) + overhead))
    is_uneven = limit * (largest or 0) > 2 * chunk_bytes  # then a page is measured before it is read
    last = (-1, -1, -1)
    while True:
        with database.read() as session:
            parameters = {"last_row_id": last[0], "last_begin": last[1], "last_place": last[2]}
            page = limit
            if is_uneven:
                sizes = session.query(_page_sizes(table), snapshot=snapshot, page=limit, **parameters)
                ends = np.cumsum(_int64s(sizes, -2) + overhead)
                page = max(1, int(np.searchsorted(ends, chunk_bytes, side="right")))
            rows = session.query(_page(table, picked), snapshot=snapshot, page=page, **parameters)
        if rows:
            ids = (_int64s(rows, 0), _int64s(rows, 1), _int64s(rows, 2))
            yield RowVersions(_rows_of(rows, inlined.columns, len(SYSTEM_COLUMNS)), *ids)
        if len(rows) < page:
            return
        last = (rows[-1][0], rows[-1][1], rows[-1][-1])


# ---------------------------------------------------------------------------------------- statements


def _picked(
    session: Session, inlined: InlinedTable, chosen: tuple[ColumnId, ...]
) -> tuple[Table, tuple[ColumnElement[object], ...]]:
    rules, schema = session.dialect.inlined_rules, session.database.url.metadata_schema
    return _pick(inlined.name, inlined.columns, chosen, rules, schema, inlined.stored_names)


@lru_cache(maxsize=512)
def _pick(
    name: str,
    columns: tuple[Column, ...],
    chosen: tuple[ColumnId, ...],
    rules: InlinedRules,
    schema: str | None,
    stored_names: tuple[str, ...],
) -> tuple[Table, tuple[ColumnElement[object], ...]]:
    table = inlined_table(name, columns, rules, schema, stored_names)
    by_id = {c.column_id: (sql_column, c) for sql_column, c in zip(user_columns(table), columns, strict=True)}
    return table, tuple(_selected(*by_id[i], rules) for i in chosen)


def _selected(sql_column: ColumnElement[object], column: Column, rules: InlinedRules) -> ColumnElement[object]:
    if rules is POSTGRES_RULES and encode.select_cast(column) is not None:
        return sql_cast(sql_column, String)
    return sql_column


@lru_cache(maxsize=512)
def _live_rows(table: Table, picked: tuple[ColumnElement[object], ...]) -> Select[tuple[object, ...]]:
    return select(table.c.row_id, *picked).where(queries.live_at(table)).order_by(table.c.row_id)


@lru_cache(maxsize=512)
def _live_rows_between(table: Table, picked: tuple[ColumnElement[object], ...]) -> Select[tuple[object, ...]]:
    is_wanted = table.c.row_id >= bindparam("first_row_id"), table.c.row_id < bindparam("end_row_id")
    return _live_rows(table, picked).where(*is_wanted)


@lru_cache(maxsize=512)
def _extent(table: Table) -> Select[Any]:
    """The live rows, their least row id, and the one behind the greatest."""
    ends = func.coalesce(func.min(table.c.row_id), 0), func.coalesce(func.max(table.c.row_id) + 1, 0)
    return select(func.count(), *ends).select_from(table).where(queries.live_at(table))


@lru_cache(maxsize=512)
def _all_versions(table: Table, picked: tuple[ColumnElement[object], ...]) -> Select[tuple[object, ...]]:
    system = [table.c[name] for name in SYSTEM_COLUMNS]
    found = select(*system, *picked).where(table.c.begin_snapshot <= bindparam("snapshot"))
    return found.order_by(table.c.row_id, table.c.begin_snapshot)


@lru_cache(maxsize=512)
def _changed_versions(table: Table, picked: tuple[ColumnElement[object], ...]) -> Select[tuple[object, ...]]:
    system = [table.c[name] for name in SYSTEM_COLUMNS]
    start, end = (bindparam(name, type_=BigInteger) for name in ("start", "end"))
    begun = and_(table.c.begin_snapshot > start, table.c.begin_snapshot <= end)
    ended = and_(table.c.end_snapshot > start, table.c.end_snapshot <= end)
    return select(*system, *picked).where(or_(begun, ended))


@lru_cache(maxsize=512)
def _versions_from(table: Table, picked: tuple[ColumnElement[object], ...]) -> Select[tuple[object, ...]]:
    return _all_versions(table, picked).where(bindparam("first", type_=PLACE.type) <= PLACE)


@lru_cache(maxsize=512)
def _page(table: Table, picked: tuple[ColumnElement[object], ...]) -> Select[tuple[object, ...]]:
    """A page of SQLite, with the place of each row at its end: whatever else is equal, that is not."""
    key = table.c.row_id, table.c.begin_snapshot, _place(table)
    after = tuple_(*key) > tuple_(bindparam("last_row_id"), bindparam("last_begin"), bindparam("last_place"))
    return _all_versions(table, picked).add_columns(key[2]).order_by(key[2]).where(after).limit(bindparam("page"))


@lru_cache(maxsize=512)
def _page_sizes(table: Table) -> Select[tuple[object, ...]]:
    return _page(table, (queries.characters_of_row(table),))


def _place(table: Table) -> ColumnElement[int]:
    """Return SQLite's own row number, by a name that no column of the table has."""
    taken = {column.name.lower() for column in table.columns}
    return literal_column(next((n for n in ("_rowid_", "rowid", "oid") if n not in taken), "0"), BigInteger)


@lru_cache(maxsize=512)
def _count(table: Table) -> Select[Any]:
    begun = table.c.begin_snapshot <= bindparam("snapshot")
    return select(func.count()).select_from(table).where(begun)


@lru_cache(maxsize=512)
def _size(table: Table) -> Select[Any]:
    return queries.row_count_and_bytes(table, "sqlite").add_columns(func.max(queries.characters_of_row(table)))


# -------------------------------------------------------------------------------------------- values


def _copied_rows(copied: CopiedRows, name: str, columns: Sequence[Column], first: int) -> pa.Table:
    rows = table_of([copied.array(i, c) for i, c in enumerate(columns, first)], columns, copied.count)
    return with_valid_text(rows, name)


def _rows_of(rows: Sequence[Row], columns: Sequence[Column], first: int) -> pa.Table:
    if not columns:
        return no_columns(len(rows))
    arrays = [
        dbapi_values.decode_column([row[i] for row in rows], c, SQLITE_RULES) for i, c in enumerate(columns, first)
    ]
    return pa.table(arrays, names=[c.name for c in columns])


def _int64s(rows: Sequence[Row], index: int) -> np.ndarray:
    return np.fromiter((row[index] or 0 for row in rows), np.int64, len(rows))
