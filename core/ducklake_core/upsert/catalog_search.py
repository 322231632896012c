"""What a search by key asks of the catalog: data files with their statistics, and the inlined rows of the keys.

Runs on the driver. One round trip where the database can do that. Inlined rows whose keys it cannot compare, such as
dates, are read page by page, and looked through here: what is held grows with the batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ducklake_core.catalog.file_reader import FileStats, read_files_and_stats
from ducklake_core.catalog.inlined_reader import RowPage, WantedValues
from ducklake_core.catalog.inlined_store import FetchedRows
from ducklake_core.catalog.session import Row, Session, Statement
from ducklake_core.files.parquet_reader import ROW_IDS
from ducklake_core.model import Column, ColumnId, DataFile, InlinedTable, TableVersion
from ducklake_core.read.inlined import inlined_answer, inlined_query, read_inlined
from ducklake_core.read.parts import ShippedRows
from ducklake_core.read.request import RowRequest
from ducklake_core.upsert.key_index import KeyIndex

_PAGE_ROWS = 20_000


@dataclass(frozen=True, slots=True)
class Asked:
    """What the catalog has told."""

    files: list[DataFile]
    stats: FileStats
    inlined: tuple[ShippedRows, ...]


@dataclass(frozen=True, slots=True, eq=False)
class CatalogSearch:
    """The question for the rows of some keys. `find` tells which rows have one of them."""

    request: RowRequest
    keys: tuple[Column, ...]
    index: KeyIndex
    find: Callable[[pa.Table], tuple[np.ndarray, np.ndarray]]

    def ask(self, session: Session, table: TableVersion) -> Asked | None:
        """Return the answer; None: ask again, see `read_files_and_stats`."""
        tables = table.inlined_tables
        wanted = self._wanted(session, tables)
        if not wanted:
            found = read_files_and_stats(session, table, self.request.snapshot, self._key_ids, session.run)
            return None if found is None else Asked(*found, tuple(self._paged(session, inlined) for inlined in tables))
        fetched: list[ShippedRows] = []

        def run(statements: Sequence[Statement]) -> list[list[Row]]:
            results, inlined = self._run(session, statements, wanted, tables)
            fetched.extend(inlined)
            return results

        found = read_files_and_stats(session, table, self.request.snapshot, self._key_ids, run)
        return None if found is None else Asked(*found, tuple(fetched))

    @property
    def _key_ids(self) -> list[ColumnId]:
        return [column.column_id for column in self.keys]

    def _wanted(self, session: Session, tables: Sequence[InlinedTable]) -> list[WantedValues]:
        """Return what the database can be asked for: the key column of most values, then those that narrow it."""
        found = [WantedValues(column, self.index.values(place)) for place, column in enumerate(self.keys)]
        found = [one for one in found if all(one.place_in(inlined) is not None for inlined in tables)]
        found.sort(key=lambda one: len(one.values), reverse=True)
        most = session.dialect.inlined.most_values
        return found[:1] + [one for one in found[1:] if len(one.values) <= most]

    def _run(
        self,
        session: Session,
        statements: Sequence[Statement],
        wanted: Sequence[WantedValues],
        tables: Sequence[InlinedTable],
    ) -> tuple[list[list[Row]], Iterator[ShippedRows]]:
        """Run statements, and look for inlined rows by their keys."""
        store = session.dialect.inlined
        pieces = [(piece, *wanted[1:]) for piece in wanted[0].pieces(store.most_values)]
        queries = [inlined_query(session, t, self.request, piece) for t in tables for piece in pieces]
        results, found = store.fetch_with(session, statements, queries, self.index.count)
        of_tables = (found[i * len(pieces) : (i + 1) * len(pieces)] for i in range(len(tables)))
        some = ((t, rows) for t, rows in zip(tables, of_tables, strict=True) if any(len(r.numbers[0]) for r in rows))
        return results, (self._shipped(*pair) for pair in some)

    def _shipped(self, inlined: InlinedTable, found: Sequence[FetchedRows]) -> ShippedRows:
        return ShippedRows(inlined, pa.concat_tables([inlined_answer(one, inlined, self.request) for one in found]))

    def _paged(self, session: Session, inlined: InlinedTable) -> ShippedRows:
        """Read all rows of an inlined table, and keep those that have a key."""
        kept, first, limit = [self.request.schema.empty_table()], 0, _PAGE_ROWS
        while True:
            rows = read_inlined(session, inlined, self.request, RowPage(first, limit))
            is_last = rows.num_rows < limit
            whole = rows if is_last else _without_last_id(rows)
            kept.append(whole.take(pa.array(self.find(whole)[0])))
            if is_last:
                return ShippedRows(inlined, pa.concat_tables(kept))
            first = rows.column(ROW_IDS)[-1].as_py()
            limit = _PAGE_ROWS if whole.num_rows else limit * 2


def _without_last_id(rows: pa.Table) -> pa.Table:
    """Return the rows of a page but those of its last id, of which the next page may have more."""
    row_ids = rows.column(ROW_IDS).to_numpy()
    return rows.slice(0, int(np.searchsorted(row_ids, row_ids[-1])))
