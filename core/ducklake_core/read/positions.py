"""Where rows are: what a read `with_positions` tells, and what is needed to end them. Runs on driver and executors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ducklake_core.files.delete_files import merged_positions
from ducklake_core.files.parquet_reader import POSITIONS
from ducklake_core.model import DataFileId
from ducklake_core.read.request import DATA_FILE_IDS, INLINED_TABLES


class RowPositions:
    """Rows of one table: positions by data file, row ids by inlined table. Grows while they are found; pickles."""

    def __init__(self) -> None:
        self._files: dict[DataFileId, list[np.ndarray]] = {}
        self._inlined: dict[str, list[np.ndarray]] = {}

    def __len__(self) -> int:
        return sum(len(some) for found in (*self._files.values(), *self._inlined.values()) for some in found)

    def add(self, rows: pa.RecordBatch) -> None:
        """Add rows that were read `with_positions`."""
        for data_file_id, positions in _by_place(rows, DATA_FILE_IDS):
            self.add_of_file(DataFileId(data_file_id), positions)
        for name, row_ids in _by_place(rows, INLINED_TABLES):
            self.add_inlined(name, row_ids)

    def add_of_file(self, data_file_id: DataFileId, positions: np.ndarray) -> None:
        self._files.setdefault(data_file_id, []).append(positions)

    def add_inlined(self, inlined_table: str, row_ids: np.ndarray) -> None:
        self._inlined.setdefault(inlined_table, []).append(row_ids)

    def of_files(self) -> Iterator[tuple[DataFileId, np.ndarray]]:
        """Yield the positions in each data file, sorted, each once."""
        return ((data_file_id, merged_positions(found)) for data_file_id, found in self._files.items())

    def inlined(self) -> Iterator[tuple[str, np.ndarray]]:
        """Yield the row ids in each inlined table, sorted, each once."""
        return ((name, merged_positions(found)) for name, found in self._inlined.items())


def _by_place(rows: pa.RecordBatch, name: str) -> Iterator[tuple[Any, np.ndarray]]:  # Any: what names the place
    """Yield each data file or inlined table that has some of the rows, and where it has them."""
    places, positions = rows.column(name), rows.column(POSITIONS)
    found = pc.unique(places)
    if len(found) == 1 and not found.null_count:  # as in all that is read at once
        yield found[0].as_py(), positions.to_numpy()
        return
    for place in found.drop_null():
        yield place.as_py(), positions.filter(pc.equal(places, place)).to_numpy()
