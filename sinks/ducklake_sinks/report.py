"""What became of a batch, as one value that is logged and recorded. Made on the driver."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from ducklake_core import CommitResult
from ducklake_core.files.storage import Storage
from ducklake_core.observe import Event, Recorder
from ducklake_core.pending import AddedCount
from ducklake_sinks.epoch import EpochStart
from ducklake_sinks.events import SinkEvent
from ducklake_sinks.letter_reasons import count_reasons
from ducklake_sinks.part import Part
from ducklake_sinks.query import BY_HAND, Query
from ducklake_sinks.stopwatch import BatchCourse

_LONGEST_REASON = 200
_HINT_BY_HAND = "nothing was written: this batch is committed already; sink.append(df) writes without a number"


@dataclass(frozen=True, slots=True)
class BatchReport(SinkEvent):
    """A batch has been committed.

    `names`: of its stream and number, none for rows without one. `snapshot_id`: None for a batch without rows. `added`:
    what it added to each table. `dead_letters`: how many of its rows were kept aside, None where bad rows are refused;
    `rows` are the others. `seconds`: of each phase, and of all as `total`; `course`: the same one by one, with offsets.
    """

    line = "batch_committed"
    names: Mapping[str, object]
    snapshot_id: int | None
    added: Mapping[str, AddedCount]
    dead_letters: int | None
    seconds: Mapping[str, float]
    course: BatchCourse | None = None

    @property
    def rows(self) -> int:
        return self.inlined_rows + sum(one.file_rows for one in self.added.values()) - (self.dead_letters or 0)

    @property
    def inlined_rows(self) -> int:
        return sum(one.inlined_rows for one in self.added.values())

    @property
    def files(self) -> int:
        return sum(one.files for one in self.added.values())

    def facts(self) -> Mapping[str, object]:
        return {
            **self.names,
            "rows": self.rows,
            **({} if self.dead_letters is None else {"dead_letters": self.dead_letters}),
            "inlined": self.inlined_rows,
            "files": self.files,
            "snapshot": self.snapshot_id,
            **{f"{phase}_ms": round(1000 * value, 1) for phase, value in self.seconds.items()},
        }


@dataclass(frozen=True, slots=True)
class BatchReplayed(BatchReport):
    """A batch had been committed before: nothing was written. That is a warning where no query has brought it again.

    To do: nothing for a query that was started again; by hand, see `hint`.
    """

    line = "batch_replayed"
    is_by_hand: bool = False

    def severity(self) -> int:
        """A batch that a query repeats is ordinary; one that a caller repeats is perhaps a mistake."""
        return logging.WARNING if self.is_by_hand else logging.INFO

    def facts(self) -> Mapping[str, object]:
        return {**BatchReport.facts(self), **({"hint": _HINT_BY_HAND} if self.is_by_hand else {})}


@dataclass(frozen=True, slots=True)
class DeadLettersKept(SinkEvent):
    """Rows of a batch were kept aside. `table`: which they were meant for, `reason`: that of the first, where known.

    `reasons`: how many for each reason; of rows in a file that cannot be read nobody knows.

    To do: `ducklake-stream dead-letters list` shows them with their reasons: see [bad records](bad-records.md).
    """

    line = "rows_quarantined"
    level = logging.WARNING
    repeats_by = ("stream", "table", "kept_in")
    summed = ("rows",)
    names: Mapping[str, object]
    table: str | None
    rows: int
    kept_in: str
    reason: str | None
    reasons: Mapping[str, int] = field(default_factory=dict)

    def facts(self) -> Mapping[str, object]:
        facts = {"table": self.table, "rows": self.rows, "kept_in": self.kept_in, "reason": self.reason}
        return {**self.names, **{name: value for name, value in facts.items() if value is not None}}


@dataclass(frozen=True, slots=True)
class BatchFailed(SinkEvent):
    """A batch has failed; it is said in one line, before Spark says it in pages. Its traceback is shown at DEBUG.

    To do: read the error: [troubleshooting](troubleshooting.md) has each with what helps.
    """

    line = "batch_failed"
    level = logging.ERROR
    repeats_by = ("stream", "table", "error")
    names: Mapping[str, object]
    error: BaseException
    course: BatchCourse | None = None

    def facts(self) -> Mapping[str, object]:
        return {**self.names, "error": self.error}

    def traceback_of(self) -> BaseException | None:
        return self.error if self.logger.isEnabledFor(logging.DEBUG) else None


@dataclass(frozen=True, slots=True)
class BatchStopped(SinkEvent):
    """A batch was given up because its query was stopped: that is no failure."""

    line = "batch_stopped"
    names: Mapping[str, object]
    error: BaseException
    course: BatchCourse | None = None

    def facts(self) -> Mapping[str, object]:
        return {**self.names, "error": self.error}


def report_of(
    start: EpochStart,
    result: CommitResult,
    added: Mapping[str, AddedCount],
    dead_letters: int | None,
    seconds: Mapping[str, float],
    course: BatchCourse | None = None,
) -> BatchReport:
    """Return what to record of a batch that has ended well."""
    snapshot_id = None if result.snapshot is None else result.snapshot.snapshot_id
    if not result.replayed:
        return BatchReport(start.names, snapshot_id, added, dead_letters, seconds, course)
    is_by_hand = start.query.query_id == BY_HAND
    return BatchReplayed(start.names, snapshot_id, added, dead_letters, seconds, course, is_by_hand=is_by_hand)


def record_dead_letters(recorder: Recorder, start: EpochStart, dead_letters: Sequence[Part], storage: Storage) -> None:
    """Warn of rows that were kept aside, for each table that they were meant for, with the first reason."""
    for part in dead_letters:
        untold = part.row_count
        for found in count_reasons(part, storage):
            for table, reasons in found.items():
                first = next(iter(reasons))[:_LONGEST_REASON]
                recorder.record(DeadLettersKept(start.names, table, reasons.total(), part.table, first, reasons))
                untold -= reasons.total()
        if untold:  # in files that cannot be read
            recorder.record(DeadLettersKept(start.names, None, untold, part.table, None))


def failure_of(
    query: Query | None, names: Mapping[str, object], error: BaseException, course: BatchCourse | None = None
) -> BatchFailed | BatchStopped:
    """Return what to record of a batch that has not ended well.

    A stream without a name goes by the id of its query, where that is known.
    """
    if query is not None and query.query_id != BY_HAND and "stream" in names and names["stream"] is None:
        names = {**names, "stream": query.query_id}
    names = {name: value for name, value in names.items() if value is not None}
    is_stopped = query is not None and not query.is_active()
    return (BatchStopped if is_stopped else BatchFailed)(names, error, course)


@contextmanager
def recorded_failure(recorder: Recorder, event_of: Callable[[BaseException], Event]) -> Iterator[None]:
    """Record what ends this block other than well, before Spark says it in pages, and let it pass."""
    try:
        yield
    except BaseException as error:  # an interrupt ends a batch, too
        recorder.record(event_of(error))
        raise
