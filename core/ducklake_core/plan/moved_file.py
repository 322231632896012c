"""A new data file of rows that were in the lake before, be it in the catalog or in other files. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from ducklake_core.model import NewDataFile, NewDeleteFile, SnapshotId


@dataclass(frozen=True, slots=True)
class MovedFile:
    """A data file of row versions, each with its row id, and after a flush or a merge with the snapshot that began it.

    `begin` and `last` are the least and greatest of these. `row_id_start` is that of the first row, None where the ids
    do not follow each other; of a flush it is the least one. `deletes` has the versions that have ended, since `ended`.
    """

    file: NewDataFile
    row_id_start: int | None
    begin: SnapshotId
    last: SnapshotId
    partition_id: int | None = None
    deletes: NewDeleteFile | None = None
    ended: SnapshotId | None = None
