"""Writes the rows of some data files of a table into fewer new ones. Runs on driver and executors; needs no catalog.

A task pickles and says all that its reader and writer need. Rows keep their ids; those of a merge also tell which
snapshot began them. `source_rows` reads ahead of what is written here. Some `HELD_BYTES` are held as Arrow has them,
and about four times that at most while they are sorted and written, however large the files are. What is held is sorted
together, if the table is: order is only advice to readers.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ducklake_core.errors import CorruptCatalog, UnreadableFile, UnsupportedType
from ducklake_core.files.open_file import FileLayout, OpenFile, group_rows, new_data_file_name
from ducklake_core.files.parquet_reader import ROW_IDS, SNAPSHOT_IDS, ReadRequest
from ducklake_core.files.parquet_types import find_unwritable
from ducklake_core.files.partition_sort import PartitionValues, sort_rows
from ducklake_core.files.source_rows import SourceRows
from ducklake_core.files.storage import Storage
from ducklake_core.files.written import WrittenFiles
from ducklake_core.model import Column, DataFile, SnapshotId
from ducklake_core.plan.file_groups import deleted_rows, live_bytes
from ducklake_core.plan.moved_file import MovedFile
from ducklake_core.spec.types import ROW_ID_NAME, SNAPSHOT_ID_NAME

HELD_BYTES = 128 * 2**20


@dataclass(frozen=True, slots=True)
class CompactionTask:
    """Files to be written anew, together; where to, and how.

    `snapshot`: rows that are deleted there are left behind, and what a row's own snapshot was with them; None: all rows
    stay, with their snapshots. `directory` is relative to the table's, `with_nan` has leaves in which a NaN may be.
    """

    files: tuple[DataFile, ...]
    layout: FileLayout
    table_columns: tuple[Column, ...]
    directory: str = ""
    partition_id: int | None = None
    partition_values: PartitionValues | None = None
    snapshot: SnapshotId | None = None
    with_nan: frozenset[str] = frozenset()

    @property
    def request(self) -> ReadRequest:
        """What is read of each file."""
        return ReadRequest(
            self.layout.columns,
            self.snapshot,
            with_row_ids=True,
            with_snapshot_ids=self.snapshot is None,
            table_columns=self.table_columns,
            with_threads=False,
        )


@dataclass(frozen=True, slots=True)
class CompactionResult:
    """The files that a task made, or why it could not; then there are none.

    `skipped`: such files are left as they are, since nobody can read or write them here. `error`: something is wrong.
    """

    files: tuple[MovedFile, ...] = ()
    skipped: str | None = None
    error: str | None = None


def compact(storage: Storage, task: CompactionTask) -> CompactionResult:
    """Write the rows of a task's files; a file that cannot be read, or a type that cannot be written, is its result."""
    try:
        with WrittenFiles(storage) as written:
            return CompactionResult(_Compacting(storage, task, written).run())
    except UnsupportedType as error:
        return CompactionResult(skipped=error.message)
    except (UnreadableFile, CorruptCatalog) as error:
        is_encrypted = any(file.encryption_key is not None for file in task.files)  # by DuckDB, for itself alone
        return CompactionResult(skipped=error.message) if is_encrypted else CompactionResult(error=error.message)


class _Compacting:
    """One task while it is done."""

    def __init__(self, storage: Storage, task: CompactionTask, written: WrittenFiles) -> None:
        self._storage = storage
        self._task = task
        self._written = written
        self._sources = SourceRows(storage, task.files, task.request)
        self._rows_written = 0
        self._open: _Output | None = None
        self._done: list[MovedFile] = []

    def run(self) -> tuple[MovedFile, ...]:
        layout = self._task.layout
        reason = find_unwritable(layout.columns)
        if reason is not None:
            raise UnsupportedType(reason)
        try:
            for rows, size_bytes in self._chunks():
                for group in _groups(rows, group_rows(len(rows), size_bytes, layout.options)):
                    self._write(group)
            self._finish()
        except BaseException:  # an interrupt must leave no file behind, either
            if self._open is not None:
                self._open.file.__exit__(*sys.exc_info())
            raise
        self._check_count()
        return tuple(self._done)

    def _check_count(self) -> None:
        """Refuse to replace files by others that have not exactly their rows."""
        expected = sum(f.record_count for f in self._task.files) - self._sources.dropped
        found = sum(f.file.record_count for f in self._done)
        if found != expected:
            raise CorruptCatalog(
                f"the catalog says that {len(self._task.files)} data files, the first of them "
                f"'{self._task.files[0].path}', have {expected} rows, but {found} were read: nothing was changed"
            )

    # ---- reading

    def _chunks(self) -> Iterator[tuple[pa.Table, int]]:
        """Yield rows and their bytes, whole row groups at a time; of a sorted table as many as are sorted together."""
        layout, held, size_bytes = self._task.layout, list[pa.Table](), 0
        full_rows = layout.options.row_group_rows if layout.sort_order is None else None
        for some in self._sources.tables():
            held.append(some)
            size_bytes += some.get_total_buffer_size()
            row_count = sum(map(len, held))
            if size_bytes >= HELD_BYTES or (full_rows is not None and row_count >= full_rows):
                rows = pa.concat_tables(held)
                rest_rows = row_count % full_rows if full_rows is not None and row_count >= full_rows else 0
                rest_bytes = size_bytes * rest_rows // max(1, row_count)
                yield self._ordered(rows.slice(0, row_count - rest_rows)), size_bytes - rest_bytes
                held, size_bytes = [rows.slice(row_count - rest_rows)], rest_bytes
        yield self._ordered(pa.concat_tables([self._task.request.schema.empty_table(), *held])), size_bytes

    def _ordered(self, rows: pa.Table) -> pa.Table:
        return sort_rows(rows, self._task.layout.columns, self._task.layout.sort_order)

    # ---- writing

    def _write(self, group: pa.Table) -> None:
        with_nan = self._task.with_nan
        if self._open is not None and not self._open.file.takes(group):
            with_nan |= self._open.file.with_nan  # its successor takes whatever it took
            self._finish()
        if self._open is None:
            self._open = _Output(self._storage, self._task, group, with_nan)
        self._open.write(group)
        self._rows_written += len(group)
        if self._open.file.is_full and self._has_much_left():
            self._finish()

    def _has_much_left(self) -> bool:
        """Tell whether what is still to come is worth a file: half of a full one at least."""
        files, target = self._task.files, self._task.layout.options.target_file_bytes
        rows = sum(file.record_count - deleted_rows(file) for file in files)
        left_bytes = sum(map(live_bytes, files)) * (rows - self._rows_written) // max(1, rows)
        return 2 * left_bytes >= target

    def _finish(self) -> None:
        if self._open is None:
            return
        done = self._open.finish()
        self._written.add(self._open.file.full_path)
        self._open = None
        self._done.append(done)


@dataclass(slots=True)
class _Known:
    """What is known of the rows of a file so far: their first id, if all follow each other, and their snapshots."""

    first_id: int | None = None
    next_id: int | None = None
    begin: int | None = None
    last: int = 0

    def add(self, row_ids: np.ndarray, snapshots: np.ndarray | None) -> None:
        first = int(row_ids[0])
        is_first = self.begin is None
        follows = first == self.next_id or is_first
        self.first_id = (first if is_first else self.first_id) if follows and (np.diff(row_ids) == 1).all() else None
        self.next_id = None if self.first_id is None else int(row_ids[-1]) + 1
        low, high = (0, 0) if snapshots is None else (int(snapshots.min()), int(snapshots.max()))
        self.begin = low if self.begin is None else min(self.begin, low)
        self.last = max(self.last, high)


class _Output:
    """A new file that is being written."""

    def __init__(self, storage: Storage, task: CompactionTask, first: pa.Table, with_nan: frozenset[str]) -> None:
        self._task = task
        self._known = _Known()
        self.file = OpenFile(
            storage,
            task.layout,
            _stored(first),
            task.partition_values,
            lambda: task.directory + new_data_file_name(),
            with_nan,
        )
        self.file.__enter__()

    def write(self, group: pa.Table) -> None:
        snapshots = group.column(SNAPSHOT_IDS).to_numpy() if SNAPSHOT_IDS in group.column_names else None
        self._known.add(group.column(ROW_IDS).to_numpy(), snapshots)
        self.file.write(_stored(group))

    def finish(self) -> MovedFile:
        begin, last = SnapshotId(self._known.begin or 0), SnapshotId(self._known.last)
        return MovedFile(self.file.finish(), self._known.first_id, begin, last, self._task.partition_id)


def _groups(rows: pa.Table, most_rows: int) -> Iterator[pa.Table]:
    """Yield rows in parts of about the same size, each no larger than a row group."""
    count = -(-len(rows) // most_rows)
    for number in range(count):
        start, end = number * len(rows) // count, (number + 1) * len(rows) // count
        yield _contiguous(rows.slice(start, end - start))


def _contiguous(rows: pa.Table) -> pa.Table:
    """Return rows with their nested columns in one piece each: others may be in as many as there were files."""
    nested = [field.name for field in rows.schema if pa.types.is_nested(field.type)]
    if not nested:
        return rows
    whole = rows.select(nested).combine_chunks()
    arrays = [whole.column(name) if name in nested else rows.column(name) for name in rows.column_names]
    return pa.Table.from_arrays(arrays, schema=rows.schema)


def _stored(rows: pa.Table) -> pa.Table:
    """Return rows with the names that the format has for their internal columns."""
    names = {ROW_IDS: ROW_ID_NAME, SNAPSHOT_IDS: SNAPSHOT_ID_NAME}
    return rows.rename_columns([names.get(name, name) for name in rows.column_names])
