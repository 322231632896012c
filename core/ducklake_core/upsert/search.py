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
from ducklake_core.read.parts import FileRows, ShippedRows
from ducklake_core.read.request import RowRequest
from ducklake_core.row_writes import RowWriter
from ducklake_core.upsert.candidates import Candidates
from ducklake_core.upsert.catalog_search import CatalogSearch
from ducklake_core.upsert.file_search import FileSearch
from ducklake_core.upsert.hits import NEW_ROW, Hits, hits_of, joined, taken
from ducklake_core.upsert.kept_keys import KeptRows
from ducklake_core.upsert.key_index import KeyIndex
from ducklake_core.upsert.known_rows import KnownRows, Segment
from ducklake_core.upsert.learned_rows import learn_rows
from ducklake_core.upsert.memory import SearchMemory
from ducklake_core.upsert.search_tasks import Afterwards, SearchTask, is_large
from ducklake_core.upsert.sorted_keys import SortedKeys
from ducklake_core.upsert.threads import beside_each_other

_NO_ROWS = pa.table({})


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
        known = self._known()
        if known is not None:
            return self._run_in(known)
        files, pruned, listing = self._list()
        committed = self._committed(Listing(files, listing.inlined))
        hits = (*self._own(), *self._in_parts(committed), *self._in_files(files, None))
        return Found(tuple(hits), committed, len(files), pruned)

    def _committed(self, listing: Listing) -> CommittedRows:
        writer, request = self.writer, self._request(self.pending.table.columns)
        return CommittedRows(writer.database, writer.storage, self.pending, request, listing)

    # ---- rows that are known

    def _known(self) -> KnownRows | None:
        before, table = self.pending.before, self.pending.table
        if before is None or not self.index.count or before.columns is not table.columns:
            return None
        return self.writer.known.find(table.table_id, self.writer.base, self.keys, table.columns)

    def _run_in(self, known: KnownRows) -> Found:
        """Return the same without a question to the catalog."""
        files = self._known_files(known)
        in_files = [*self._in_files(files, known)]
        if files and not self.pending.deleted and all(f.partial_max is None for f in files):
            known.note_absent(self.index, [hits.numbers for hits in in_files])
        hits = (*self._own(), *self._in_segments(known.segments), *in_files)
        return Found(hits, self._committed(Listing(files, ())), len(files), len(known.files) - len(files))

    def _known_files(self, known: KnownRows) -> tuple[DataFile, ...]:
        """Return the files that may have a row of a key which is not deleted."""
        if known.has_none_in_files(self.index):
            return ()
        candidates = Candidates(self.pending.table, self.keys, self.index)
        return tuple([f for i, f in known.files.items() if candidates.may_be_in(known.facts[i])])

    def _in_segments(self, segments: Sequence[Segment]) -> Iterator[Hits]:
        for segment in segments:
            places, numbers = segment.find(self.index, self.keys)
            ended = self.pending.inlined_ends.get(segment.inlined.name)
            if ended:
                is_live = ~np.isin(segment.row_ids[places], np.fromiter(ended, np.int64))
                places, numbers = places[is_live], numbers[is_live]
            if len(places):
                row_ids = segment.row_ids[places]
                part = ShippedRows(segment.inlined, _NO_ROWS)
                yield Hits(part, numbers, row_ids, row_ids, taken(segment.rows, places))

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
        asked, table = None, self.pending.table
        while asked is None:  # the second time it knows all it must, and what has vanished
            asked, table = ask_catalog(self.writer.database, table, lambda s, known: (search.ask(s, known), known))
        candidates = Candidates(self.pending.table, self.keys, self.index)
        facts = {f.data_file_id: candidates.facts(f, asked.stats.get(f.data_file_id, {})) for f in asked.files}
        kept = tuple(f for f in asked.files if candidates.may_be_in(facts[f.data_file_id]))
        if self.writer.learns:
            learn_rows(self.writer, self.pending.table, self.keys, request, asked.files, facts)
        return kept, len(asked.files) - len(kept), Listing((), asked.inlined)

    def _request(self, columns: Sequence[Column]) -> RowRequest:
        request = RowRequest.of(self.pending.table, self.writer.base.snapshot_id, columns, None)
        return replace(request, with_row_ids=True, with_positions=True)

    def _in_parts(self, committed: CommittedRows) -> Iterator[Hits]:
        for part in committed.listing.inlined:
            found = [hits for rows in committed.rows_of(part) if (hits := hits_of(part, rows, self.find)) is not None]
            if found:
                yield joined(found)

    def _in_files(self, files: Sequence[DataFile], rows: KnownRows | None) -> Iterator[Hits]:
        """Yield what files hold; one that an earlier attempt has searched is not searched again."""
        if not files:
            return
        names = {c.name for c in (*self.keys, *self.read_columns)}
        columns = tuple([c for c in self.pending.table.columns if c.name in names])
        asked = None if self.memory.runner is None else (self.pending.table.columns, self.afterwards)
        known = self.memory.of((*self.keys, *columns), self.index, asked)
        search = self._file_search(columns, with_threads=len(files) == 1)
        told = known | self._by_tasks(search, [f for f in files if f.path not in known])

        def find(file: DataFile) -> tuple[Hits | None, Hits | None]:
            hits = told[file.path] if file.path in told else search.find(file)
            return hits, None if hits is None else self._live(hits, file, rows)

        quick = [self._in_kept(f, search, rows) if f.path not in told else None for f in files]
        pairs = [*zip(files, quick, strict=True)]
        at_hand = [
            q is not None or (self._has_deletes_near(f) and (f.path in told or search.is_at_hand(f))) for f, q in pairs
        ]
        others = iter(beside_each_other(find, [f for f, is_quick in zip(files, at_hand, strict=True) if not is_quick]))
        for file, found, is_quick in zip(files, quick, at_hand, strict=True):
            if found is not None:
                yield from found
                continue
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

    def _in_kept(self, file: DataFile, search: FileSearch, rows: KnownRows | None) -> list[Hits] | None:
        """Return the live rows of a file of which all keys are kept, as integers; None: it must be searched.

        Most rows of a key that changes often are deleted: that is seen before anything else is done about them.
        """
        wanted = self.index.integers
        kept = search.kept(file) if wanted is not None and self._has_deletes_near(file) else None
        if wanted is None or kept is None:
            return None
        found = []
        for group in kept:
            if group.ordered is None or group.ordered.dtype != wanted.values.dtype:
                return None
            places, numbers = SortedKeys(group.ordered, group.places).find(wanted)
            is_live = ~self._are_gone(group.start + places.astype(np.int64), file, rows)
            if is_live.any():
                found.append(_hits_in(group, file, places[is_live], numbers[is_live]))
        return [joined(sorted(found, key=lambda hits: int(hits.positions[0])))] if found else []

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

    def _live(self, hits: Hits, file: DataFile, rows: KnownRows | None) -> Hits | None:
        """Return those of the rows that the file still has, as the transaction sees it."""
        is_gone = self._are_gone(hits.positions, file, rows)
        kept = hits.only(~is_gone) if is_gone.any() else hits
        return replace(kept, part=FileRows(file)) if len(kept.numbers) else None

    def _are_gone(self, positions: np.ndarray, file: DataFile, rows: KnownRows | None) -> np.ndarray:
        """Tell which rows of a file are deleted, by the transaction itself or before."""

        def read_deletes() -> np.ndarray:
            found, snapshots = self.pending.old_deletes(self.writer.storage, file)
            return np.asarray(found[snapshots <= self.writer.base.snapshot_id])

        if rows is not None:
            gone = rows.deleted(file, read_deletes)
        else:
            gone = [np.asarray(file.inlined_deletes, np.int64)]
            if file.delete_files:
                gone.append(read_deletes())
        if file.data_file_id in self.pending.deleted:
            gone.append(self.pending.deleted[file.data_file_id][1])
        return np.asarray(np.logical_or.reduce([are_among(positions, found) for found in gone]))


def _hits_in(group: KeptRows, file: DataFile, places: np.ndarray, numbers: np.ndarray) -> Hits:
    order = np.argsort(places)
    ordered = places[order].astype(np.int64)
    values = group.rows.take(pa.array(ordered))
    return Hits(FileRows(file), numbers[order], group.start + ordered, group.row_ids_of(ordered, file), values)
