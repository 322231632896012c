"""A recorder that keeps what the pipelines of this process do now, and the last things that happened. On the driver.

Everything is bounded: names, lists and the length of texts. It keeps no error, only its line, without secrets.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TypeVar

from ducklake_core.clock import Now, utc_now
from ducklake_core.log_lines import line_of
from ducklake_core.observe import CatalogAway, CatalogBack, CommitMade, EpochReplayed, Event, Flushed, Recorder
from ducklake_sinks.report import BatchFailed, BatchReplayed, BatchReport, BatchStopped, DeadLettersKept
from ducklake_streaming.jobs.events import PipelineEnded, PipelineFailed, PipelineRestarted, PipelineStarted
from ducklake_streaming.jobs.exit_codes import ExitCode, exit_code_of, line_of_error
from ducklake_streaming.kafka.events import BrokerAway, BrokerBack
from ducklake_streaming.metrics.history import History, Measure
from ducklake_streaming.metrics.run_facts import (
    Batch,
    Flush,
    Letters,
    Outcome,
    PipelineFacts,
    RunFacts,
    State,
    Totals,
    Warned,
)

KEPT_BATCHES, KEPT_THINGS, MAX_PIPELINES = 5, 10, 100
LONGEST_TEXT = 500
Kept = TypeVar("Kept")


@dataclass(slots=True)
class _Pipeline:
    """What is kept of a pipeline; `state` is what it would be if all servers answered."""

    state: State = State.STARTING
    is_broker_away: bool = False
    totals: Totals = field(default_factory=Totals)
    batches: deque[Batch] = field(default_factory=lambda: deque(maxlen=KEPT_BATCHES))
    error: str | None = None
    error_at: datetime | None = None


class RunState:
    """Any thread may record, any thread may ask. `redact` takes secrets out of texts.

    It is itself the recorder of what happens to the lake, whoever does it, and of warnings: it is told everything. Each
    pipeline has a recorder of its own beside it, which knows its name.
    """

    def __init__(self, history: History | None = None, now: Now = utc_now, redact: Callable[[str], str] = str) -> None:
        self._lock = threading.Lock()
        self._now, self._redact = now, redact
        self._started_at = now()
        self._history = History() if history is None else history
        self._pipelines: dict[str, _Pipeline] = {}
        self._is_catalog_away = False
        self._letters: deque[Letters] = deque(maxlen=KEPT_THINGS)
        self._flushes: deque[Flush] = deque(maxlen=KEPT_THINGS)
        self._warnings: dict[tuple[str, ...], Warned] = {}  # the last of those that are alike

    def facts(self) -> RunFacts:
        """Return all that is known now."""
        with self._lock:
            return RunFacts(
                self._started_at,
                tuple(self._facts_of(name, one) for name, one in self._pipelines.items()),
                _newest_first(self._letters),
                _newest_first(self._flushes),
                _newest_first(self._warnings.values()),
            )

    def expect(self, pipeline: str) -> None:
        """Make a pipeline known before anything happens to it."""
        with self._lock:
            self._of(pipeline)

    def recorder(self, pipeline: str) -> Recorder:
        """Make a pipeline known, and return who is to be told what happens to it."""
        self.expect(pipeline)
        return _PipelineRecorder(self, pipeline)

    def record(self, event: Event) -> None:
        """Take notice of what happened to the lake, and of what is worth a warning."""
        at = self._now()
        with self._lock:
            if isinstance(event, Flushed) and event.rows:
                size, seconds = event.size_bytes, event.seconds
                self._flushes.append(Flush(at, event.table, event.rows, event.files, size, seconds))
            if isinstance(event, CatalogAway | CatalogBack | CommitMade | EpochReplayed | Flushed):
                self._is_catalog_away = isinstance(event, CatalogAway)
            if event.severity() >= logging.WARNING and not isinstance(event, DeadLettersKept):
                self._warn(event, at)

    def note_catalog_answer(self) -> None:
        """Take notice that the catalog has answered: who gave up waiting for it does not say so."""
        with self._lock:
            self._is_catalog_away = False

    def record_of(self, name: str, event: Event) -> None:
        """Take notice of what happened to a pipeline."""
        at = self._now()
        with self._lock:
            self._take(name, self._of(name), event, at)

    def _take(self, name: str, pipeline: _Pipeline, event: Event, at: datetime) -> None:
        match event:
            case BatchReport():
                self._add_batch(name, event, at)
            case BatchFailed(error=error):
                self._fail(pipeline, error, at)
            case DeadLettersKept():
                self._add_letters(name, event, at)
            case BrokerAway() | BrokerBack():
                pipeline.is_broker_away = isinstance(event, BrokerAway)
            case PipelineStarted():
                pipeline.state = State.RUNNING
            case PipelineEnded() | BatchStopped():
                pipeline.state = State.ENDED
            case PipelineRestarted(reason=reason):
                self._note_error(pipeline, reason, at)
                pipeline.state = State.STARTING
            case PipelineFailed(error=error):
                self._end(pipeline, error, at)

    def _warn(self, event: Event, at: datetime) -> None:
        """Keep a warning in the place of the last one that was alike: one outage must not hide all else."""
        facts = event.facts()
        text = line_of("", facts).strip()
        alike = (text,) if event.repeats_by is None else tuple(str(facts.get(name)) for name in event.repeats_by)
        key = event.line, *alike
        self._warnings.pop(key, None)
        self._warnings[key] = Warned(at, event.line, self._short(text))
        if len(self._warnings) > KEPT_THINGS:
            del self._warnings[next(iter(self._warnings))]

    # ---- batches

    def _add_batch(self, name: str, report: BatchReport, at: datetime) -> None:
        pipeline, seconds = self._of(name), report.seconds.get("total")
        is_replay = isinstance(report, BatchReplayed)
        rows = 0 if is_replay else report.rows
        outcome = Outcome.EMPTY if report.snapshot_id is None else Outcome.COMMITTED
        outcome = Outcome.REPLAYED if is_replay else outcome
        pipeline.batches.append(Batch(at, _number(report.names), outcome, rows, seconds, report.snapshot_id))
        pipeline.totals = _with_batch(pipeline.totals, rows, report.dead_letters or 0, is_replay=is_replay)
        pipeline.state, pipeline.is_broker_away = State.RUNNING, False
        self._is_catalog_away = False
        self._history.add(Measure.ROWS, name, at, rows)
        if seconds is not None:
            self._history.add(Measure.BATCH_SECONDS, name, at, seconds)

    def _fail(self, pipeline: _Pipeline, error: BaseException, at: datetime) -> None:
        """Take notice of a batch that failed; with it ends its query, unless a supervisor begins it again."""
        pipeline.totals = replace(pipeline.totals, failed=pipeline.totals.failed + 1)
        self._end(pipeline, error, at)

    def _end(self, pipeline: _Pipeline, error: BaseException, at: datetime) -> None:
        is_fenced = exit_code_of(error) is ExitCode.FENCED
        pipeline.state = State.FENCED if is_fenced else State.FAILED
        self._note_error(pipeline, error, at)

    def _note_error(self, pipeline: _Pipeline, error: BaseException, at: datetime) -> None:
        pipeline.error, pipeline.error_at = self._short(line_of_error(error)), at

    def _add_letters(self, name: str, event: DeadLettersKept, at: datetime) -> None:
        reason = None if event.reason is None else self._short(event.reason)
        self._letters.append(Letters(at, name, event.table, event.rows, event.kept_in, reason))

    def _of(self, name: str) -> _Pipeline:
        """Return a pipeline, a new one in place of the oldest where there are too many."""
        if name not in self._pipelines:
            if len(self._pipelines) >= MAX_PIPELINES:
                del self._pipelines[next(iter(self._pipelines))]
            self._pipelines[name] = _Pipeline()
        return self._pipelines[name]

    def _facts_of(self, name: str, one: _Pipeline) -> PipelineFacts:
        state = one.state
        if not state.is_over and (self._is_catalog_away or one.is_broker_away):
            state = State.NO_CATALOG if self._is_catalog_away else State.NO_BROKER
        return PipelineFacts(name, state, one.totals, _newest_first(one.batches), one.error, one.error_at)

    def _short(self, text: str) -> str:
        """Return a text without secrets, and not too long; these are taken out first, while they are whole."""
        text = self._redact(text)
        return text if len(text) <= LONGEST_TEXT else text[: LONGEST_TEXT - 1] + "…"


@dataclass(frozen=True, slots=True)
class _PipelineRecorder:
    """Tells of which pipeline it is."""

    state: RunState
    pipeline: str

    def record(self, event: Event) -> None:
        self.state.record_of(self.pipeline, event)


def _number(names: Mapping[str, object]) -> int | None:
    number = names.get("batch")
    return number if isinstance(number, int) else None


def _with_batch(totals: Totals, rows: int, dead_letters: int, *, is_replay: bool) -> Totals:
    return replace(
        totals,
        batches=totals.batches + 1,
        rows=totals.rows + rows,
        dead_letters=totals.dead_letters + (0 if is_replay else dead_letters),
        replayed=totals.replayed + is_replay,
    )


def _newest_first(kept: Iterable[Kept]) -> tuple[Kept, ...]:
    return tuple(kept)[::-1]
