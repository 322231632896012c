"""Looks for the keys of a batch in data files: in what is kept of them, else in the files. Runs on the driver."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ducklake_core.files.footer_cache import FOOTERS
from ducklake_core.files.parquet_reader import ReadRequest, is_partial, iterate_data_file
from ducklake_core.files.row_groups import WantedGroups, WantedKey, by_group
from ducklake_core.files.storage import Storage
from ducklake_core.model import Column, DataFile
from ducklake_core.read.parts import FileRows
from ducklake_core.upsert.hits import Hits, hits_of, joined
from ducklake_core.upsert.kept_keys import KEYS, FileKeys, KeptRows
from ducklake_core.upsert.key_index import KeyIndex


@dataclass(frozen=True, slots=True)
class FileSearch:
    """The keys of an index, and what is wanted of rows that have one. `wanted` are the keys whose bounds footers tell.

    A file that is searched for the first time is read as far as it may hold a key; of one that was searched before, the
    keys that are read are kept.
    """

    storage: Storage
    request: ReadRequest
    keys: tuple[Column, ...]
    index: KeyIndex
    wanted: tuple[WantedKey, ...]

    def is_at_hand(self, file: DataFile) -> bool:
        """Tell whether all is kept that may hold a key."""
        known = self._known(file)
        return known is not None and not self._missing(known, known.kept)

    def kept(self, file: DataFile) -> list[KeptRows] | None:
        """Return what is kept of a file and may hold a key; None: more of it may."""
        known = self._known(file)
        if known is None or self._missing(known, known.kept):
            return None
        return [rows for number, rows in [*known.kept.items()] if self._may_hold(known, number)]

    def find(self, file: DataFile) -> Hits | None:
        """Return the rows of a file that have a key, deleted ones included, in their order."""
        known = self._known(file)
        if known is None:
            read = iterate_data_file(self.storage, file, self.request, wanted=self.wanted)
            found = [hits_of(FileRows(file), rows, self._find) for rows in read]
        else:
            kept = dict(known.kept)  # others may add to it meanwhile
            found = [self._in_kept(file, rows) for number, rows in kept.items() if self._may_hold(known, number)]
            found += self._in_missing(file, known, self._missing(known, kept))
        some = sorted((hits for hits in found if hits is not None), key=lambda hits: int(hits.positions[0]))
        return joined(some) if some else None

    def _known(self, file: DataFile) -> FileKeys | None:
        """Return what is known of a file, None if nothing is to be kept of it."""
        footer = FOOTERS.find(self.storage, file)
        if footer is None or is_partial(file, self.request):  # which has rows that a later snapshot sees
            return None
        return KEYS.of(self.storage, file, footer, self.keys[0], self.request)

    def _may_hold(self, known: FileKeys, number: int) -> bool:
        return known.groups[number].may_hold(self.wanted)

    def _missing(self, known: FileKeys, kept: Mapping[int, KeptRows]) -> list[int]:
        return [n for n in range(len(known.groups)) if n not in kept and self._may_hold(known, n)]

    def _in_kept(self, file: DataFile, kept: KeptRows) -> Hits | None:
        places, numbers = self._look_in(kept)
        if not len(places):
            return None
        values = kept.rows.take(pa.array(places))
        return Hits(FileRows(file), numbers, kept.start + places, kept.row_ids_of(places, file), values)

    def _look_in(self, kept: KeptRows) -> tuple[np.ndarray, np.ndarray]:
        """Return which rows have a key, and its number."""
        first = self.wanted[0] if self.wanted and self.wanted[0].column == self.keys[0] else None
        values = first.values if first is not None and isinstance(first.values, np.ndarray) else None
        candidates = kept.candidates(values)
        if candidates is None:
            return self._find(kept.rows)
        places, which = candidates
        if len(self.keys) == 1:
            return places, self.index.numbers_in_order[which]
        found, numbers = self._find(kept.rows.take(pa.array(places)))
        return places[found], numbers

    def _in_missing(self, file: DataFile, known: FileKeys, missing: Sequence[int]) -> Iterator[Hits | None]:
        """Read row groups that may hold a key, and keep them."""
        if not missing:
            return
        read = iterate_data_file(self.storage, file, self.request, wanted=WantedGroups(frozenset(missing)))
        for number, pieces in by_group(read, [(n, known.groups[n].size) for n in missing]):
            yield from (hits_of(FileRows(file), rows, self._find) for rows in pieces)
            KEYS.add(self.storage, file, known, number, KeptRows.of(pieces, self.keys[0], file))

    def _find(self, rows: pa.Table | pa.RecordBatch) -> tuple[np.ndarray, np.ndarray]:
        return self.index.find([rows.column(c.name) for c in self.keys])
