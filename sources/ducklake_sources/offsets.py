"""The offset of a change feed: which table, and the last snapshot of it that was read. Pure.

Spark keeps offsets as JSON in checkpoints, for years: a reader refuses one that it does not understand.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Self
from uuid import UUID

from ducklake_core.errors import OffsetMismatch
from ducklake_core.model import SnapshotId

VERSION = 1


@dataclass(frozen=True, slots=True)
class FeedOffset:
    """All changes up to and with `snapshot_id` were read.

    `columns_as_of`: the rows had the columns that the table had at this snapshot. `is_initial`: nothing was read, and
    what comes first is the table itself. `is_pending`: nothing was read, and where the feed begins is yet to be found;
    the first batch, which is empty, makes it known to the checkpoint. `lost_snapshots`: how many snapshots of this feed
    had expired before they were read, since its beginning, for those who accept that. `time` is when the snapshot was
    committed: in a catalog that was restored from a backup and written to again, its id is that of another snapshot.
    None: the checkpoint is older than this field, or the snapshot had expired.
    """

    table_uuid: UUID
    snapshot_id: SnapshotId
    schema_version: int
    columns_as_of: SnapshotId
    is_initial: bool = False
    is_pending: bool = False
    lost_snapshots: int = 0
    time: datetime | None = None

    @property
    def is_first(self) -> bool:
        """Tell whether nothing was read."""
        return self.is_initial or self.is_pending

    @classmethod
    def parse(cls, given: Mapping[str, Any]) -> Self:  # Any: JSON
        """Return the offset of its JSON; raise OffsetMismatch for what is none, or one of another release."""
        if given.get("v") != VERSION:
            raise OffsetMismatch(
                f"cannot go on from offset {dict(given)}: it has version {given.get('v')!r}, and this release reads "
                f"version {VERSION}; use the release that wrote the checkpoint, or a new checkpoint",
                offset=dict(given),
            )
        try:
            return cls(
                table_uuid=UUID(given["table_uuid"]),
                snapshot_id=SnapshotId(int(given["snapshot_id"])),
                schema_version=int(given["schema_version"]),
                columns_as_of=SnapshotId(int(given["columns_as_of"])),
                is_initial=bool(given.get("initial", False)),
                is_pending=bool(given.get("pending", False)),
                lost_snapshots=int(given.get("lost_snapshots", 0)),
                time=datetime.fromisoformat(given["time"]) if "time" in given else None,
            )
        except (KeyError, TypeError, ValueError) as error:
            raise OffsetMismatch(
                f"cannot go on from offset {dict(given)}: it is not one of a DuckLake table ({error}); "
                "is the checkpoint that of another source?",
                offset=dict(given),
            ) from error

    def to_json(self) -> dict[str, Any]:  # Any: JSON
        """Return what Spark keeps."""
        found: dict[str, Any] = {
            "v": VERSION,
            "table_uuid": str(self.table_uuid),
            "snapshot_id": self.snapshot_id,
            "schema_version": self.schema_version,
            "columns_as_of": self.columns_as_of,
        }
        if self.is_initial:
            found["initial"] = True
        if self.is_pending:
            found["pending"] = True
        if self.lost_snapshots:
            found["lost_snapshots"] = self.lost_snapshots
        if self.time is not None:
            found["time"] = self.time.isoformat()
        return found

    def moved_to(
        self,
        snapshot_id: SnapshotId,
        schema_version: int,
        columns_as_of: SnapshotId,
        time: datetime | None,
        lost_snapshots: int = 0,
    ) -> FeedOffset:
        return replace(
            self,
            snapshot_id=snapshot_id,
            schema_version=schema_version,
            columns_as_of=columns_as_of,
            is_initial=False,
            is_pending=False,
            lost_snapshots=self.lost_snapshots + lost_snapshots,
            time=None if time is None else in_utc(time),
        )

    def is_of(self, snapshot_id: SnapshotId, time: datetime) -> bool:
        """Tell whether a snapshot of the lake, if it has our id, may be the one that was read."""
        return snapshot_id != self.snapshot_id or self.time is None or in_utc(time) == self.time


def in_utc(time: datetime) -> datetime:
    """Return the time of a snapshot in the one form that equal times have; SQLite's has no zone."""
    return time.astimezone(UTC) if time.tzinfo else time.replace(tzinfo=UTC)
