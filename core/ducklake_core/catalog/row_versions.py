"""Versions of inlined rows, as they are read for a flush. A value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import pyarrow as pa

from ducklake_core.model import Column
from ducklake_core.spec.types import arrow_type


@dataclass(frozen=True, slots=True, eq=False)
class RowVersions:
    """Some versions of rows of one inlined table, with the snapshots that began and ended them; 0: not ended."""

    rows: pa.Table
    row_ids: np.ndarray
    begins: np.ndarray
    ends: np.ndarray

    def __len__(self) -> int:
        return len(self.row_ids)

    def key(self, index: int) -> tuple[int, int]:
        """Return by what a version is ordered: its row id and the snapshot that began it."""
        return int(self.row_ids[index]), int(self.begins[index])

    def slice(self, start: int, stop: int) -> Self:
        part = slice(start, stop)
        return type(self)(self.rows.slice(start, stop - start), self.row_ids[part], self.begins[part], self.ends[part])

    def sorted(self) -> Self:
        later = np.diff(self.row_ids)
        if ((later > 0) | ((later == 0) & (np.diff(self.begins) >= 0))).all():
            return self
        order = np.lexsort((self.begins, self.row_ids))
        return type(self)(self.rows.take(pa.array(order)), self.row_ids[order], self.begins[order], self.ends[order])


def concat_versions(parts: Sequence[RowVersions]) -> RowVersions:
    """Return versions one after another, each column in one piece; there must be at least one part."""
    if len(parts) == 1:
        return parts[0]
    return RowVersions(
        pa.concat_tables([part.rows for part in parts]).combine_chunks(),
        np.concatenate([part.row_ids for part in parts]),
        np.concatenate([part.begins for part in parts]),
        np.concatenate([part.ends for part in parts]),
    )


def table_of(arrays: Sequence[pa.Array], columns: Sequence[Column], count: int) -> pa.Table:
    """Return the table of some columns, of which there may be none."""
    return pa.table(list(arrays), names=[c.name for c in columns]) if columns else no_columns(count)


def no_rows(columns: Sequence[Column]) -> pa.Table:
    """Return the table of some columns without a row."""
    return table_of([pa.nulls(0, arrow_type(c)) for c in columns], columns, 0)


def no_columns(count: int) -> pa.Table:
    """Return so many rows without columns."""
    return pa.table({"": pa.nulls(count)}).select([])
