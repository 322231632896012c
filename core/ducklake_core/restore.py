"""Makes the rows of a pending table what they were at an earlier snapshot. Runs on the driver.

Rows are told apart by their ids. One that is at the same place of the same file is as it was; of the others the values
are compared, some at a time. Its outcome rests on all rows of the table at the transaction's base.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from ducklake_core.catalog.reader import find_table_by_id
from ducklake_core.committed_rows import CommittedRows
from ducklake_core.errors import InvalidInput, ObjectNotFound
from ducklake_core.files.delete_files import dropped_positions
from ducklake_core.files.parquet_reader import POSITIONS, ROW_IDS
from ducklake_core.files.storage import Storage
from ducklake_core.model import DataFile, DataFileId, Snapshot, SnapshotId
from ducklake_core.pending import PendingTable
from ducklake_core.plan.conform import conform
from ducklake_core.read.listing import Listing, list_table
from ducklake_core.read.parts import FileRows, Part
from ducklake_core.read.positions import RowPositions
from ducklake_core.read.request import DATA_FILE_IDS, RowRequest
from ducklake_core.row_writes import NewVersions, RowWriter
from ducklake_core.upsert.differences import differ

_ROWS_AT_ONCE = 500_000  # whose values are held
_INLINED = -1  # in place of a file's id


@dataclass(frozen=True, slots=True)
class Restore:
    """What it takes to go back: `snapshot` has the rows as they shall be."""

    writer: RowWriter
    pending: PendingTable
    snapshot: Snapshot
    data_path: str

    def apply(self) -> int:
        """End the rows that were not there or were others, add those that were; return how many rows that changes."""
        self._refuse_unborn()
        self.pending.rest_on_all_rows()
        self.writer.change_own(self.pending, lambda rows: np.arange(rows.num_rows), None)
        now, then = self._sides()
        is_now, was_then = now.places(), then.places()
        moved = is_now.elsewhere_in(was_then)
        kept = np.concatenate([is_now.shared_with(was_then), *_equal(now, then, moved)])
        ended, added = (np.setdiff1d(side.row_ids, kept, assume_unique=True) for side in (is_now, was_then))
        now.rows.end(now.positions(ended))
        self._add(then, added)
        return len(np.union1d(ended, added))

    def _refuse_unborn(self) -> None:
        table, at = self.pending.table, self.snapshot.snapshot_id
        database = self.writer.database
        found = None
        if self.pending.before is not None:
            found = database.ask(lambda session: find_table_by_id(session, table.table_id, at, self.data_path))
        if found is None:
            raise ObjectNotFound(
                f"cannot restore table '{table.qualified_name}' to snapshot {at}: it was not there yet; one that had "
                "its name and was dropped is another table",
                table=table.qualified_name,
                snapshot=at,
            )

    def _sides(self) -> tuple[_Side, _Side]:
        pending = self.pending
        as_it_was = PendingTable(pending.before, pending.after, pending.options)  # nothing has ended there
        now, then = self._rows(self.writer.base, pending), self._rows(self.snapshot, as_it_was)
        same = frozenset(self._unchanged(now, then))
        return _Side(now, same), _Side(then, same)

    def _rows(self, snapshot: Snapshot, pending: PendingTable) -> CommittedRows:
        table = pending.table
        request = RowRequest.of(table, snapshot.snapshot_id, table.columns, None)
        request = replace(request, with_row_ids=True, with_positions=True)
        listing = list_table(self.writer.database, table, request, snapshot)
        return CommittedRows(self.writer.database, self.writer.storage, pending, request, listing)

    def _unchanged(self, now: CommittedRows, then: CommittedRows) -> Iterator[DataFileId]:
        """Yield the files that both have, with the same rows: they need not be read."""
        at, storage = self.snapshot.snapshot_id, self.writer.storage
        known = {file.data_file_id: file for file in then.listing.files}
        for file in now.listing.files:
            old = known.get(file.data_file_id)
            if old is None or file.data_file_id in self.pending.deleted or (file.partial_max or 0) > at:
                continue
            before, after = _dropped(storage, old, at), _dropped(storage, file, self.writer.base.snapshot_id)
            if np.array_equal(before, after):
                yield file.data_file_id

    def _add(self, then: _Side, row_ids: np.ndarray) -> None:
        table, versions = self.pending.table, NewVersions(self.writer, self.pending)
        for some in _pieces(row_ids):
            versions.add(conform(then.values(some), table.columns, table.qualified_name), some)
        versions.finish()


@dataclass(frozen=True, slots=True, eq=False)
class _Places:
    """Rows by their ids, which are sorted: the file that each is in, `_INLINED` for none, and its position there."""

    row_ids: np.ndarray
    files: np.ndarray
    positions: np.ndarray

    def shared_with(self, other: _Places) -> np.ndarray:
        """Return the ids of rows that both have at the same place of the same file."""
        row_ids, is_same = self._common(other)
        return np.asarray(row_ids[is_same])

    def elsewhere_in(self, other: _Places) -> np.ndarray:
        """Return the ids of rows that both have, and not at one place: they may be others, or have only been moved."""
        row_ids, is_same = self._common(other)
        return np.asarray(row_ids[~is_same])

    def _common(self, other: _Places) -> tuple[np.ndarray, np.ndarray]:
        row_ids, mine, its = np.intersect1d(self.row_ids, other.row_ids, assume_unique=True, return_indices=True)
        is_same = (self.files[mine] == other.files[its]) & (self.positions[mine] == other.positions[its])
        return row_ids, is_same & (self.files[mine] != _INLINED)  # an inlined row has the place of its older versions


@dataclass(frozen=True, slots=True)
class _Side:
    """The rows of one of two snapshots, but for those of files that are the same in both."""

    rows: CommittedRows
    same_files: frozenset[DataFileId]

    def places(self) -> _Places:
        names = [ROW_IDS, DATA_FILE_IDS, POSITIONS]
        found = [rows.select(names) for rows in self._read(self._without_columns())]
        schema = pa.schema([(name, pa.int64()) for name in names])
        read = pa.Table.from_batches([pa.record_batch(rows.columns, schema=schema) for rows in found], schema)
        row_ids, files, positions = (read.column(name).fill_null(_INLINED).to_numpy() for name in names)
        order = np.argsort(row_ids, kind="stable")
        self._refuse_repeated(row_ids[order])
        return _Places(row_ids[order], files[order], positions[order])

    def _refuse_repeated(self, row_ids: np.ndarray) -> None:
        repeated = row_ids[1:][np.diff(row_ids) == 0]
        if len(repeated):  # DuckDB gives one id to several rows that one of its transactions inserts and updates
            request = self.rows.request
            raise InvalidInput(
                f"cannot restore table '{request.table}': at snapshot {request.snapshot} several rows have the id "
                f"{repeated[0]}; lake.overwrite with lake.table(name, at=…).read() puts them back with new ids"
            )

    def positions(self, row_ids: np.ndarray) -> RowPositions:
        """Return where some rows are."""
        found = RowPositions()
        for rows in self._read(self._without_columns(), row_ids):
            found.add(rows)
        return found

    def values(self, row_ids: np.ndarray) -> pa.Table:
        """Return some rows, in the order of their ids, which are sorted."""
        names = [column.name for column in self.rows.request.columns]
        read = pa.Table.from_batches(self._read(self.rows, row_ids), self.rows.request.schema)
        return read.take(np.argsort(read.column(ROW_IDS).to_numpy(), kind="stable")).select(names)

    def _without_columns(self) -> CommittedRows:
        return replace(self.rows, request=replace(self.rows.request, columns=()))

    def _read(self, reader: CommittedRows, row_ids: np.ndarray | None = None) -> Iterator[pa.RecordBatch]:
        """Yield all rows, or those that have some ids."""
        for part in _others(reader.listing, self.same_files):
            for rows in reader.rows_of(part):
                kept = rows if row_ids is None else rows.filter(pa.array(np.isin(rows.column(ROW_IDS), row_ids)))
                if kept.num_rows:
                    yield kept


def _equal(now: _Side, then: _Side, row_ids: np.ndarray) -> Iterator[np.ndarray]:
    """Yield which of some rows, that both have, have the same values."""
    for some in _pieces(row_ids):
        yield some[~differ(now.values(some), then.values(some))]


def _pieces(row_ids: np.ndarray) -> Iterator[np.ndarray]:
    return (row_ids[first : first + _ROWS_AT_ONCE] for first in range(0, len(row_ids), _ROWS_AT_ONCE))


def _others(listing: Listing, files: frozenset[DataFileId]) -> list[Part]:
    return [part for part in listing.parts if not (isinstance(part, FileRows) and part.file.data_file_id in files)]


def _dropped(storage: Storage, file: DataFile, snapshot: SnapshotId) -> np.ndarray:
    found = dropped_positions(storage, file, snapshot)
    return np.empty(0, np.int64) if found is None else found
