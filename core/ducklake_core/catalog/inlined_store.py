"""How a catalog database takes inlined rows and gives them back: what each has to know. `inlined_reader` asks it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa
from sqlalchemy import ColumnElement, Table

from ducklake_core.catalog.row_versions import RowVersions, no_columns, no_rows
from ducklake_core.catalog.session import Row, Session, Statement
from ducklake_core.model import Column, InlinedTable, SnapshotId
from ducklake_core.plan.inlined_rows import InlinedRows
from ducklake_core.plan.writes import InsertInlined

if TYPE_CHECKING:
    from ducklake_core.catalog.database import Database

Encoded = TypeVar("Encoded")

READ_CHUNK_BYTES = 64 * 2**20


@dataclass(frozen=True, slots=True)
class RowQuery:
    """A query of inlined rows: so many numbers, which are row ids and snapshots, then the values of some columns."""

    statement: Statement
    table: str
    number_count: int
    columns: Sequence[Column]


class FetchedRows(NamedTuple):
    """Some rows of a `RowQuery`; a number that is null is 0."""

    numbers: Sequence[np.ndarray]
    rows: pa.Table


def nothing_fetched(query: RowQuery) -> FetchedRows:
    return FetchedRows([np.empty(0, np.int64)] * query.number_count, no_rows(query.columns))


def fetched_whole(chunks: Sequence[FetchedRows], query: RowQuery) -> FetchedRows:
    """Return the chunks of a query as one; each column may be in several pieces."""
    if len(chunks) == 1:
        return chunks[0]
    if not chunks:
        return nothing_fetched(query)
    numbers = [np.concatenate(found) for found in zip(*(chunk.numbers for chunk in chunks), strict=True)]
    if not query.columns:  # Arrow forgets how many rows there are when it joins tables without columns
        return FetchedRows(numbers, no_columns(len(numbers[0])))
    return FetchedRows(numbers, pa.concat_tables([chunk.rows for chunk in chunks]))


def encoded_once(encode: Callable[[InlinedRows], Encoded]) -> Callable[[InlinedRows], Encoded]:
    """Keep what a store makes of rows as long as these live: a commit that is tried again encodes nothing twice."""
    known: WeakKeyDictionary[InlinedRows, Encoded] = WeakKeyDictionary()

    @wraps(encode)
    def remembered(rows: InlinedRows) -> Encoded:
        found = known.get(rows)
        if found is None:
            found = known[rows] = encode(rows)
        return found

    return remembered


class InlinedStore(ABC):
    """Inserts and reads inlined rows, as one database does it best: it alone decides how rows are encoded and sent."""

    most_values = 2_000  # that one statement looks for

    @abstractmethod
    def takes_by_statement(self, session: Session, row_count: int) -> bool:
        """Tell whether so many rows are one of the statements of their commit; else `insert` takes them."""

    @abstractmethod
    def prepare(self, session: Session, rows: InlinedRows) -> None:
        """Make now of the rows what their insert will need."""

    @abstractmethod
    def insert_statement(self, session: Session, write: InsertInlined) -> Statement:
        """Return the statement that inserts rows, where `takes_by_statement` has said so."""

    @abstractmethod
    def insert(self, session: Session, write: InsertInlined) -> None:
        """Insert rows within the transaction of the session, straight through the driver."""

    @abstractmethod
    def fetch(self, session: Session, query: RowQuery) -> Iterator[FetchedRows]:
        """Yield the rows of a query, in chunks of about `READ_CHUNK_BYTES` or all at once."""

    def fetch_with(
        self,
        session: Session,
        statements: Sequence[Statement],
        queries: Sequence[RowQuery],
        most_rows: int,  # noqa: ARG002 # for those to which it matters
    ) -> tuple[list[list[Row]], list[FetchedRows]]:
        """Run statements and queries, all of which only read; return the rows of the ones and of the others.

        Where each query has few rows, about `most_rows`, that may be one round trip, in which the transaction ends.
        """
        return session.run(statements), [fetched_whole([*self.fetch(session, query)], query) for query in queries]

    @abstractmethod
    def read_versions(
        self, database: Database, inlined: InlinedTable, snapshot: SnapshotId, chunk_bytes: int
    ) -> Generator[RowVersions, None, None]:
        """Yield all row versions begun by a snapshot, in chunks of about so many bytes; see `read_row_versions`."""

    @abstractmethod
    def row_size(self, table: Table) -> ColumnElement[Any]:
        """Return SQL that estimates the bytes of a row."""

    @abstractmethod
    def is_among(self, element: ColumnElement[Any], column: Column, name: str) -> ColumnElement[bool]:
        """Return the condition that a column has one of the values of the parameter of that name."""

    @abstractmethod
    def among_values(self, values: pa.Array, column: Column) -> object:
        """Return values of a column as the parameter of `is_among` takes them: integers, texts or uuids."""

    def selected(self, element: ColumnElement[object], column: Column) -> ColumnElement[object]:  # noqa: ARG002 # for those that cast
        """Return a column of an inlined table as a query of rows has it."""
        return element

    def lock(self, session: Session, table: Table) -> None:  # noqa: B027 # a database of one writer has nothing to do
        """Keep all others from a table until the transaction ends, or give up soon; nothing was looked at before."""
