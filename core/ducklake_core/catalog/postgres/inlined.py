"""Inlined rows of PostgreSQL: few go in as one parameter of the commit, many by a binary COPY; COPY or pages out."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pyarrow as pa
from sqlalchemy import (
    ARRAY,
    BigInteger,
    ColumnElement,
    LargeBinary,
    Select,
    String,
    Table,
    Uuid,
    bindparam,
    func,
    select,
)
from sqlalchemy import cast as sql_cast
from sqlalchemy.types import NullType, TypeEngine

from ducklake_core.catalog.inlined_queries import Picked, all_versions, pick_columns
from ducklake_core.catalog.inlined_store import (
    READ_CHUNK_BYTES,
    FetchedRows,
    InlinedStore,
    RowQuery,
    encoded_once,
    nothing_fetched,
)
from ducklake_core.catalog.inlined_tables import SYSTEM_COLUMNS
from ducklake_core.catalog.postgres import encode, encode_small
from ducklake_core.catalog.postgres.copy_decode import CopiedRows, joined_cells, split_rows
from ducklake_core.catalog.postgres.joined_decode import PLACE, page_start
from ducklake_core.catalog.postgres.page_reader import PageScan, count_pages, read_in_order
from ducklake_core.catalog.postgres.session import PostgresSession, on_postgres
from ducklake_core.catalog.postgres.statements import copy_in, insert_unnested, lock_table
from ducklake_core.catalog.row_versions import RowVersions, table_of
from ducklake_core.catalog.session import Row, Session, Statement
from ducklake_core.model import Column, InlinedTable, SnapshotId
from ducklake_core.plan.inlined_rows import InlinedRows
from ducklake_core.plan.writes import InsertInlined
from ducklake_core.spec.arrays import plain
from ducklake_core.spec.kinds import Kind
from ducklake_core.spec.small_rows import extract_values
from ducklake_core.spec.thresholds import ROW_ARRAY_ROWS
from ducklake_core.text_repair import with_valid_text

if TYPE_CHECKING:
    from ducklake_core.catalog.database import Database

# The first server that does not insist on the number of a row's type, which no client knows, is PostgreSQL 14.
FIRST_WITH_ROW_ARRAYS = 140_000
# How long others that want to read a table may have to wait behind us.
_LOCK_MILLISECONDS = 500
# So many may be fetched one by one; more are faster by a COPY, which is a round trip of its own.
_FEW_CELLS = 50_000
_AMONG: Mapping[Kind, TypeEngine[Any]] = {Kind.INTEGER: BigInteger(), Kind.TEXT: LargeBinary()}  # Any: of each kind
_QUOTED = '"\\\\x{}"'  # bytes as a value of an array, whose backslash is escaped


class PostgresInlinedStore(InlinedStore):
    """Inlined rows in PostgreSQL's binary formats, a column at a time."""

    most_values = 100_000

    def takes_by_statement(self, session: Session, row_count: int) -> bool:
        return row_count <= ROW_ARRAY_ROWS and on_postgres(session).server_version >= FIRST_WITH_ROW_ARRAYS

    def prepare(self, session: Session, rows: InlinedRows) -> None:
        encode_rows = _encode_small if self.takes_by_statement(session, rows.rows.num_rows) else _encode_cells
        encode_rows(rows)

    def insert_statement(self, session: Session, write: InsertInlined) -> Statement:
        rows = encode_small.rows_parameter(_encode_small(write.source), write.row_ids.tolist(), int(write.begin))
        schema = session.database.url.metadata_schema
        return Statement(insert_unnested(write.columns, write.name, schema, write.stored_names), {"rows": rows})

    def insert(self, session: Session, write: InsertInlined) -> None:
        cells = [
            encode.int64_cells(write.row_ids),
            encode.constant_cells(int(write.begin), write.row_count),
            encode.constant_cells(None, write.row_count),
            *_encode_cells(write.source),
        ]
        target = copy_in(session.database.url.metadata_schema, write.name)
        on_postgres(session).copy_in(target, encode.copy_buffer(cells))

    def fetch(self, session: Session, query: RowQuery) -> Iterator[FetchedRows]:
        return _copied(on_postgres(session), query, READ_CHUNK_BYTES)

    def fetch_with(
        self, session: Session, statements: Sequence[Statement], queries: Sequence[RowQuery], most_rows: int
    ) -> tuple[list[list[Row]], list[FetchedRows]]:
        cells = most_rows * sum(query.number_count + len(query.columns) for query in queries)
        if cells > _FEW_CELLS:
            return super().fetch_with(session, statements, queries, most_rows)
        results, raw = on_postgres(session).run_with_cells(statements, [query.statement for query in queries])
        return results, [_few(rows, query) for rows, query in zip(raw, queries, strict=True)]

    def read_versions(
        self, database: Database, inlined: InlinedTable, snapshot: SnapshotId, chunk_bytes: int
    ) -> Generator[RowVersions, None, None]:
        """Yield in one transaction, which locks no row.

        Of many rows those that lie in their order come first, then the others, in that order as well.
        """
        with database.read() as session:
            here = on_postgres(session)
            table, picked = pick_columns(session, inlined, tuple(c.column_id for c in inlined.columns))
            wanted = PageScan(table, picked, inlined.columns, snapshot)
            count, first = count_pages(here, inlined.name, len(inlined.columns)), 0
            if count:
                for versions, first in read_in_order(here, wanted, count, chunk_bytes):  # noqa: B007 # see below
                    yield versions
            if first < count or not count:
                yield from _sorted(here, wanted, first, chunk_bytes)

    def is_among(self, element: ColumnElement[Any], column: Column, name: str) -> ColumnElement[bool]:
        # The text of an array is made in a tenth of the time that the driver takes for the array.
        type_ = _AMONG.get(column.kind, Uuid())
        among = sql_cast(bindparam(name, type_=NullType()), ARRAY(type_))
        return element.in_(select(func.unnest(among)))  # a set, which is looked up; an array would be searched

    def among_values(self, values: pa.Array, column: Column) -> object:
        found = plain(values).to_pylist()
        if column.kind is Kind.TEXT:
            return f"{{{','.join(_QUOTED.format(text.encode().hex()) for text in found)}}}"
        return f"{{{','.join(map(str, found if column.kind is Kind.INTEGER else map(_uuid, found)))}}}"

    def row_size(self, table: Table) -> ColumnElement[Any]:
        """Return the size of the row as stored."""
        return func.pg_column_size(table.table_valued())

    def selected(self, element: ColumnElement[object], column: Column) -> ColumnElement[object]:
        return element if encode.select_cast(column) is None else sql_cast(element, String)

    def lock(self, session: Session, table: Table) -> None:
        session.begin()
        for statement in lock_table(table.schema, table.name, _LOCK_MILLISECONDS):
            on_postgres(session).driver.execute(statement)


def _uuid(value: bytes) -> UUID:
    return UUID(bytes=value)


def _few(rows: Sequence[Sequence[bytes | None]], query: RowQuery) -> FetchedRows:
    """Return the rows of a query of which each cell came by itself."""
    if not rows:
        return nothing_fetched(query)
    return _fetched(joined_cells(rows, query.number_count + len(query.columns)), query)


@encoded_once
def _encode_small(rows: InlinedRows) -> encode_small.EncodedRows:
    return encode_small.encode_rows(rows.small or extract_values(rows.rows, rows.columns), rows.columns)


@encoded_once
def _encode_cells(rows: InlinedRows) -> list[encode.Cells]:
    return [encode.encode_column(rows.rows.column(i), c) for i, c in enumerate(rows.columns)]


def _copied(session: PostgresSession, query: RowQuery, chunk_bytes: int) -> Iterator[FetchedRows]:
    """Yield the rows of a query as a COPY brings them."""
    with session.copy_out(query.statement) as messages:
        for copied in split_rows(messages, query.number_count + len(query.columns), chunk_bytes):
            yield _fetched(copied, query)


def _fetched(copied: CopiedRows, query: RowQuery) -> FetchedRows:
    first, columns = query.number_count, query.columns
    rows = table_of([copied.array(i, c) for i, c in enumerate(columns, first)], columns, copied.count)
    return FetchedRows([copied.int64s(i) for i in range(first)], with_valid_text(rows, query.table))


def _sorted(session: PostgresSession, scan: PageScan, first: int, chunk_bytes: int) -> Iterator[RowVersions]:
    """Yield the row versions of all pages from one on, as the server sorts them."""
    statement = Statement(all_versions(scan.table, scan.picked), {"snapshot": scan.snapshot})
    if first:
        parameters = {"snapshot": scan.snapshot, "first": page_start(first)}
        statement = Statement(_versions_from(scan.table, scan.picked), parameters)
    query = RowQuery(statement, scan.table.name, len(SYSTEM_COLUMNS), scan.columns)
    for found in _copied(session, query, chunk_bytes):
        yield RowVersions(found.rows, *found.numbers)


@lru_cache(maxsize=512)
def _versions_from(table: Table, picked: Picked) -> Select[tuple[object, ...]]:
    return all_versions(table, picked).where(bindparam("first", type_=PLACE.type) <= PLACE)
