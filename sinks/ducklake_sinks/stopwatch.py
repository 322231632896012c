"""How a batch went: when its phases were, and which offsets it has. For its report and for traces. On the driver."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

MAX_PHASES = 100  # of a batch with many frames; what comes later is in the sums


@dataclass(frozen=True, slots=True)
class PhaseTime:
    """A phase of a batch: `start` is in seconds after the batch began."""

    name: str
    start: float
    seconds: float


@dataclass(frozen=True, slots=True)
class BatchCourse:
    """How a batch went, phase by phase. Offsets are what each source says, up to which it was read before and after.

    They are None where nobody knows.
    """

    seconds: float
    phases: tuple[PhaseTime, ...] = ()
    start_offsets: list[Any] | None = None  # Any: JSON of the sources
    end_offsets: list[Any] | None = None  # Any: see above


class Stopwatch:
    """How long a batch takes so far, and each phase of it."""

    def __init__(self, seconds: Callable[[], float]) -> None:
        self._seconds = seconds
        self._start = seconds()
        self._phases: list[PhaseTime] = []
        self._sums: defaultdict[str, float] = defaultdict(float)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        start = self._seconds()
        try:
            yield
        finally:
            seconds = self._seconds() - start
            self._sums[name] += seconds
            if len(self._phases) < MAX_PHASES:
                self._phases.append(PhaseTime(name, start - self._start, seconds))

    def read(self) -> dict[str, float]:
        """Return the seconds of each phase, and of all as `total`."""
        return {**self._sums, "total": self._seconds() - self._start}

    def phases(self) -> tuple[PhaseTime, ...]:
        """Return the phases that have ended, one by one."""
        return tuple(self._phases)
