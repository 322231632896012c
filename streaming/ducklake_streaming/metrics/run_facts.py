"""What is known of the pipelines that this process runs, as values: what the page and its JSON are made of. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class State(StrEnum):
    """What a pipeline does now."""

    STARTING = "starting"
    RUNNING = "running"
    NO_CATALOG = "waiting for the catalog"
    NO_BROKER = "waiting for Kafka"
    FAILED = "failed"
    FENCED = "fenced"
    ENDED = "ended"

    @property
    def is_over(self) -> bool:
        """Tell whether nothing comes any more."""
        return self in (State.FAILED, State.FENCED, State.ENDED)


class Outcome(StrEnum):
    """What became of a batch."""

    COMMITTED = "committed"
    EMPTY = "empty"
    REPLAYED = "replayed"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Batch:
    """One micro-batch. `number` is None for rows without one, `snapshot_id` for a batch that made none."""

    at: datetime
    number: int | None
    outcome: Outcome
    rows: int = 0
    seconds: float | None = None
    snapshot_id: int | None = None


@dataclass(frozen=True, slots=True)
class Totals:
    """What a pipeline has done since the process began."""

    batches: int = 0
    rows: int = 0
    dead_letters: int = 0
    replayed: int = 0
    failed: int = 0


@dataclass(frozen=True, slots=True)
class PipelineFacts:
    """One pipeline now. `error` is the last one, in one line; `batches` are the last ones, the newest first."""

    name: str
    state: State
    totals: Totals
    batches: tuple[Batch, ...]
    error: str | None = None
    error_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Letters:
    """Dead letters of one batch and table, with the reason of the first. `table`: which they were meant for."""

    at: datetime
    pipeline: str
    table: str | None
    rows: int
    kept_in: str
    reason: str | None


@dataclass(frozen=True, slots=True)
class Flush:
    """Inlined rows of a table that went to files."""

    at: datetime
    table: str
    rows: int
    files: int
    size_bytes: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Warned:
    """Something that is worth a warning: the name of its event, and its log line's facts."""

    at: datetime
    event: str
    text: str


@dataclass(frozen=True, slots=True)
class RunFacts:
    """All of it at one moment; lists have the newest first."""

    started_at: datetime
    pipelines: tuple[PipelineFacts, ...]
    letters: tuple[Letters, ...]
    flushes: tuple[Flush, ...]
    warnings: tuple[Warned, ...]
