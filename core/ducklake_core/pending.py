"""What a transaction has done to one table so far: rows and files to add, rows to end. Staged as `TableWrites`.

Rows that the transaction itself added and then deletes or updates are changed in place: no snapshot ever saw them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from ducklake_core import faults
from ducklake_core.files.delete_cache import DELETES
from ducklake_core.files.delete_files import (
    merge_deletes,
    merged_positions,
    read_all_deletes,
    replaced_files,
    write_delete_file,
)
from ducklake_core.files.storage import Storage
from ducklake_core.model import Column, DataFile, DataFileId, NewDataFile, NewDeleteFile, SnapshotId, TableVersion
from ducklake_core.plan.inlined_rows import InlinedRows
from ducklake_core.plan.staged import (
    InlinedEnd,
    InlinedFileDeletes,
    ReplacedDeletes,
    RewrittenBounds,
    StagedTable,
    TableWrites,
)
from ducklake_core.spec.options import TableOptions
from ducklake_core.upsert.key_index import KeyIndex
from ducklake_core.upsert.threads import beside_each_other


@dataclass(slots=True)
class AddedRows:
    """Rows to be inlined; `row_ids` are those of the old versions when this is an update."""

    rows: pa.Table
    row_ids: np.ndarray | None = None


@dataclass(frozen=True, slots=True)
class AddedCount:
    """How much a transaction adds to one table, and where."""

    inlined_rows: int
    inlined_bytes: int  # as Arrow has them
    files: int
    file_rows: int
    file_bytes: int


@dataclass(frozen=True, slots=True, eq=False)
class LookedFor:
    """Keys that an upsert has looked for, and the columns that they are of."""

    keys: tuple[Column, ...]
    index: KeyIndex


@dataclass(slots=True)
class PendingTable:
    """One table of a transaction. `after` None: dropped. `is_inlinable`, `can_inline`: see `KnownTable`."""

    before: TableVersion | None
    after: TableVersion | None
    options: TableOptions
    is_inlinable: bool = False
    can_inline: bool = False
    added: list[AddedRows] = field(default_factory=list)
    files: list[NewDataFile] = field(default_factory=list)
    lent: set[str] = field(default_factory=set)  # paths of files that whoever wrote them removes
    rewritten_bounds: list[RewrittenBounds] = field(default_factory=list)
    rests_on_rows: bool = False  # see `StagedTable`
    rests_on_all_rows: bool = False  # and not only on those that were looked for
    looked_for: list[LookedFor] = field(default_factory=list)  # all that it rests on
    inlined_ends: dict[str, set[int]] = field(default_factory=dict)
    deleted: dict[DataFileId, tuple[DataFile, np.ndarray]] = field(default_factory=dict)
    _old_deletes: dict[DataFileId, tuple[np.ndarray, np.ndarray]] = field(default_factory=dict)
    _delete_files: dict[tuple[DataFileId, SnapshotId | None], NewDeleteFile] = field(default_factory=dict)

    @property
    def table(self) -> TableVersion:
        table = self.after or self.before
        assert table is not None  # noqa: S101 # one of the two is always set
        return table

    @property
    def added_bytes(self) -> int:
        return sum(added.rows.nbytes for added in self.added)

    def has_room(self, rows: pa.Table, byte_limit: int) -> bool:
        """Tell whether its rows to be inlined take no more bytes than so many with these, as Arrow has them.

        To sum those up takes 25 µs, a part of a small commit that can be felt; the sizes of buffers take a hundredth of
        it. Columns may share one, so that these are enough only where there is plenty of room.
        """
        left = byte_limit - self.added_bytes
        return bool(rows.get_total_buffer_size() * rows.num_columns <= left or rows.nbytes <= left)

    def count_added(self) -> AddedCount:
        return AddedCount(
            inlined_rows=sum(a.rows.num_rows for a in self.added),
            inlined_bytes=sum(a.rows.get_total_buffer_size() for a in self.added),
            files=len(self.files),
            file_rows=sum(f.record_count for f in self.files),
            file_bytes=sum(f.file_size_bytes for f in self.files),
        )

    def rest_on_all_rows(self) -> None:
        """Note that what is written rests on all rows of the table; one that is created here has none."""
        self.rests_on_rows = self.rests_on_all_rows = self.before is not None

    def end_inlined(self, inlined_table: str, row_ids: np.ndarray) -> None:
        self.inlined_ends.setdefault(inlined_table, set()).update(row_ids.tolist())

    def delete_positions(self, file: DataFile, positions: np.ndarray) -> None:
        _, known = self.deleted.get(file.data_file_id, (file, np.empty(0, np.int64)))
        self.deleted[file.data_file_id] = (file, merged_positions([known, positions]))

    def written_paths(self) -> list[str]:
        """Return the full paths of the files this transaction wrote, or took over from who did."""
        relative = [(f.path, f.path_is_relative) for f in self.files if f.path not in self.lent]
        relative += [(d.path, d.path_is_relative) for d in self._delete_files.values()]
        return [self.table.directory + path if is_relative else path for path, is_relative in relative]

    def superseded_paths(self, snapshot_id: SnapshotId) -> list[str]:
        """Return the delete files that were written for a snapshot id which another commit took."""
        items = self._delete_files.items()
        return [self.table.directory + d.path for (_, id_), d in items if id_ is not None and id_ != snapshot_id]

    def stage(self, storage: Storage, data_path: str, snapshot_id: SnapshotId) -> StagedTable:
        """Return the staged table. Delete files that merge with older ones name the snapshot and are written for it."""
        writes = TableWrites(
            inlined=tuple(self._inlined_rows()),
            files=tuple(self.files),
            inlined_ends=tuple(InlinedEnd(n, tuple(sorted(ids))) for n, ids in self.inlined_ends.items() if ids),
        )
        self._write_delete_files(storage, snapshot_id)
        for file, positions in self.deleted.values():
            writes = self._with_deletes(writes, storage, data_path, file, positions, snapshot_id)
        is_inlined = self.is_inlinable and self.options.row_limit > 0
        bounds = tuple(self.rewritten_bounds)
        return StagedTable(self.before, self.after, writes, is_inlined, bounds, self.rests_on_rows)

    def _inlined_rows(self) -> list[InlinedRows]:
        fresh = [a.rows for a in self.added if a.row_ids is None and a.rows.num_rows]
        updated = [a for a in self.added if a.row_ids is not None and a.rows.num_rows]
        found = []
        if fresh:
            # They may differ in nullability.
            rows = pa.concat_tables(fresh, promote_options="default") if len(fresh) > 1 else fresh[0]
            found.append(InlinedRows(rows, self.table.columns))
        found += [InlinedRows(a.rows, self.table.columns, a.row_ids) for a in updated]
        return found

    def _write_delete_files(self, storage: Storage, snapshot_id: SnapshotId) -> None:
        """Write those that are needed beside each other where most of the time is spent waiting; others come later."""
        if storage.is_local:  # a small file is written before another thread has begun
            return
        pairs = [(f, p) for f, p in self.deleted.values() if len(p) and not self._is_inlined(p)]
        pairs = [(file, positions) for file, positions in pairs if not _ends_file(file, len(positions))]
        beside_each_other(lambda pair: self._delete_file(storage, *pair, snapshot_id), pairs)

    def _is_inlined(self, positions: np.ndarray) -> bool:
        """Tell whether positions are few enough to be rows of the catalog."""
        return self.before is not None and len(positions) <= self.options.row_limit

    def _with_deletes(
        self,
        writes: TableWrites,
        storage: Storage,
        data_path: str,
        file: DataFile,
        positions: np.ndarray,
        snapshot_id: SnapshotId,
    ) -> TableWrites:
        if not len(positions):
            return writes
        if self._is_inlined(positions):
            inlined = InlinedFileDeletes(file.data_file_id, tuple(positions.tolist()))
            return replace(writes, inlined_file_deletes=(*writes.inlined_file_deletes, inlined))
        if _ends_file(file, len(positions)):
            return replace(writes, ended_files=(*writes.ended_files, file.data_file_id))
        new = self._delete_file(storage, file, positions, snapshot_id)
        begin = min((old.begin_snapshot for old in file.delete_files), default=None)
        replaced = replaced_files(file.delete_files, data_path)
        deletes = ReplacedDeletes(file.data_file_id, new, begin, replaced)
        return replace(writes, delete_files=(*writes.delete_files, deletes))

    def old_deletes(self, storage: Storage, file: DataFile) -> tuple[np.ndarray, np.ndarray]:
        """Return the positions that a file's delete files ever delete, and the snapshots that did; read once."""
        if file.data_file_id not in self._old_deletes:
            self._old_deletes[file.data_file_id] = read_all_deletes(storage, file.delete_files, keeps=True)
        return self._old_deletes[file.data_file_id]

    def _delete_file(
        self, storage: Storage, file: DataFile, positions: np.ndarray, snapshot_id: SnapshotId
    ) -> NewDeleteFile:
        old = file.delete_files
        key = (file.data_file_id, snapshot_id if old else None)
        if key not in self._delete_files:
            snapshots: np.ndarray | None = None
            if old:
                known, begins = self.old_deletes(storage, file)
                positions, snapshots = merge_deletes(known, begins, positions, snapshot_id)
            self._delete_files[key] = write_delete_file(
                storage, self.table.directory, file.path, positions, snapshots, encrypted=self.options.encrypted
            )
            if not self.options.encrypted:
                DELETES.keep(self.table.directory + self._delete_files[key].path, (positions, snapshots))
            faults.at("after_delete_file_write")
        return self._delete_files[key]


def _ends_file(file: DataFile, count: int) -> bool:
    """Tell whether the whole file ends.

    One with history inside gets a delete file instead: the reference's feed misreads the end of a partial file and of
    one with inlined deletes. So does one with two delete files, which may name the same positions.
    """
    if file.partial_max is not None or file.inlined_deletes or len(file.delete_files) > 1:
        return False
    return sum(d.delete_count for d in file.delete_files) + count == file.record_count
