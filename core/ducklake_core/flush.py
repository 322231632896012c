"""Flushes a table: inlined rows and deletes move to Parquet, and no reader sees a difference. Runs on the driver.

Files are written first, from what the head has, without any lock; then one short commit registers them and removes
what they hold from the catalog. Rows that arrive meanwhile stay for the next flush. Whoever deletes inlined rows or
flushes meanwhile makes the files wrong: that is a conflict, and the flush starts over from the new head.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from functools import partial

import numpy as np

from ducklake_core import faults
from ducklake_core.catalog.commit import Commit
from ducklake_core.catalog.committer import Committer
from ducklake_core.catalog.database import Database
from ducklake_core.catalog.file_reader import read_inlined_file_deletes
from ducklake_core.catalog.inlined_reader import count_row_versions, read_row_versions
from ducklake_core.catalog.reader import read_head
from ducklake_core.catalog.session import Session
from ducklake_core.errors import CommitConflict, CorruptCatalog
from ducklake_core.files.delete_files import first_deletes, read_all_deletes, replaced_files, write_delete_file
from ducklake_core.files.flush_writer import FlushWriter
from ducklake_core.files.open_file import FileLayout
from ducklake_core.files.storage import Storage
from ducklake_core.files.written import WrittenFiles
from ducklake_core.model import DataFile, InlinedTable, Snapshot, SnapshotId, TableVersion
from ducklake_core.plan.flush import Flush, FlushedDeletes, FlushedTable
from ducklake_core.plan.moved_file import MovedFile, with_current_bounds
from ducklake_core.plan.staged import CommitInfo, Staged, StagedTable, TableWrites
from ducklake_core.prefetch import prefetched
from ducklake_core.spec.options import TableOptions

DEFAULT_MEMORY_BYTES = 512 * 2**20
# A chunk is in memory as bytes of the database, as Arrow values, sorted, in Parquet's form and compressed; and
# allocators keep some of what is freed.
_COPIES = 20


@dataclass(frozen=True, slots=True)
class Flusher:
    """Flushes one table as a snapshot has it."""

    database: Database
    storage: Storage
    committer: Committer
    base: Snapshot
    table: TableVersion
    options: TableOptions
    memory_bytes: int = DEFAULT_MEMORY_BYTES

    def run(self) -> tuple[Snapshot | None, Flush]:
        """Write the files and commit them; nothing to flush makes no snapshot. A definite failure removes the files."""
        with WrittenFiles(self.storage) as written:
            flush = self._write(written)
            faults.at("after_flush_write")
            if flush.is_empty:
                return None, flush
            self._check_counts(flush)
            commit = Commit(self._stage(flush))
            try:
                return self.committer.run(commit).snapshot, flush
            finally:
                if not commit.is_void:  # the snapshot exists, or may: its files must stay
                    written.keep()

    def _stage(self, flush: Flush) -> Staged:
        staged = StagedTable(self.table, self.table, TableWrites(moved=flush))
        message = f"flush inlined rows of {self.table.qualified_name}" if self.options.requires_message else None
        info = CommitInfo(message=message)
        return Staged(self.base, (staged,), info=info)

    def _write(self, written: WrittenFiles) -> Flush:
        files: list[MovedFile] = []
        emptied: list[FlushedTable] = []
        for inlined in self.table.inlined_tables:
            found = self.database.wait_for(partial(self._write_rows, written, inlined))
            files += found
            emptied += [FlushedTable(inlined.name, sum(f.file.record_count for f in found))] if found else []
        through = self.base.snapshot_id
        listed, count = self.database.ask(lambda session: read_inlined_file_deletes(session, self.table, through))
        deletes = tuple(self._write_deletes(written, *one) for one in listed)
        return Flush(through, tuple(emptied), tuple(files), deletes, count)

    def _check_counts(self, flush: Flush) -> None:
        """Refuse to remove row versions that are in no file; what others did meanwhile is a conflict.

        No commit after the base adds to what is counted here, and whoever takes from it conflicts with ours; an expiry,
        which makes no snapshot, does so here.
        """
        counts, head = self.database.ask(lambda session: _counts_and_head(session, flush))
        for table, count in zip(flush.inlined_tables, counts, strict=True):
            if count == table.rows:
                continue
            difference = (
                f"table '{table.name}' has {count} row versions of snapshots up to {flush.through}, but {table.rows} "
                "were written to files"
            )
            if head != self.base or count < table.rows:  # fewer: an expiry took what no snapshot sees any more
                raise CommitConflict(
                    f"cannot flush '{self.table.qualified_name}': {difference}; others have committed meanwhile",
                    snapshot_id=head.snapshot_id,
                    base=self.base.snapshot_id,
                )
            raise CorruptCatalog(f"cannot flush '{self.table.qualified_name}': {difference}; nothing was removed")

    def _write_rows(self, written: WrittenFiles, inlined: InlinedTable) -> tuple[MovedFile, ...]:
        chunks = read_row_versions(self.database, inlined, self.base.snapshot_id, self.memory_bytes // _COPIES)
        with FlushWriter(self.storage, self._layout(inlined)) as writer, closing(prefetched(chunks)) as read:
            for chunk in read:
                # What ended after the base is a conflict that the commit finds.
                ends = np.where(chunk.ends <= self.base.snapshot_id, chunk.ends, 0)
                writer.write(chunk.rows, chunk.row_ids, chunk.begins, ends)
            files = tuple(with_current_bounds(f, inlined.columns, self.table.columns) for f in writer.finish())
        for done in files:
            written.add(*(self.table.directory + one.path for one in (done.file, done.deletes) if one is not None))
        return files

    def _layout(self, inlined: InlinedTable) -> FileLayout:
        """Lay files out as the table was when these rows were inserted; sorted as it is now."""
        partitioning = inlined.partitioning if inlined.partitioning and inlined.partitioning.keys else None
        sort_order, options = self.table.sort_order, self.options.files
        return FileLayout(self.table.directory, inlined.columns, partitioning, sort_order, options)

    def _write_deletes(
        self, written: WrittenFiles, file: DataFile, positions: np.ndarray, snapshots: np.ndarray
    ) -> FlushedDeletes:
        old_positions, old_snapshots = read_all_deletes(self.storage, file.delete_files)
        positions, snapshots = first_deletes(
            np.concatenate([old_positions, positions]), np.concatenate([old_snapshots, snapshots])
        )
        new = write_delete_file(
            self.storage, self.table.directory, file.path, positions, snapshots, encrypted=self.options.encrypted
        )
        written.add(self.table.directory + new.path)
        replaced = replaced_files(file.delete_files, self.committer.data_path)
        begin, last = SnapshotId(int(snapshots.min())), SnapshotId(int(snapshots.max()))
        return FlushedDeletes(file.data_file_id, new, begin, last, file.end_snapshot, replaced)


def _counts_and_head(session: Session, flush: Flush) -> tuple[list[int], Snapshot]:
    counts = count_row_versions(session, [t.name for t in flush.inlined_tables], flush.through)
    return counts, read_head(session)  # last: whatever made the counts differ is seen
