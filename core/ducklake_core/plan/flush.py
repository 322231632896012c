"""A flush as a value: inlined rows and inlined deletes of one table that are in files now. Pure.

Made before the commit from what snapshot `through` has; nothing in it depends on the snapshot that the commit makes.
"""

from __future__ import annotations

from dataclasses import dataclass

from ducklake_core.model import DataFileId, NewDeleteFile, ReplacedFile, SnapshotId
from ducklake_core.plan.moved_file import MovedFile


@dataclass(frozen=True, slots=True)
class FlushedDeletes:
    """A delete file with the inlined deletes of one data file, merged with the delete files that it had.

    Its row is valid as long as the data file's, so that there is one at every snapshot, and goes with it when that
    expires: `end` is None for a live one.
    """

    data_file_id: DataFileId
    new_file: NewDeleteFile
    begin: SnapshotId
    last: SnapshotId
    end: SnapshotId | None = None
    replaced: tuple[ReplacedFile, ...] = ()


@dataclass(frozen=True, slots=True)
class FlushedTable:
    """A table of inlined rows, and how many row versions of it are in files now."""

    name: str
    rows: int


@dataclass(frozen=True, slots=True)
class Flush:
    """All that leaves the catalog: row versions of `inlined_tables` and file deletes, begun by snapshot `through`."""

    through: SnapshotId
    inlined_tables: tuple[FlushedTable, ...] = ()
    files: tuple[MovedFile, ...] = ()
    deletes: tuple[FlushedDeletes, ...] = ()
    file_deletes: int = 0  # rows of the inlined deletes' table

    @property
    def is_empty(self) -> bool:
        return not self.inlined_tables and not self.file_deletes

    @property
    def rows(self) -> int:
        return sum(f.file.record_count for f in self.files)

    @property
    def delete_files(self) -> tuple[NewDeleteFile, ...]:
        return (*(d.new_file for d in self.deletes), *(f.deletes for f in self.files if f.deletes is not None))

    @property
    def file_count(self) -> int:
        return len(self.files) + len(self.delete_files)

    @property
    def size_bytes(self) -> int:
        return sum(f.file.file_size_bytes for f in self.files) + sum(d.file_size_bytes for d in self.delete_files)
