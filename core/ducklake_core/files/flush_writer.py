"""Writes flushed rows: chunks of row versions become few data files, and delete files for those that have ended.

Runs on the driver; needs no catalog. Files stay open from chunk to chunk and roll at their target size, so their number
follows from the data and not from the chunks; memory is that of one chunk. Within a file rows come in the order of the
chunks; of a sorted table each chunk is sorted by itself, since order is only advice to readers.
"""

from __future__ import annotations

from types import TracebackType
from typing import Self

import numpy as np
import pyarrow as pa

from ducklake_core.errors import UnsupportedType
from ducklake_core.file_events import FileNotClosed
from ducklake_core.files.delete_files import write_delete_file
from ducklake_core.files.open_file import FileLayout, OpenFile, rows_per_group
from ducklake_core.files.parquet_types import find_unwritable
from ducklake_core.files.partition_sort import PartitionValues, sort_rows, split_by_partition
from ducklake_core.files.storage import Storage
from ducklake_core.files.written import WrittenFiles
from ducklake_core.model import NewDeleteFile, SnapshotId
from ducklake_core.observe import LOG_RECORDER
from ducklake_core.plan.moved_file import MovedFile
from ducklake_core.spec.paths import hide_password
from ducklake_core.spec.types import ROW_ID_NAME, SNAPSHOT_ID_NAME

MAX_OPEN_FILES = 100
_END = "end_snapshot"  # no inlined table can have a column of this name


class FlushWriter:
    """Writes the row versions of one inlined table. Use it in a `with` block: after a failure no file is left."""

    def __init__(self, storage: Storage, layout: FileLayout) -> None:
        reason = find_unwritable(layout.columns)
        if reason is not None:
            raise UnsupportedType(reason)
        self._storage = storage
        self._layout = layout
        self._open: dict[PartitionValues | None, _Flushing] = {}  # the one written to longest ago first
        self._done: list[MovedFile] = []
        self._written = WrittenFiles(storage)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        for flushing in self._open.values():
            try:
                flushing.file.__exit__(kind, error, _)
            except Exception as error_at_end:  # noqa: BLE001 # must not hide the first error, nor keep others open
                path = hide_password(flushing.file.full_path)
                LOG_RECORDER.record(FileNotClosed(path, error_at_end))
        self._written.__exit__(kind, error, _)

    def write(self, rows: pa.Table, row_ids: np.ndarray, begins: np.ndarray, ends: np.ndarray) -> None:
        """Write row versions; an end of 0 is none."""
        for name, numbers in ((ROW_ID_NAME, row_ids), (SNAPSHOT_ID_NAME, begins), (_END, ends)):
            rows = rows.append_column(name, pa.array(numbers, pa.int64()))
        layout = self._layout
        for values, part in split_by_partition(rows, layout.columns, layout.partitioning):
            ordered = sort_rows(part, layout.columns, layout.sort_order) if layout.options.sort_on_insert else part
            step = rows_per_group(ordered, layout.options)
            for start in range(0, len(ordered), step):
                self._write_group(values, ordered.slice(start, step))

    def finish(self) -> tuple[MovedFile, ...]:
        """Close all files and return what they hold."""
        for values in list(self._open):
            self._finish_file(values)
        return tuple(self._done)

    def _write_group(self, values: PartitionValues | None, group: pa.Table) -> None:
        known = self._open.pop(values, None)
        with_nan: frozenset[str] = frozenset()
        if known is not None:
            self._open[values] = known
            if not known.file.takes(group):
                # Its successor takes whatever it took, or columns whose NaNs take turns would make a file each time.
                with_nan = known.file.with_nan
                self._finish_file(values)
        if values not in self._open:
            if len(self._open) >= MAX_OPEN_FILES:
                self._finish_file(next(iter(self._open)))
            file = OpenFile(self._storage, self._layout, group, values, with_nan=with_nan)
            self._open[values] = _Flushing(file.__enter__())
        flushing = self._open[values]
        flushing.write(group)
        if flushing.file.is_full:
            self._finish_file(values)

    def _finish_file(self, values: PartitionValues | None) -> None:
        flushing = self._open[values]
        partition_id = self._layout.partitioning.partition_id if self._layout.partitioning else None
        done = flushing.finish(partition_id)
        del self._open[values]
        self._done.append(done)
        self._written.add(flushing.file.full_path)
        positions, ends = flushing.ended()
        if len(positions):
            deletes = self._write_deletes(flushing.file.full_path, positions, ends)
            ended = SnapshotId(int(ends.min()))
            self._done[-1] = MovedFile(
                done.file, done.row_id_start, done.begin, done.last, done.partition_id, deletes, ended
            )

    def _write_deletes(self, data_file_path: str, positions: np.ndarray, ends: np.ndarray) -> NewDeleteFile:
        encrypted = self._layout.options.encrypted
        new = write_delete_file(
            self._storage, self._layout.directory, data_file_path, positions, ends, encrypted=encrypted
        )
        self._written.add(self._layout.directory + new.path)
        return new


class _Flushing:
    """An open file and what is known of its rows so far: 16 bytes for each that has ended."""

    def __init__(self, file: OpenFile) -> None:
        self.file = file
        self._row_ids: list[int] = []
        self._begins: list[int] = []
        self._positions: list[np.ndarray] = []
        self._ends: list[np.ndarray] = []

    def write(self, group: pa.Table) -> None:
        ends = group.column(_END).to_numpy()
        ended = np.flatnonzero(ends)
        self._positions.append(ended + self.file.record_count)
        self._ends.append(ends[ended])
        self._row_ids.append(int(group.column(ROW_ID_NAME).to_numpy().min()))
        begins = group.column(SNAPSHOT_ID_NAME).to_numpy()
        self._begins += [int(begins.min()), int(begins.max())]
        self.file.write(group.drop_columns([_END]))

    def finish(self, partition_id: int | None) -> MovedFile:
        file = self.file.finish()
        begin, last = SnapshotId(min(self._begins)), SnapshotId(max(self._begins))
        return MovedFile(file, min(self._row_ids), begin, last, partition_id)

    def ended(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the positions of the versions that have ended, and the snapshots that ended them."""
        return np.concatenate(self._positions), np.concatenate(self._ends)
