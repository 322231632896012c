"""Inlined rows through Python's database interface: in by `executemany`, out as Python values."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce
from operator import add
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from sqlalchemy import ColumnElement, Dialect, Select, Table, bindparam, func, insert, tuple_

from ducklake_core.catalog import queries
from ducklake_core.catalog.dbapi.session import DbapiSession
from ducklake_core.catalog.dbapi.values import decode_columns, encode_column, encode_few, encode_rows
from ducklake_core.catalog.inlined_queries import Picked, all_versions, pick_columns
from ducklake_core.catalog.inlined_store import FetchedRows, InlinedStore, RowQuery, encoded_once
from ducklake_core.catalog.inlined_tables import SYSTEM_COLUMNS, inlined_table
from ducklake_core.catalog.row_versions import RowVersions, table_of
from ducklake_core.catalog.session import Row, Session, Statement
from ducklake_core.model import Column, InlinedTable, SnapshotId
from ducklake_core.plan.inlined_rows import InlinedRows
from ducklake_core.plan.writes import InsertInlined
from ducklake_core.spec.inlined import InlinedRules

if TYPE_CHECKING:
    from ducklake_core.catalog.database import Database

# What a row takes as Python values besides its contents: a tuple, and an object for nearly every cell.
_ROW_OVERHEAD, _CELL_OVERHEAD = 64, 48
# SQLite takes expressions that are 1,000 deep (https://www.sqlite.org/limits.html), and each plus sign adds to it.
_SUMMANDS = 200


class DbapiInlinedStore(InlinedStore):
    """Inlined rows of a database behind a driver that takes parameters by position.

    `place` is SQL for what tells two versions of a row apart that are equal in all columns, such as a row number.
    """

    def __init__(self, rules: InlinedRules, place: Callable[[Table], ColumnElement[int]]) -> None:
        self._rules = rules
        self._place = place
        self._encoded = encoded_once(self._encode)

    def takes_by_statement(self, session: Session, row_count: int) -> bool:  # noqa: ARG002 # never
        return False

    def prepare(self, session: Session, rows: InlinedRows) -> None:  # noqa: ARG002 # the same in all sessions
        self._encoded(rows)

    def insert_statement(self, session: Session, write: InsertInlined) -> Statement:
        raise NotImplementedError  # `takes_by_statement` says so

    def insert(self, session: Session, write: InsertInlined) -> None:
        begin, values = int(write.begin), self._encoded(write.source)
        rows = [(row_id, begin, None, *row) for row_id, row in zip(write.row_ids.tolist(), values, strict=True)]
        schema = session.database.url.metadata_schema
        table = inlined_table(write.name, write.columns, self._rules, schema, write.stored_names)
        through_dbapi(session).insert_many(_insert_sql(table, session.database.engine.dialect), rows)

    def fetch(self, session: Session, query: RowQuery) -> Iterator[FetchedRows]:
        yield self._fetched(session.run([query.statement])[0], query.number_count, query.columns)

    def read_versions(
        self, database: Database, inlined: InlinedTable, snapshot: SnapshotId, chunk_bytes: int
    ) -> Generator[RowVersions, None, None]:
        """Yield chunk by chunk, each in a short transaction of its own: a reader may keep writers from committing."""
        with database.read() as session:
            table, picked = pick_columns(session, inlined, tuple(c.column_id for c in inlined.columns))
            pages = self._measured(session, table, picked, chunk_bytes)
        last: Row = (-1, -1, -1)
        while True:
            with database.read() as session:
                limit = pages.next_limit(session, snapshot, last)
                rows = session.query(pages.page, snapshot=snapshot, page=limit, **_after(last))
            if rows:
                found = self._fetched(rows, len(SYSTEM_COLUMNS), inlined.columns)
                yield RowVersions(found.rows, *found.numbers)
            if len(rows) < limit:
                return
            last = (rows[-1][0], rows[-1][1], rows[-1][-1])

    def is_among(self, element: ColumnElement[Any], column: Column, name: str) -> ColumnElement[bool]:  # noqa: ARG002 # of any type
        return element.in_(bindparam(name, expanding=True))

    def among_values(self, values: pa.Array, column: Column) -> object:
        return encode_column(values, column, self._rules)

    def row_size(self, table: Table) -> ColumnElement[Any]:
        """Return the characters of all values: the database does not tell what it needs to store them.

        A sum of sums: SQLAlchemy leaves out parentheses around sums, but not around what a function is given.
        """
        lengths = [func.coalesce(func.length(column), 0) for column in table.columns]
        sums = [reduce(add, lengths[i : i + _SUMMANDS]) for i in range(0, len(lengths), _SUMMANDS)]
        return reduce(add, (func.coalesce(part, 0) for part in sums)) if len(sums) > 1 else sums[0]

    def _encode(self, rows: InlinedRows) -> list[tuple[object, ...]]:
        if rows.small is not None:
            return encode_few(rows.small, self._rules)
        return encode_rows(rows.rows, rows.columns, self._rules)

    def _fetched(self, rows: Sequence[Row], number_count: int, columns: Sequence[Column]) -> FetchedRows:
        numbers = [_int64s(rows, i) for i in range(number_count)]
        arrays = decode_columns(rows, number_count, columns, self._rules)
        return FetchedRows(numbers, table_of(arrays, columns, len(rows)))

    def _measured(self, session: Session, table: Table, picked: Picked, chunk_bytes: int) -> _Pages:
        """Return the pages of a table: how many rows each should have, by what its rows have on average."""
        size_of_row = self.row_size(table)
        sizes = queries.row_count_and_bytes(table, size_of_row).add_columns(func.max(size_of_row))
        [[count, size, largest]] = session.query(sizes)
        overhead = _ROW_OVERHEAD + _CELL_OVERHEAD * len(table.columns)
        limit = max(1, chunk_bytes // ((size or 0) // max(1, count) + overhead))
        is_uneven = limit * (largest or 0) > 2 * chunk_bytes
        place = self._place(table)
        page_sizes = _page(table, (size_of_row,), place) if is_uneven else None
        return _Pages(_page(table, picked, place), page_sizes, limit, overhead, chunk_bytes)


@dataclass(frozen=True, slots=True)
class _Pages:
    """The pages of a table of inlined rows. `sizes`: what measures one before it is read, where rows differ much."""

    page: Select[Any]
    sizes: Select[Any] | None
    limit: int
    overhead: int
    chunk_bytes: int

    def next_limit(self, session: Session, snapshot: SnapshotId, last: Row) -> int:
        """Return how many rows the page after some row should have."""
        if self.sizes is None:
            return self.limit
        sizes = session.query(self.sizes, snapshot=snapshot, page=self.limit, **_after(last))
        ends = np.cumsum(_int64s(sizes, -2) + self.overhead)
        return max(1, int(np.searchsorted(ends, self.chunk_bytes, side="right")))


def through_dbapi(session: Session) -> DbapiSession:
    """Return a session as the one it is: the dialect's record has given it to its own store of inlined rows."""
    if not isinstance(session, DbapiSession):
        raise TypeError(f"{type(session).__name__} is no session through the database interface")
    return session


def _page(table: Table, picked: Picked, place: ColumnElement[int]) -> Select[Any]:
    """A page of row versions, with the place of each at its end: whatever else is equal, that is not."""
    key = table.c.row_id, table.c.begin_snapshot, place
    after = tuple_(*key) > tuple_(bindparam("last_row_id"), bindparam("last_begin"), bindparam("last_place"))
    return all_versions(table, picked).add_columns(place).order_by(place).where(after).limit(bindparam("page"))


def _after(last: Row) -> dict[str, int]:
    return {"last_row_id": last[0], "last_begin": last[1], "last_place": last[2]}


@lru_cache(maxsize=512)
def _insert_sql(table: Table, dialect: Dialect) -> str:
    return str(insert(table).compile(dialect=dialect))


def _int64s(rows: Sequence[Row], index: int) -> np.ndarray:
    return np.fromiter((row[index] or 0 for row in rows), np.int64, len(rows))
