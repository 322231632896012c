"""Makes numbers of events: one recorder for each pipeline, which knows its name. Runs on the driver, in any thread.

It does nothing but add and set: what happens must not wait for who counts it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, NoReturn

from ducklake_core.clock import SYSTEM_CLOCK, Clock
from ducklake_core.errors import CatalogUnavailable, InvalidInput, StreamFenced
from ducklake_core.observe import (
    CatalogAway,
    CatalogBack,
    CommitDoubted,
    CommitMade,
    CommitRetried,
    ConflictRetried,
    EpochReplayed,
    Event,
    Flushed,
    Resolution,
)
from ducklake_sinks.events import CHANGE_OUTCOMES, BatchRebuilt, ChangesApplied, FlushFailed
from ducklake_sinks.report import BatchFailed, BatchReplayed, BatchReport, BatchStopped, DeadLettersKept
from ducklake_streaming.jobs.events import (
    ChangesRead,
    PipelineEnded,
    PipelineFailed,
    PipelineRestarted,
    PipelineStarted,
    RecordsRead,
)
from ducklake_streaming.jobs.exit_codes import find_own_error
from ducklake_streaming.kafka.events import RecordsMissing
from ducklake_streaming.metrics import declared as m
from ducklake_streaming.metrics.catalog_up import note_catalog
from ducklake_streaming.metrics.causes import FailureCause, LetterCause, failure_cause, letter_cause
from ducklake_streaming.metrics.registry import Numbers

CONFLICT, UNAVAILABLE = "conflict", "unavailable"  # causes of attempts that are repeated
OUTCOMES = ("committed", "replayed", "empty", "failed", "stopped")


class _EventCounter:
    """Counts events by their types. It stays in its process."""

    def __init__(self, numbers: Numbers) -> None:
        self._numbers = numbers
        self._acts: dict[type[Event], Callable[[Any], None]] = {}  # Any: each takes its own event

    def record(self, event: Event) -> None:
        act = self._acts.get(type(event))
        if act is not None:
            act(event)

    def __reduce__(self) -> NoReturn:
        raise InvalidInput(
            "metrics count in the process of the driver, and over Spark Connect batches are written in another one: "
            "use a classic session, or a sink without metrics"
        )


class LakeRecorder(_EventCounter):
    """Counts what happens to the lake, whoever does it: flushes and outages. There is one for all pipelines."""

    def __init__(self, numbers: Numbers) -> None:
        super().__init__(numbers)
        self._acts = {
            Flushed: self._flushed,
            FlushFailed: self._flush_failed,
            CatalogAway: self._away,
            CatalogBack: self._back,
        }
        numbers.add(m.CATALOG_OUTAGES, 0)
        numbers.add(m.SINK_FLUSH_FAILURES, 0, m.OTHER)

    def _flushed(self, event: Flushed) -> None:
        note_catalog(self._numbers, is_up=True)
        table = self._numbers.tables.label(event.table)
        self._numbers.add(m.SINK_FLUSHED_ROWS, event.rows, table)
        self._numbers.add(m.SINK_FLUSHED_BYTES, event.size_bytes, table)
        self._numbers.observe(m.SINK_FLUSH_SECONDS, event.seconds, table)

    def _flush_failed(self, event: FlushFailed) -> None:
        table = event.subject.get("table")
        label = m.OTHER if table is None else self._numbers.tables.label(str(table))
        self._numbers.add(m.SINK_FLUSH_FAILURES, 1, label)

    def _away(self, _: CatalogAway) -> None:
        note_catalog(self._numbers, is_up=False)

    def _back(self, _: CatalogBack) -> None:
        note_catalog(self._numbers, is_up=True)


class PipelineRecorder(_EventCounter):
    """Counts what happens to one pipeline, that is, to one sink and its query."""

    def __init__(self, numbers: Numbers, pipeline: str, clock: Clock = SYSTEM_CLOCK) -> None:
        super().__init__(numbers)
        self._pipeline = pipeline
        self._clock = clock
        self._letter_tables: set[str] = set()
        self._newest: datetime | None = None  # record of the batch that is written now
        self._changes: Mapping[str, int] = {}  # of that batch, and so are the next: they count when it is committed
        self._missing: dict[tuple[str, str], int] = {}
        self._batch_failed = False  # so that its query will fail of the same
        self._acts = {
            BatchReport: self._committed,
            BatchReplayed: self._replayed,
            BatchFailed: self._failed,
            BatchStopped: self._stopped,
            DeadLettersKept: self._letters,
            CommitMade: self._commit_ended,
            EpochReplayed: self._commit_ended,
            CommitRetried: self._commit_retried,
            BatchRebuilt: self._conflict,
            ConflictRetried: self._conflict,
            CommitDoubted: self._doubted,
            RecordsRead: self._records_read,
            RecordsMissing: self._records_missing,
            ChangesRead: self._changes_read,
            PipelineStarted: self._started,
            PipelineRestarted: self._restarted,
            PipelineEnded: self._ended,
            PipelineFailed: self._pipeline_failed,
            Flushed: self._flushed,
            ChangesApplied: self._changes_applied,
        }
        self._begin_at_zero()

    def _begin_at_zero(self) -> None:
        """Make every series known whose labels are: Prometheus sees no increase of one that begins above 0."""
        for metric, values in _KNOWN_LABELS.items():
            for value in values:
                self._numbers.add(metric, 0, self._pipeline, *value)
        for gauge in (m.SINK_RUNNING, m.SINK_ENDED, m.SINK_FENCED):
            self._numbers.set(gauge, 0, self._pipeline)

    # ---- batches

    def _committed(self, event: BatchReport) -> None:
        self._end_batch("empty" if event.snapshot_id is None else "committed", event.seconds)
        for name, added in event.added.items():
            if name in self._letter_tables:
                continue
            labels = self._pipeline, self._numbers.tables.label(name)
            self._numbers.add(m.SINK_ROWS, added.inlined_rows + added.file_rows, *labels)
            self._numbers.add(m.SINK_INLINED_ROWS, added.inlined_rows, *labels)
            self._numbers.add(m.SINK_FILES, added.files, *labels)
            self._numbers.add(m.SINK_BYTES, added.file_bytes, *labels)
            self._numbers.add(m.SINK_FLUSH_FAILURES, 0, labels[1])  # known before the first flush
        self._count_read()
        if self._newest is not None:
            lag = (self._clock.now() - self._newest).total_seconds()
            self._numbers.set(m.SINK_EVENT_TIME_LAG, max(0.0, lag), self._pipeline)

    def _changes_applied(self, event: ChangesApplied) -> None:
        labels = self._pipeline, self._numbers.tables.label(event.table)
        for outcome in CHANGE_OUTCOMES:
            self._numbers.add(m.SINK_UPSERT_ROWS, getattr(event.report, outcome), *labels, outcome)
        self._numbers.add(m.SINK_UPSERT_FILES, event.report.files_opened, *labels)

    def _count_read(self) -> None:
        """Count what was read for a batch: Spark reads one that fails again, and it counts once."""
        for change_type, count in self._changes.items():
            self._numbers.add(m.SOURCE_ROWS, count, self._pipeline, change_type)
        for place, records in self._missing.items():
            self._numbers.add(m.SINK_KAFKA_MISSING, records, self._pipeline, *place)
        self._forget_read()

    def _forget_read(self) -> None:
        self._changes, self._missing = {}, {}

    def _replayed(self, event: BatchReplayed) -> None:
        self._forget_read()
        self._end_batch("replayed", event.seconds)

    def _end_batch(self, outcome: str, seconds: Mapping[str, float]) -> None:
        self._batch_failed = False
        self._numbers.add(m.SINK_BATCHES, 1, self._pipeline, outcome)
        self._numbers.set(m.SINK_LAST_COMMIT, self._now(), self._pipeline)
        for phase, value in seconds.items():
            self._numbers.observe(m.SINK_PHASE_SECONDS, value, self._pipeline, phase)

    def _flushed(self, event: Flushed) -> None:
        self._numbers.observe(m.SINK_PHASE_SECONDS, event.seconds, self._pipeline, "flush")

    def _failed(self, event: BatchFailed) -> None:
        self._batch_failed = True
        self._forget_read()
        self._numbers.add(m.SINK_BATCHES, 1, self._pipeline, "failed")
        self._note_failure(event.error)

    def _stopped(self, _: BatchStopped) -> None:
        self._forget_read()
        self._numbers.add(m.SINK_BATCHES, 1, self._pipeline, "stopped")

    def _letters(self, event: DeadLettersKept) -> None:
        self._letter_tables.add(event.kept_in)
        causes: Counter[LetterCause] = Counter()
        for reason, count in event.reasons.items():
            causes[letter_cause(reason)] += count
        causes[LetterCause.OTHER] += event.rows - causes.total()
        for cause, count in causes.items():
            self._numbers.add(m.SINK_DEAD_LETTERS, count, self._pipeline, cause)

    def _records_read(self, event: RecordsRead) -> None:
        self._newest = event.newest

    def _changes_read(self, event: ChangesRead) -> None:
        self._changes = event.rows

    def _records_missing(self, event: RecordsMissing) -> None:
        place = event.topic, str(event.partition)
        self._missing[place] = event.records or 1  # one at least where nobody can know
        self._numbers.add(m.SINK_KAFKA_MISSING, 0, self._pipeline, *place)  # known before the batch ends

    # ---- commits

    def _commit_ended(self, _: Event) -> None:
        self._numbers.add(m.SINK_COMMIT_ATTEMPTS, 1, self._pipeline)
        note_catalog(self._numbers, is_up=True)

    def _commit_retried(self, event: CommitRetried) -> None:
        self._repeat(UNAVAILABLE if isinstance(event.cause, CatalogUnavailable) else CONFLICT)

    def _conflict(self, _: Event) -> None:
        self._repeat(CONFLICT)

    def _repeat(self, cause: str) -> None:
        self._numbers.add(m.SINK_COMMIT_ATTEMPTS, 1, self._pipeline)
        self._numbers.add(m.SINK_COMMIT_RETRIES, 1, self._pipeline, cause)

    def _doubted(self, event: CommitDoubted) -> None:
        self._numbers.add(m.SINK_COMMITS_UNKNOWN, 1, self._pipeline, event.resolution)

    # ---- the query

    def _started(self, _: PipelineStarted) -> None:
        self._batch_failed = False
        self._numbers.set(m.SINK_RUNNING, 1, self._pipeline)
        self._numbers.set(m.SINK_ENDED, 0, self._pipeline)
        self._numbers.set(m.SINK_FENCED, 0, self._pipeline)
        self._numbers.set(m.SINK_LAST_PROGRESS, self._now(), self._pipeline)

    def _restarted(self, event: PipelineRestarted) -> None:
        self._query_failed(event.reason)

    def _ended(self, _: PipelineEnded) -> None:
        self._numbers.set(m.SINK_ENDED, 1, self._pipeline)
        self._numbers.set(m.SINK_RUNNING, 0, self._pipeline)

    def _pipeline_failed(self, event: PipelineFailed) -> None:
        self._query_failed(event.error)

    def _query_failed(self, error: BaseException) -> None:
        """Note that a query has ended by an error, which may be that of its batch: then it is counted."""
        self._numbers.set(m.SINK_RUNNING, 0, self._pipeline)
        if not self._batch_failed:
            self._note_failure(error)

    def _note_failure(self, error: BaseException) -> None:
        self._numbers.add(m.SINK_FAILURES, 1, self._pipeline, failure_cause(error))
        if isinstance(find_own_error(error), StreamFenced):
            self._numbers.set(m.SINK_FENCED, 1, self._pipeline)

    def _now(self) -> float:
        return self._clock.now().timestamp()


_KNOWN_LABELS: dict[m.Metric, list[tuple[str, ...]]] = {
    m.SINK_INPUT_ROWS: [()],
    m.SINK_COMMIT_ATTEMPTS: [()],
    m.SOURCE_LOST_SNAPSHOTS: [()],
    m.SINK_BATCHES: [(outcome,) for outcome in OUTCOMES],
    m.SINK_FAILURES: [(cause,) for cause in FailureCause],
    m.SINK_COMMIT_RETRIES: [(CONFLICT,), (UNAVAILABLE,)],
    m.SINK_COMMITS_UNKNOWN: [(resolution,) for resolution in Resolution],
    m.SINK_DEAD_LETTERS: [(cause,) for cause in LetterCause],
}
