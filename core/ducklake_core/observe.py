"""What happens, as frozen values for a recorder: `Lake.open(…, recorder=…)`, `DuckLakeSink(…, recorder=…)`. No Spark.

Log lines are made of these values by `LogRecorder`, the default; a display or metrics are recorders of their own.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum

from ducklake_core.recording import (
    CORE_LOG,
    LOG_RECORDER,
    NO_RECORDER,
    Event,
    LogRecorder,
    NoRecorder,
    Recorder,
    RecorderFailed,
    Recorders,
)

# The names of `recording.py`, which are to be had here; the events below need no list.
__all__ = [
    "CORE_LOG",
    "LOG_RECORDER",
    "NO_RECORDER",
    "Event",
    "LogRecorder",
    "NoRecorder",
    "Recorder",
    "RecorderFailed",
    "Recorders",
]

# ---- what happens in core


@dataclass(frozen=True, slots=True)
class CommitMade(Event):
    """A commit has ended well. `snapshot_id` None: it changed nothing, and recorded an epoch at most.

    `seconds`: from its first attempt to its end.
    """

    line = "commit_made"
    level = logging.DEBUG
    snapshot_id: int | None
    attempts: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Retried(Event):
    """The catalog was asked or written to in vain, and will be again.

    `cause`: a ContentionError when another commit took its snapshot's id, which is ordinary; else the catalog was away.
    """

    line = "retried"
    level = logging.DEBUG
    catalog: str
    attempt: int
    cause: BaseException


@dataclass(frozen=True, slots=True)
class CommitRetried(Retried):
    """The same of a commit: its attempt has made no snapshot, or nobody knows, and another one follows."""

    line = "commit_retried"


@dataclass(frozen=True, slots=True)
class ConflictRetried(Event):
    """A change was made in vain because of another commit, and is made again from the new head."""

    line = "conflict_retried"
    level = logging.DEBUG
    attempt: int
    cause: BaseException


class Resolution(StrEnum):
    """What was found out about a COMMIT that got no answer."""

    COMMITTED = "committed"  # its snapshot was found
    REPEATED = "repeated"  # it was not there, and is made again: at once, by another run of its epoch, or by the caller
    UNRESOLVED = "unresolved"  # nobody knows


@dataclass(frozen=True, slots=True)
class CommitDoubted(Event):
    """A COMMIT got no answer; `resolution` says what was found out about it before the commit ended.

    To do: nothing, unless it is `unresolved`: then the batch has failed, and the ledger settles it when it comes again.
    """

    line = "commit_doubted"
    level = logging.WARNING
    resolution: Resolution
    attempts: int


@dataclass(frozen=True, slots=True)
class EpochReplayed(Event):
    """An epoch was found in the ledger: nothing was written."""

    line = "epoch_replayed"
    stream: str
    batch_id: int

    def facts(self) -> Mapping[str, object]:
        return {"stream": self.stream, "batch": self.batch_id}


@dataclass(frozen=True, slots=True)
class RowsNotInlined(Event):
    """Rows went to files because the catalog's database refused them.

    To do: nothing; rows that are so large are best written to files: lower `inline_bytes`.
    """

    line = "rows_not_inlined"
    level = logging.WARNING
    repeats_by = ()
    summed = ("rows",)
    rows: int
    reason: BaseException


@dataclass(frozen=True, slots=True)
class Flushed(Event):
    """Inlined rows of a table are in files now."""

    line = "flushed"
    table: str
    rows: int
    files: int
    size_bytes: int
    snapshot_id: int
    seconds: float

    def facts(self) -> Mapping[str, object]:
        return {
            "table": self.table,
            "rows": self.rows,
            "files": self.files,
            "bytes": self.size_bytes,
            "snapshot": self.snapshot_id,
            "milliseconds": round(1000 * self.seconds, 1),
        }


@dataclass(frozen=True, slots=True)
class TableNotFlushed(Event):
    """One of all tables could not be flushed.

    To do: read the error. The rows stay in the catalog, and the next flush tries again.
    """

    line = "table_not_flushed"
    level = logging.WARNING
    repeats_by = ("table", "error")
    table: str
    error: BaseException


@dataclass(frozen=True, slots=True)
class SupersededTablesKept(Event):
    """Empty tables of inlined rows could not be dropped after a flush; a later one does it.

    To do: nothing, unless it stays: then see that the catalog's user may drop tables.
    """

    line = "superseded_tables_not_dropped"
    level = logging.WARNING
    repeats_by = ("error",)
    error: BaseException


@dataclass(frozen=True, slots=True)
class MaintenanceDone(Event):
    """An operation of maintenance has done something to a table, or, with `table` None, to the lake.

    The numbers are those of `ducklake_core.maintenance.report.Work`; `snapshot_id` is the snapshot that it made.
    """

    line = "maintenance_done"
    operation: str
    table: str | None
    files_before: int
    files_after: int
    bytes_before: int
    bytes_after: int
    rows: int
    snapshot_id: int | None
    seconds: float
    snapshots: int = 0

    def facts(self) -> Mapping[str, object]:
        """Say what there was: no zeros, and no table where it was the lake."""
        every = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "seconds"}
        told = {name: value for name, value in every.items() if value}
        return {**told, "milliseconds": round(1000 * self.seconds, 1)}


@dataclass(frozen=True, slots=True)
class TableNotMaintained(Event):
    """An operation of maintenance has failed for a table, or, with `table` None, as a whole.

    To do: read the error; the other tables were maintained, and the next run tries again.
    """

    line = "table_not_maintained"
    level = logging.WARNING
    repeats_by = ("operation", "table", "error")
    operation: str
    table: str | None
    error: BaseException | str


@dataclass(frozen=True, slots=True)
class MaintenanceNotRecorded(Event):
    """The catalog did not take the lease or the record of maintenance, which was done all the same.

    To do: see that the catalog's user may create tables and write to them.
    """

    line = "maintenance_not_recorded"
    level = logging.WARNING
    repeats_by = ("operation", "error")
    operation: str
    error: BaseException


@dataclass(frozen=True, slots=True)
class CatalogAway(Event):
    """The catalog cannot be reached, and is waited for: told when that begins, and then ever less often.

    `seconds`: for how long so far, of `timeout_seconds` at most. `is_new`: it is said for the
    first time of this outage.

    To do: see that the database runs and can be reached from the driver; nothing is lost meanwhile.
    """

    line = "catalog_unavailable"
    level = logging.WARNING
    repeats_by = ("catalog",)
    catalog: str
    attempt: int
    seconds: float
    timeout_seconds: float
    reason: BaseException
    is_new: bool = True

    def facts(self) -> Mapping[str, object]:
        return {
            "catalog": self.catalog,
            "attempt": self.attempt,
            "seconds": round(self.seconds, 1),
            "timeout": self.timeout_seconds,
            "reason": self.reason,
        }


@dataclass(frozen=True, slots=True)
class CatalogBack(Event):
    """The catalog can be reached again, after so many seconds: told to those who heard that it was away.

    To do: nothing; it was waited for.
    """

    line = "catalog_available"
    level = logging.WARNING
    ends = CatalogAway
    catalog: str
    attempt: int
    seconds: float

    def facts(self) -> Mapping[str, object]:
        return {"catalog": self.catalog, "attempt": self.attempt, "seconds": round(self.seconds, 1)}


# ---- what happens to feeds


@dataclass(frozen=True, slots=True)
class Upserted(Event):
    """Events were applied to a table by key; `files_opened` of its data files were searched for the keys."""

    line = "upserted"
    level = logging.DEBUG
    table: str
    snapshot: int | None
    events: int
    inserted: int
    updated: int
    deleted: int
    unchanged: int
    late: int
    files_opened: int
    files_pruned: int
    seconds: float


@dataclass(frozen=True, slots=True)
class FeedRead(Event):
    """Changes of a table were read, those of the snapshots `(start, end]`."""

    line = "changes_read"
    level = logging.DEBUG
    table: str
    start: int
    end: int
    rows: int
    seconds: float


@dataclass(frozen=True, slots=True)
class SnapshotsLost(Event):
    """Changes of a table are gone with snapshots that have expired, and the reader goes on without them.

    To do: keep snapshots for longer, or give the reader a `consumerId`, which expiry waits for.
    """

    line = "changes_lost"
    level = logging.WARNING
    repeats_by = ("table",)
    table: str
    first_snapshot: int
    last_snapshot: int

    def facts(self) -> Mapping[str, object]:
        lost = {"table": self.table, "first_snapshot": self.first_snapshot, "last_snapshot": self.last_snapshot}
        return {**lost, "reason": "expired"}
