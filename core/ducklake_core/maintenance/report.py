"""What maintenance did, as values: one report for each operation, with an entry for each table. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class Operation(StrEnum):
    """What maintenance can do, in the order in which all of it is done."""

    FLUSH = "flush"
    EXPIRE = "expire"
    MERGE = "merge"
    REWRITE = "rewrite"
    CLEANUP = "cleanup"
    ORPHANS = "orphans"


@dataclass(frozen=True, slots=True)
class Work:
    """What an operation did to one table; `table` None: to the lake as a whole.

    `files_before` and `bytes_before` are those of the files that it took away, `files_after` and `bytes_after` those of
    the files it made in their place. `rows` is how many it wrote, `snapshots` how many it expired. `snapshot_id` is the
    snapshot it made. `skipped` says why nothing was done, or not all; `error` what failed, in one line.
    """

    table: str | None = None
    files_before: int = 0
    files_after: int = 0
    bytes_before: int = 0
    bytes_after: int = 0
    rows: int = 0
    snapshots: int = 0
    seconds: float = 0.0
    snapshot_id: int | None = None
    skipped: str | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class MaintenanceReport:
    """What one operation did. `paths` are the files that it removed, or would remove if `dry_run`.

    `snapshot_ids` are the snapshots that it expired, or would.
    `held_back` says who or what kept it from doing more, a sentence each: a consumer, a stream, another maintainer.
    """

    operation: Operation
    started_at: datetime
    seconds: float = 0.0
    work: tuple[Work, ...] = ()
    paths: tuple[str, ...] = ()
    held_back: tuple[str, ...] = ()
    dry_run: bool = False
    snapshot_ids: tuple[int, ...] = ()

    @property
    def has_failed(self) -> bool:
        """Tell whether it failed for some table."""
        return any(work.error for work in self.work)

    @property
    def total(self) -> Work:
        """Return the sums over all tables."""
        return Work(
            files_before=sum(w.files_before for w in self.work),
            files_after=sum(w.files_after for w in self.work),
            bytes_before=sum(w.bytes_before for w in self.work),
            bytes_after=sum(w.bytes_after for w in self.work),
            rows=sum(w.rows for w in self.work),
            snapshots=sum(w.snapshots for w in self.work),
            seconds=self.seconds,
        )
