"""Who writes and reads a lake batch by batch: epochs of streams, and consumers of change feeds. Values only."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

from ducklake_core.model.ids import SnapshotId


@dataclass(frozen=True, slots=True)
class Epoch:
    """The idempotence key of one micro-batch, and who is committing it.

    `continues_run`: this run has committed an epoch of the stream before, so nobody else may have since.
    `leaves_gaps`: numbers may be left out, and a lower one than the last counts as committed.
    `table`: the numbers are counted for that table alone; one that gets its name later has its own.
    """

    stream: str
    batch_id: int
    query_id: str
    run_id: str
    continues_run: bool = False
    leaves_gaps: bool = False
    table: str | None = None

    def of_table(self, table_uuid: UUID) -> Epoch:
        """Return it as the ledger has it: by which table it is, whatever its name."""
        return replace(self, stream=f"{self.stream}@{table_uuid}", table=None)


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """The last epoch of a stream that was committed. `snapshot_id` None: it was empty."""

    stream: str
    query_id: str
    run_id: str
    batch_id: int
    snapshot_id: SnapshotId | None
    row_count: int
    committed_at: datetime


@dataclass(frozen=True, slots=True)
class Consumer:
    """A reader of a table's change feed, and the last snapshot that it has read."""

    name: str
    table_uuid: UUID
    snapshot_id: SnapshotId
    updated_at: datetime
    expires_at: datetime | None
