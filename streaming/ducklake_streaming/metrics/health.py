"""Whether a process does what it should, for probes of an orchestrator. Pure but for the clock. Runs on the driver."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from http import HTTPStatus

from ducklake_core.clock import SYSTEM_CLOCK, Clock
from ducklake_core.observe import CatalogAway, CommitMade, Event, Recorder
from ducklake_streaming.jobs.events import (
    PipelineEnded,
    PipelineFailed,
    PipelineRestarted,
    PipelineStarted,
    RecordsRead,
)
from ducklake_streaming.jobs.exit_codes import line_of_error
from ducklake_streaming.metrics import declared as m
from ducklake_streaming.metrics.answers import TEXT, Answer
from ducklake_streaming.metrics.registry import Numbers

STUCK_SECONDS = 600.0
_TRIGGERS = 3.0  # so many intervals of its trigger a query may be silent in any case
_MARGIN_SECONDS = 60.0  # from the end of a wait for the catalog to what is told of it
_SIGNS_OF_LIFE = (CatalogAway, CommitMade, RecordsRead)  # of a batch that takes long


class State(StrEnum):
    """What a pipeline's query does."""

    STARTING = "starting"  # or waiting for its input
    RUNNING = "running"
    ENDED = "ended"
    FAILED = "failed"


@dataclass(slots=True)
class _Pipeline:
    state: State
    silent_since: float
    stuck_seconds: float
    error: str = ""


class Health:
    """Hears what happens to queries, and answers `/livez` and `/readyz`. `redact` takes secrets out of answers."""

    def __init__(
        self,
        numbers: Numbers,
        stuck_seconds: float = STUCK_SECONDS,
        clock: Clock = SYSTEM_CLOCK,
        redact: Callable[[str], str] = str,
    ) -> None:
        self._numbers = numbers
        self._stuck = stuck_seconds
        self._clock = clock
        self._redact = redact
        self._pipelines: dict[str, _Pipeline] = {}
        self._lock = threading.Lock()

    def expect(
        self,
        pipeline: str,
        trigger_seconds: float = 0.0,
        state: State = State.STARTING,
        patience_seconds: float = 0.0,
    ) -> None:
        """Make a pipeline known that is to run. `patience_seconds`: how long it waits for a catalog that is away."""
        stuck = max(self._stuck, _TRIGGERS * trigger_seconds, patience_seconds + _MARGIN_SECONDS)
        with self._lock:
            self._pipelines[pipeline] = _Pipeline(state, self._clock.seconds(), stuck)

    def note_progress(self, pipeline: str) -> None:
        """Take notice that a query has told something: of a batch, or that there was none to do."""
        with self._lock:
            if pipeline in self._pipelines:
                self._pipelines[pipeline].silent_since = self._clock.seconds()

    def recorder(self, pipeline: str) -> Recorder:
        """Return who is to be told what happens to a pipeline."""
        return _PipelineRecorder(self, pipeline)

    def record(self, event: Event) -> None:
        match event:
            case PipelineStarted(name):
                self._move(name, State.RUNNING)
            case PipelineRestarted(name):
                self._move(name, State.STARTING)
            case PipelineEnded(name):
                self._move(name, State.ENDED)
            case PipelineFailed():
                self._move(event.pipeline, State.FAILED, line_of_error(event.error))

    def livez(self) -> Answer:
        """Answer 200 while every query that should run does, and tells progress."""
        return self._answer(self._why_not_alive())

    def readyz(self) -> Answer:
        """Answer 200 when the catalog can be reached and all queries have started."""
        return self._answer(self._why_not_ready())

    def _move(self, name: str, state: State, error: str = "") -> None:
        with self._lock:
            known = self._pipelines.get(name)
            if known is not None:
                known.state, known.error, known.silent_since = state, error, self._clock.seconds()

    def _why_not_alive(self) -> str | None:
        now = self._clock.seconds()
        with self._lock:
            for name, one in self._pipelines.items():
                if one.state is State.FAILED:
                    return f"pipeline '{name}' has failed: {one.error}"
                silent = now - one.silent_since
                if one.state is State.RUNNING and silent > one.stuck_seconds:
                    return f"pipeline '{name}' has told no progress for {silent:.0f} s"
        return None

    def _why_not_ready(self) -> str | None:
        if self._numbers.value(m.CATALOG_UP) == 0.0:  # None: nobody has asked it
            return "the catalog has not answered"
        with self._lock:
            waiting = [name for name, one in self._pipelines.items() if one.state is State.STARTING]
            failed = [name for name, one in self._pipelines.items() if one.state is State.FAILED]
        if failed:
            return f"pipeline '{failed[0]}' has failed"
        return f"pipeline '{waiting[0]}' has not started" if waiting else None

    def _answer(self, problem: str | None) -> Answer:
        if problem is None:
            return Answer(b"ok\n", TEXT)
        text = f"{self._redact(problem)}\n"  # an error may quote bytes that are no UTF-8
        return Answer(text.encode(errors="replace"), TEXT, HTTPStatus.SERVICE_UNAVAILABLE)


@dataclass(frozen=True, slots=True)
class _PipelineRecorder:
    """Tells of which pipeline a sign of life is."""

    health: Health
    pipeline: str

    def record(self, event: Event) -> None:
        if isinstance(event, _SIGNS_OF_LIFE):
            self.health.note_progress(self.pipeline)
        self.health.record(event)
