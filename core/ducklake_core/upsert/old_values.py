"""Reads values of rows that were found, and tells which of them an event changes. Runs on the driver.

Many changes are seen by the footer of the row's file alone. Else only the row groups that hold such rows are read,
first of few columns: once a difference is seen, the other columns of the row are not needed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ducklake_core.files.footer_bounds import certainly_other, find_bounds
from ducklake_core.files.footer_cache import FOOTERS
from ducklake_core.files.parquet_reader import POSITIONS, ReadRequest, is_partial, iterate_data_file
from ducklake_core.files.row_groups import WantedRows
from ducklake_core.files.storage import Storage
from ducklake_core.model import Column, DataFile, SnapshotId
from ducklake_core.spec.kinds import NESTED, Kind
from ducklake_core.upsert.differences import differ
from ducklake_core.upsert.hits import AllHits, Hits, file_of
from ducklake_core.upsert.kept_values import KeptValues
from ducklake_core.upsert.memory import ReadValues, SearchMemory
from ducklake_core.upsert.threads import beside_each_other

_WIDE = (*NESTED, Kind.TEXT, Kind.BLOB, Kind.GEOMETRY)


@dataclass(frozen=True, slots=True)
class OldValues:
    """The values of a table's rows at a snapshot."""

    storage: Storage
    columns: tuple[Column, ...]
    snapshot: SnapshotId
    memory: SearchMemory
    keys: tuple[Column, ...] = ()  # of which a row and its event have the same values

    def read(self, hits: Hits, columns: Sequence[Column]) -> pa.Table:
        """Return some columns of the rows, in the order of the rows; what an earlier attempt has read is known."""
        names, file = [c.name for c in columns], file_of(hits)
        if file is None or set(names) <= set(hits.values.column_names):
            return hits.values.select(names)
        asked = ReadValues(file.path, tuple(columns), self.columns)
        positions, known = self.memory.values.get(asked, (None, None))
        if positions is None or known is None or not np.array_equal(positions, hits.positions):
            known = self._read_file(file, hits, columns)
            self.memory.values[asked] = hits.positions, known
        return known

    def _read_file(self, file: DataFile, hits: Hits, columns: Sequence[Column]) -> pa.Table:
        names = [c.name for c in columns]
        request = ReadRequest(
            tuple(columns), self.snapshot, with_positions=True, table_columns=self.columns, keeps_footer=True
        )
        footer, is_narrow = FOOTERS.find(self.storage, file), len(columns) == 1 and columns[0].kind not in _WIDE
        if is_narrow and footer is not None and not is_partial(file, request):
            return KeptValues(self.storage, file, footer, request).at(hits.positions)
        found = []
        for rows in iterate_data_file(self.storage, file, request, wanted=WantedRows(hits.positions)):
            positions = rows.column(POSITIONS).to_numpy()
            first, end = np.searchsorted(hits.positions, (positions[0], positions[-1] + 1))
            places = np.searchsorted(positions, hits.positions[first:end])
            found.append(rows.take(pa.array(places)).select(names))
        return pa.Table.from_batches(found)

    def read_all(self, hits: AllHits, columns: Sequence[Column]) -> pa.Table:
        """Return the same of several parts."""
        if len(hits.parts) == 1:
            return self.read(hits.parts[0], columns)
        found = beside_each_other(lambda part: self.read(part, columns), hits.parts)
        return pa.concat_tables(found, promote_options="default")  # they may differ in nullability

    def changed(self, hits: AllHits, new: pa.Table) -> np.ndarray:
        """Tell of each row whether its new version, in the same place, has another value."""
        is_known, found = hits.compared()
        if is_known.any():  # tasks have compared them
            left = ~is_known
            if left.any():
                found[left] = self.changed(hits.only(left), new.filter(pa.array(left)))
            return found
        names = set(new.column_names) - {key.name for key in self.keys}
        given = [c for c in self.columns if c.name in names]
        found = self._certainly_changed(hits, new)
        open_ = ~found
        at_hand = set(names).intersection(*(part.values.column_names for part in hits.parts))
        for columns in _rounds(given, at_hand):
            if not open_.any():
                break
            old, some = self.read_all(hits.only(open_), columns), new.select([c.name for c in columns])
            is_other = differ(old, some if open_.all() else some.filter(pa.array(open_)))
            found[np.flatnonzero(open_)[is_other]] = True
            open_ &= ~found
        return found

    def _certainly_changed(self, hits: AllHits, new: pa.Table) -> np.ndarray:
        """Tell of which rows the footers of their files say enough."""
        files = [(file_of(part), part.positions) for part in hits.parts]
        if all(file is None for file, _ in files):
            return np.zeros(len(hits.numbers), bool)
        places = [(None if f is None else find_bounds(self.storage, f, self.columns), p) for f, p in files]
        return certainly_other(places, [c for c in self.columns if c not in self.keys], new)


def _rounds(columns: Sequence[Column], known: set[str]) -> Iterator[Sequence[Column]]:
    """Yield columns in the order in which to look at them: what has been read, then few narrow ones, then more."""
    at_hand = [c for c in columns if c.name in known]
    if at_hand:
        yield at_hand
    others = sorted((c for c in columns if c.name not in known), key=lambda c: c.kind in _WIDE)
    size = 1
    while others:
        yield others[:size]
        others, size = others[size:], size * 2
