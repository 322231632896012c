"""A snapshot of the lake, and a range of them `(start, end]`. Values only."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from ducklake_core.model.ids import SnapshotId


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A row of `ducklake_snapshot` with its changes."""

    snapshot_id: SnapshotId
    snapshot_time: datetime
    schema_version: int
    next_catalog_id: int
    next_file_id: int
    changes: str | None = None
    author: str | None = None
    message: str | None = None
    extra_info: str | None = None


@dataclass(frozen=True, slots=True)
class SnapshotSpan:
    """The snapshots after `start`, up to and with `end`."""

    start: SnapshotId
    end: SnapshotId

    def __contains__(self, snapshot: int) -> bool:
        return self.start < snapshot <= self.end
