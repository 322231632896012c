"""What an operation of a lake has done, for those who called it. Values only."""

from __future__ import annotations

from dataclasses import dataclass

from ducklake_core.model.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class FlushResult:
    """What a flush did. `rows` are row versions; `file_deletes` rows of data files whose deletes are in files now.

    `size_bytes` is that of all new files, `dropped_tables` are tables of inlined rows of older columns that were empty.
    """

    snapshots: tuple[Snapshot, ...] = ()
    rows: int = 0
    file_deletes: int = 0
    data_files: int = 0
    delete_files: int = 0
    size_bytes: int = 0
    dropped_tables: tuple[str, ...] = ()
