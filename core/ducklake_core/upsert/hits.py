"""Rows of a table that have a key of a batch. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from ducklake_core.files.parquet_reader import POSITIONS, ROW_IDS
from ducklake_core.model import DataFile
from ducklake_core.read.parts import FileRows, Part

# Says which rows have a key of the batch, and its number.
Find: TypeAlias = Callable[[pa.RecordBatch], tuple[np.ndarray, np.ndarray]]
NEW_ROW = -1  # in place of the id of a row that the transaction itself has added


@dataclass(frozen=True, slots=True, eq=False)
class Hits:
    """Rows of one part that have a key of the batch. `part` None: the transaction itself has added them.

    `numbers` are those of their keys, `values` what has been read of them: keys and sequence, or all columns.
    `is_changed`: whether an event has other values, where that was compared already.
    """

    part: Part | None
    numbers: np.ndarray
    positions: np.ndarray
    row_ids: np.ndarray
    values: pa.Table
    is_changed: np.ndarray | None = None

    def only(self, kept: np.ndarray) -> Hits:
        """Return some of them, by a mask."""
        if kept.all():
            return self
        values, is_changed = self.values.filter(pa.array(kept)), self.is_changed
        return Hits(
            self.part,
            self.numbers[kept],
            self.positions[kept],
            self.row_ids[kept],
            values,
            None if is_changed is None else is_changed[kept],
        )


@dataclass(frozen=True, slots=True, eq=False)
class AllHits:
    """Rows of several parts, one part after the other: what is done for all at once costs little for each part."""

    parts: tuple[Hits, ...]
    numbers: np.ndarray
    row_ids: np.ndarray

    @classmethod
    def of(cls, parts: Sequence[Hits]) -> AllHits:
        none = np.empty(0, np.int64)
        numbers = np.concatenate([none, *(hits.numbers for hits in parts)])
        return cls(tuple(parts), numbers, np.concatenate([none, *(hits.row_ids for hits in parts)]))

    def compared(self) -> tuple[np.ndarray, np.ndarray]:
        """Tell of which rows it is known whether an event has other values, and of which it has."""
        if all(hits.is_changed is None for hits in self.parts):
            return np.zeros(len(self.numbers), bool), np.zeros(len(self.numbers), bool)
        both = [(hits.is_changed is not None, hits.is_changed, len(hits.numbers)) for hits in self.parts]
        is_known = np.concatenate([np.empty(0, bool), *(np.full(count, known) for known, _, count in both)])
        changed = (np.zeros(count, bool) if found is None else found for _, found, count in both)
        return is_known, np.concatenate([np.empty(0, bool), *changed])

    def only(self, kept: np.ndarray) -> AllHits:
        """Return some of the rows, by a mask; parts without any are left out."""
        if kept.all():
            return self
        masks = np.split(kept, np.cumsum([len(hits.numbers) for hits in self.parts])[:-1])
        some = [hits.only(mask) for hits, mask in zip(self.parts, masks, strict=True) if mask.any()]
        return AllHits(tuple(some), self.numbers[kept], self.row_ids[kept])


def taken(rows: pa.Table, places: np.ndarray) -> pa.Table:
    """Return some rows, by their places; all of them in their order are copied by nobody."""
    if len(places) == rows.num_rows and np.array_equal(places, np.arange(len(places))):
        return rows
    return rows.take(pa.array(places))


def hits_of(part: Part, rows: pa.RecordBatch, find: Find) -> Hits | None:
    """Return which rows of a record batch have a key; it has their ids and positions, too."""
    kept, numbers = find(rows)
    if not len(kept):
        return None
    taken = rows.take(pa.array(kept))
    names = [name for name in rows.schema.names if not name.startswith("\0")]
    values = pa.Table.from_batches([taken.select(names)])
    positions, row_ids = (taken.column(name).to_numpy() for name in (POSITIONS, ROW_IDS))
    return Hits(part, numbers, positions, row_ids, values)


def joined(found: Sequence[Hits]) -> Hits:
    """Return rows of one part as one, in the order given."""
    if len(found) == 1:
        return found[0]
    return Hits(
        found[0].part,
        np.concatenate([hits.numbers for hits in found]),
        np.concatenate([hits.positions for hits in found]),
        np.concatenate([hits.row_ids for hits in found]),
        pa.concat_tables([hits.values for hits in found]),
    )


def file_of(hits: Hits) -> DataFile | None:
    """Return the data file that rows are in, None for those that have been read in whole."""
    return hits.part.file if isinstance(hits.part, FileRows) else None
