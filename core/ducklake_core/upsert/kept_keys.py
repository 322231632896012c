"""Keys of data files that were searched lately, by row group: a data file never changes. One for each process.

So a stream that changes a table again and again pays for its batch, and not for the keys of the files. Which rows are
deleted is not kept: that is looked at every time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ducklake_core.files.parquet_reader import POSITIONS, ROW_IDS, ReadRequest, key_leaves, plan_of_footer
from ducklake_core.files.recent import Recent
from ducklake_core.files.row_groups import WantedKey, bounds_of
from ducklake_core.files.storage import Storage
from ducklake_core.model import Column, ColumnId, DataFile
from ducklake_core.upsert.sorted_keys import SortedKeys, integers_of

_MOST_BYTES = 64 * 2**20
_GROUP_BYTES = 500  # what is known of a row group without its rows, roughly


@dataclass(frozen=True, slots=True, eq=False)
class KeptRows:
    """The rows of one row group, from position `start` on: their keys, and what else was asked for.

    `ordered` are the values of the first key, sorted, and `places` where they are; None: they are no integers.
    """

    start: int
    rows: pa.Table
    row_ids: np.ndarray | None  # None: they follow the positions
    ordered: np.ndarray | None
    places: np.ndarray | None  # None: they are sorted as they are

    @classmethod
    def of(cls, pieces: Sequence[pa.RecordBatch], key: Column, file: DataFile) -> KeptRows:
        """Keep record batches that follow each other."""
        table = pa.Table.from_batches(pieces).combine_chunks()
        positions, ids = (table.column(name).to_numpy() for name in (POSITIONS, ROW_IDS))
        follows = file.row_id_start is not None and bool((ids - file.row_id_start == positions).all())
        rows = table.drop_columns([POSITIONS, ROW_IDS])
        integers = integers_of(rows.column(key.name))
        in_order = None if integers is None else SortedKeys.of(integers)
        ordered, places = (None, None) if in_order is None else (in_order.values, in_order.places)
        places = None if places is None else places.astype(np.int32)
        return cls(int(positions[0]), rows, None if follows else ids, ordered, places)

    @property
    def size_bytes(self) -> int:
        extra = 0 if self.places is None or self.ordered is None else self.places.nbytes + self.ordered.nbytes
        return int(self.rows.nbytes) + extra + (0 if self.row_ids is None else self.row_ids.nbytes)

    def candidates(self, wanted: np.ndarray | None) -> tuple[np.ndarray, np.ndarray] | None:
        """Return the rows that have one of some sorted values in the first key, and which; None: look through all."""
        if wanted is None or self.ordered is None or wanted.dtype != self.ordered.dtype:
            return None
        low, high = np.searchsorted(wanted, self.ordered[0]), np.searchsorted(wanted, self.ordered[-1], "right")
        firsts, ends = (np.searchsorted(self.ordered, wanted[low:high], side) for side in ("left", "right"))
        counts = ends - firsts
        found = np.repeat(firsts - np.cumsum(counts) + counts, counts) + np.arange(counts.sum())
        which = np.repeat(np.arange(low, high), counts)
        if self.places is None:
            return found, which
        rows = self.places[found]
        order = np.argsort(rows, kind="stable")
        return rows[order], which[order]

    def row_ids_of(self, places: np.ndarray, file: DataFile) -> np.ndarray:
        if self.row_ids is not None:
            return np.asarray(self.row_ids[places])
        return np.asarray(places + (self.start + (file.row_id_start or 0)))


@dataclass(frozen=True, slots=True)
class RowGroup:
    """How many rows there are, and the bounds of their keys as far as the footer tells them."""

    size: int
    bounds: Mapping[ColumnId, tuple[Any, Any] | None]  # Any: integers or texts

    def may_hold(self, wanted: Sequence[WantedKey]) -> bool:
        return self.size > 0 and all(key.may_be_within(self.bounds.get(key.column.column_id)) for key in wanted)


@dataclass(frozen=True, slots=True, eq=False)
class FileKeys:
    """What is known of one file, read by some columns of a table; rows are sorted by one of them."""

    key: Column
    columns: tuple[Column, ...]
    table_columns: tuple[Column, ...] | None
    groups: tuple[RowGroup, ...]
    kept: dict[int, KeptRows] = field(default_factory=dict)

    @property
    def size_bytes(self) -> int:
        return _GROUP_BYTES * len(self.groups) + sum(rows.size_bytes for rows in [*self.kept.values()])


class KeyCache:
    """Keys by the storage, the path and the size of their file; those that were asked for last stay."""

    def __init__(self, most_bytes: int = _MOST_BYTES) -> None:
        self._files: Recent[tuple[Storage, str, int], FileKeys] = Recent(most_bytes)
        self._most_bytes = most_bytes

    def of(
        self, storage: Storage, file: DataFile, footer: pq.FileMetaData, key: Column, request: ReadRequest
    ) -> FileKeys:
        """Return what is known of a file; what was read by other columns is forgotten."""
        found = self._files.find((storage, file.path, file.file_size_bytes))
        asked = key, request.columns, request.table_columns
        if found is None or (found.key, found.columns, found.table_columns) != asked:
            found = FileKeys(*asked, _row_groups(footer, file, request))
            self._keep(storage, file, found)
        return found

    def add(self, storage: Storage, file: DataFile, keys: FileKeys, number: int, rows: KeptRows) -> None:
        """Keep the rows of a row group; of a file that has too many, those that came first go."""
        keys.kept[number] = rows
        while keys.size_bytes > self._most_bytes and keys.kept:
            keys.kept.pop(next(iter(keys.kept), number), None)  # another thread may have emptied it
        self._keep(storage, file, keys)

    def _keep(self, storage: Storage, file: DataFile, keys: FileKeys) -> None:
        self._files.keep((storage, file.path, file.file_size_bytes), keys, keys.size_bytes)


KEYS = KeyCache()


def _row_groups(footer: pq.FileMetaData, file: DataFile, request: ReadRequest) -> tuple[RowGroup, ...]:
    leaves = key_leaves(footer, plan_of_footer(footer, file, request), request.columns)
    groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
    return tuple(RowGroup(g.num_rows, {c.column_id: bounds_of(g, leaf) for c, leaf in leaves}) for g in groups)
