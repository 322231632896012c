"""Finds the rows of a table that have a key of the batch. Runs on the driver.

Files are left out by their statistics; the others are searched by `FileSearch`. Inlined rows are asked of the catalog
by their keys. What is held grows with the batch, never with the table. Where much is to be read of files, and somebody
does tasks (`SearchMemory.runner`), they search them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from ducklake_core.committed_rows import CommittedRows
from ducklake_core.files.delete_cache import DELETES
from ducklake_core.files.delete_files import are_among
from ducklake_core.files.parquet_reader import ReadRequest
from ducklake_core.files.row_groups import WantedKey
from ducklake_core.model import Column, DataFile
from ducklake_core.pending import LookedFor, PendingTable
from ducklake_core.read.listing import Listing, ask_catalog
from ducklake_core.read.parts import FileRows
from ducklake_core.read.request import RowRequest
from ducklake_core.row_writes import RowWriter
from ducklake_core.upsert.candidates import Candidates
from ducklake_core.upsert.catalog_search import CatalogSearch
from ducklake_core.upsert.file_search import FileSearch
from ducklake_core.upsert.hits import NEW_ROW, Hits, hits_of, joined
from ducklake_core.upsert.key_index import KeyIndex
from ducklake_core.upsert.memory import SearchMemory
from ducklake_core.upsert.search_tasks import Afterwards, SearchTask, is_large
from ducklake_core.upsert.threads import beside_each_other


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """All rows that have a key of the batch, and what it took to find them."""

    hits: tuple[Hits, ...]
    committed: CommittedRows
    files_opened: int
    files_pruned: int

    @property
    def numbers(self) -> np.ndarray:
        return np.concatenate([np.empty(0, np.int64), *(hits.numbers for hits in self.hits)])

    def select(self, names: Sequence[str]) -> Iterator[tuple[np.ndarray, pa.Table]]:
        """Yield numbers of keys and some columns of their rows, part by part."""
        return ((hits.numbers, hits.values.select(names)) for hits in self.hits)


@dataclass(frozen=True, slots=True)
class Search:
    """Looks for the keys of an index in one table. `read_columns`: what else is wanted of every row that is found.

    `afterwards`: what is done with rows that tasks find, so that nobody else need read them.
    """

    writer: RowWriter
    pending: PendingTable
    keys: tuple[Column, ...]
    index: KeyIndex
    memory: SearchMemory
    read_columns: tuple[Column, ...] = ()
    afterwards: Afterwards | None = None

    def run(self) -> Found:
        """Return the rows of the keys, and note that what is written rests on them."""
        self.pending.rests_on_rows = self.pending.before is not None
        self.pending.looked_for.append(LookedFor(self.keys, self.index))
        files, pruned, listing = self._list()
        names = {c.name for c in (*self.keys, *self.read_columns)}
        columns = [c for c in self.pending.table.columns if c.name in names]
        committed = CommittedRows(
            self.writer.database,
            self.writer.storage,
            self.pending,
            self._request(self.pending.table.columns),
            Listing(files, listing.inlined),
        )
        hits = (*self._own(), *self._in_parts(committed), *self._in_files(files, tuple(columns)))
        return Found(tuple(hits), committed, len(files), pruned)

    # ---- the transaction's own rows

    def _own(self) -> Iterator[Hits]:
        for rows, row_ids in self.writer.own_rows(self.pending):
            kept, numbers = self.find(rows)
            if len(kept):
                ids = np.full(rows.num_rows, NEW_ROW) if row_ids is None else row_ids
                yield Hits(None, numbers, kept, ids[kept], rows.take(kept))

    def find(self, rows: pa.Table | pa.RecordBatch) -> tuple[np.ndarray, np.ndarray]:
        """Return which rows have a key of the batch, and its number."""
        return self.index.find([rows.column(c.name) for c in self.keys])

    # ---- committed rows

    def _list(self) -> tuple[tuple[DataFile, ...], int, Listing]:
        """Return the files worth reading, how many others there are, and the inlined rows."""
        if self.pending.before is None or not self.index.count:
            return (), 0, Listing((), ())
        request = self._request(self.pending.table.columns)
        search = CatalogSearch(request, self.keys, self.index, self.find)
        asked = None
        while asked is None:  # the second time it knows all it must
            asked = ask_catalog(self.writer.database, self.pending.table, search.ask)
        candidates = Candidates(self.pending.table, self.keys, self.index)
        kept = tuple(f for f in asked.files if candidates.may_hold(f, asked.stats.get(f.data_file_id, {})))
        return kept, len(asked.files) - len(kept), Listing((), asked.inlined)

    def _request(self, columns: Sequence[Column]) -> RowRequest:
        request = RowRequest.of(self.pending.table, self.writer.base.snapshot_id, columns, None)
        return replace(request, with_row_ids=True, with_positions=True)

    def _in_parts(self, committed: CommittedRows) -> Iterator[Hits]:
        for part in committed.listing.inlined:
            found = [hits for rows in committed.rows_of(part) if (hits := hits_of(part, rows, self.find)) is not None]
            if found:
                yield joined(found)

    def _in_files(self, files: Sequence[DataFile], columns: tuple[Column, ...]) -> Iterator[Hits]:
        """Yield what files hold; one that an earlier attempt has searched is not searched again."""
        asked = None if self.memory.runner is None else (self.pending.table.columns, self.afterwards)
        known = self.memory.of((*self.keys, *columns), self.index, asked)
        search = self._file_search(columns, with_threads=len(files) == 1)
        told = known | self._by_tasks(search, [f for f in files if f.path not in known])

        def find(file: DataFile) -> tuple[Hits | None, Hits | None]:
            hits = told[file.path] if file.path in told else search.find(file)
            return hits, None if hits is None else self._live(hits, file)

        at_hand = [self._has_deletes_near(f) and (f.path in told or search.is_at_hand(f)) for f in files]
        others = iter(beside_each_other(find, [f for f, is_quick in zip(files, at_hand, strict=True) if not is_quick]))
        for file, is_quick in zip(files, at_hand, strict=True):
            hits, live = find(file) if is_quick else next(others)
            if file.partial_max is None:  # else a later snapshot may see more rows of it
                known[file.path] = hits
            if live is not None:
                yield live

    def _by_tasks(self, search: FileSearch, files: Sequence[DataFile]) -> dict[str, Hits | None]:
        """Return what tasks have found in files, by their paths; in none, where there is too little to read."""
        runner = self.memory.runner
        away = [] if runner is None else [file for file in files if not search.is_at_hand(file)]
        if runner is None or not is_large(away):
            return {}
        task = SearchTask(search, self.pending.table.columns, self.writer.base.snapshot_id, self.afterwards)
        return {file.path: hits for file, hits in zip(away, runner(task, away), strict=True)}

    def _file_search(self, columns: tuple[Column, ...], *, with_threads: bool) -> FileSearch:
        request = ReadRequest(
            columns,
            self.writer.base.snapshot_id,
            with_row_ids=True,
            with_positions=True,
            table_columns=self.pending.table.columns,
            with_threads=with_threads,
            keeps_footer=True,
        )
        found = (WantedKey.of(column, self.index.values(place)) for place, column in enumerate(self.keys))
        wanted = tuple(key for key in found if key is not None)
        return FileSearch(self.writer.storage, request, self.keys, self.index, wanted)

    def _has_deletes_near(self, file: DataFile) -> bool:
        """Tell whether deletes of a file are known, or read before a thread has begun."""
        return self.writer.storage.is_local or all(
            DELETES.find(delete_file) is not None for delete_file in file.delete_files
        )

    def _live(self, hits: Hits, file: DataFile) -> Hits | None:
        """Return those of the rows that the file still has, as the transaction sees it."""
        gone = [np.asarray(file.inlined_deletes, np.int64)]
        if file.delete_files:
            positions, snapshots = self.pending.old_deletes(self.writer.storage, file)
            gone.append(positions[snapshots <= self.writer.base.snapshot_id])
        if file.data_file_id in self.pending.deleted:
            gone.append(self.pending.deleted[file.data_file_id][1])
        is_gone = np.logical_or.reduce([are_among(hits.positions, positions) for positions in gone])
        kept = hits.only(~is_gone) if is_gone.any() else hits
        return replace(kept, part=FileRows(file)) if len(kept.numbers) else None
