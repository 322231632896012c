"""The committed rows of a table as a transaction sees them: found part by part, ended by their positions.

Runs on the driver. No more than one record batch of a file is held at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ducklake_core.catalog.database import Database
from ducklake_core.catalog.file_ids import may_have_had
from ducklake_core.errors import CommitConflict, InvalidInput, ObjectNotFound
from ducklake_core.files.parquet_reader import POSITIONS
from ducklake_core.files.storage import Storage
from ducklake_core.model import DataFile, DataFileId, SnapshotId
from ducklake_core.pending import PendingTable
from ducklake_core.read.listing import Listing
from ducklake_core.read.parts import FileRows, Part, read_part
from ducklake_core.read.positions import RowPositions
from ducklake_core.read.request import RowRequest

_NONE = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class CommittedRows:
    """Rows at the base of a transaction, without those that it has ended itself. The request asks for positions."""

    database: Database
    storage: Storage
    pending: PendingTable
    request: RowRequest
    listing: Listing

    def record_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows that match, in the request's schema."""
        for part in self.listing.parts:
            yield from self.rows_of(part)

    def end(self, positions: RowPositions) -> None:
        """End rows that are live."""
        files = {file.data_file_id: file for file in self.listing.files}
        for data_file_id, found in positions.of_files():
            self.pending.delete_positions(files[data_file_id], found)
        for name, row_ids in positions.inlined():
            self.pending.end_inlined(name, row_ids)

    def live(self, positions: RowPositions, read_at: SnapshotId) -> RowPositions:
        """Return which of some rows are live; raise ObjectNotFound for a file that the table never had.

        Raises CommitConflict for inlined rows that were read at another snapshot, or are gone: all that takes away
        versions of the base is a flush. Likewise for a file that is gone: a merge takes it from the base, too.
        A file of which the catalog knows nothing any more counts as gone: to read again is right, to refuse may not be.
        """
        found = RowPositions()
        for data_file_id, wanted in positions.of_files():
            for live in self._positions(FileRows(self._file(data_file_id, wanted, read_at))):
                found.add_of_file(data_file_id, _both(wanted, live))
        for name, wanted in positions.inlined():
            if read_at != self.request.snapshot:
                raise self._conflict(f"inlined rows were read at snapshot {read_at}")
            for live in self._positions(self._inlined(name)):
                found.add_inlined(name, _both(wanted, live))
        self._refuse_flushed(positions, found)
        return found

    def _refuse_flushed(self, positions: RowPositions, live: RowPositions) -> None:
        known = dict(live.inlined())
        for name, wanted in positions.inlined():
            ended = np.fromiter(self.pending.inlined_ends.get(name, ()), np.int64)
            if not np.isin(wanted, np.concatenate([known.get(name, _NONE), ended])).all():
                raise self._conflict(f"rows of inlined table '{name}' were flushed meanwhile")

    def _conflict(self, reason: str) -> CommitConflict:
        table, base = self.request.table, self.request.snapshot
        message = f"cannot end rows of table '{table}' on snapshot {base}: {reason}; read them again"
        return CommitConflict(message, base=base, rows_moved=True)

    def _positions(self, part: Part) -> Iterator[np.ndarray]:
        return (rows.column(POSITIONS).to_numpy() for rows in self.rows_of(part))

    def _file(self, data_file_id: DataFileId, positions: np.ndarray, read_at: SnapshotId) -> DataFile:
        file = next((f for f in self.listing.files if f.data_file_id == data_file_id), None)
        if file is None:
            raise self._file_error(data_file_id, read_at)
        if len(positions) and (positions[0] < 0 or positions[-1] >= file.record_count):
            raise InvalidInput(f"data file {data_file_id} has {file.record_count} rows: a position is out of range")
        return file

    def _file_error(self, data_file_id: DataFileId, read_at: SnapshotId) -> CommitConflict | ObjectNotFound:
        table_id = self.pending.table.table_id
        if self.database.ask(lambda session: may_have_had(session, table_id, data_file_id)):
            return self._conflict(f"data file {data_file_id} of snapshot {read_at} is not there any more")
        return ObjectNotFound(
            f"table '{self.request.table}' has no data file {data_file_id} at snapshot {self.request.snapshot}"
        )

    def _inlined(self, name: str) -> Part:
        part = next((part for part in self.listing.inlined if part.inlined.name == name), None)
        if part is None:
            raise self._conflict(f"inlined table '{name}' is not there")
        return part

    def rows_of(self, part: Part) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one part that match, in the request's schema."""
        ended = self._ended(part)
        for rows in read_part(self.storage, part, self.request):
            kept = rows.filter(pa.array(~np.isin(rows.column(POSITIONS), ended))) if len(ended) else rows
            if kept.num_rows:
                yield kept

    def _ended(self, part: Part) -> np.ndarray:
        """Return the positions in a part that the transaction has ended itself."""
        if isinstance(part, FileRows):
            return self.pending.deleted.get(part.file.data_file_id, (part.file, _NONE))[1]
        return np.fromiter(self.pending.inlined_ends.get(part.inlined.name, ()), np.int64)


def _both(wanted: np.ndarray, live: np.ndarray) -> np.ndarray:
    """Return what is in both, of which the first is sorted and may reach far beyond the second."""
    first, last = np.searchsorted(wanted, (live.min(), live.max() + 1))
    return np.intersect1d(wanted[first:last], live, assume_unique=True)
