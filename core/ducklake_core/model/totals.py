"""How much there is in a lake and in the catalog itself, as it was counted. Values only."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from ducklake_core.model.ids import TableId
from ducklake_core.model.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class InlinedState:
    """What a table has in the catalog instead of in files: what decides when to flush it.

    `rows` are row versions, `ended_rows` those of them that were deleted or updated, `file_deletes` the rows of data
    files that are deleted by catalog rows. `size_bytes` is an estimate. `oldest` is the time of the snapshot that made
    the oldest of all these; when that one has expired, of the first one after it that has not.
    """

    rows: int
    ended_rows: int
    file_deletes: int
    size_bytes: int
    oldest: datetime | None


@dataclass(frozen=True, slots=True)
class TableTotals:
    """How much a table has at the head: files, those of them that are small, deletes, and what is inlined.

    `rows` are those that a reader sees; `deleted_rows` are rows of live files that are deleted.
    """

    table_id: TableId
    table_uuid: UUID
    name: str
    rows: int
    files: int
    small_files: int
    file_bytes: int
    delete_files: int
    deleted_rows: int
    inlined: InlinedState


@dataclass(frozen=True, slots=True)
class LakeTotals:
    """How much a lake has: its snapshots that have not expired, and its tables by name."""

    head: Snapshot
    oldest: Snapshot
    snapshots: int
    tables: tuple[TableTotals, ...]
