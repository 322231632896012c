"""Narrow columns of row groups whose old values were compared lately: a data file never changes. One for each process.

A row group is decoded as a whole for each of its rows, so that a stream of small changes would do so again and again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ducklake_core.files.parquet_reader import ReadRequest, iterate_data_file
from ducklake_core.files.recent import Recent
from ducklake_core.files.row_groups import WantedGroups, by_group
from ducklake_core.files.storage import Storage
from ducklake_core.model import Column, DataFile

_MOST_BYTES = 32 * 2**20
_ENTRY_BYTES = 500  # of one without its values, roughly
_Columns: TypeAlias = tuple[tuple[Column, ...], tuple[Column, ...] | None]  # what was read, and all of the table
_VALUES: Recent[tuple[Storage, str, int, int], tuple[_Columns, pa.Table]] = Recent(_MOST_BYTES)


@dataclass(frozen=True, slots=True)
class KeptValues:
    """Some columns of a file, of which all rows are seen."""

    storage: Storage
    file: DataFile
    footer: pq.FileMetaData
    request: ReadRequest

    def at(self, positions: np.ndarray) -> pa.Table:
        """Return the values of rows at sorted positions."""
        sizes = [self.footer.row_group(number).num_rows for number in range(self.footer.num_row_groups)]
        ends = np.cumsum(sizes)
        marks = np.concatenate([[0], np.searchsorted(positions, ends)])
        numbers = np.flatnonzero(np.diff(marks)).tolist()
        groups = self._groups({number: sizes[number] for number in numbers})
        places = {n: positions[marks[n] : marks[n + 1]] - (ends[n] - sizes[n]) for n in numbers}
        return pa.concat_tables([groups[number].take(pa.array(places[number])) for number in numbers])

    def _groups(self, sizes: dict[int, int]) -> dict[int, pa.Table]:
        """Return row groups, by their numbers; those that are not kept are read."""
        found = {number: kept for number in sizes if (kept := self._find(number)) is not None}
        missing = {number: size for number, size in sizes.items() if number not in found}
        if missing:
            wanted = WantedGroups(frozenset(missing))
            read = iterate_data_file(self.storage, self.file, self.request, wanted=wanted)
            for number, pieces in by_group(read, [*missing.items()]):
                found[number] = self._keep(number, pieces)
        return found

    def _find(self, number: int) -> pa.Table | None:
        columns, rows = _VALUES.find(self._key(number)) or (None, None)
        return rows if columns == self._columns else None

    def _keep(self, number: int, pieces: list[pa.RecordBatch]) -> pa.Table:
        rows = pa.Table.from_batches(pieces).select([c.name for c in self.request.columns]).combine_chunks()
        _VALUES.keep(self._key(number), (self._columns, rows), _ENTRY_BYTES + rows.nbytes)
        return rows

    @property
    def _columns(self) -> _Columns:
        return self.request.columns, self.request.table_columns

    def _key(self, number: int) -> tuple[Storage, str, int, int]:
        return self.storage, self.file.path, self.file.file_size_bytes, number
