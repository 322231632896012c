"""Which of many equal log lines are written: the first, then ever fewer, each with how many there were. No Spark.

What is not written is counted, and the last of it comes in the end: nothing that happened is missing in the counts.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from ducklake_core.clock import SYSTEM_CLOCK

FIRST_SECONDS, LONGEST_SECONDS = 10.0, 600.0  # from one line to the next: at first, and at most
OVER_SECONDS = 60.0  # the most of what was over in between: when it begins again, that is soon said
MAX_SERIES = 1000

Line = TypeVar("Line")


@dataclass(frozen=True, slots=True)
class Repeated:
    """How often something has happened so far, and the sums of what it counted."""

    times: int
    totals: Mapping[str, int] = field(default_factory=dict)

    def facts(self) -> dict[str, int]:
        """Return what a line says of it; nothing of what has happened once."""
        return {"times": self.times, **{f"total_{n}": v for n, v in self.totals.items()}} if self.times > 1 else {}


@dataclass(slots=True)
class _Series(Generic[Line]):
    said_at: float
    seen_at: float
    gap: float = FIRST_SECONDS
    times: int = 0
    totals: Counter[str] = field(default_factory=Counter)
    held_back: Line | None = None
    is_over: bool = False  # whether the line that is held back says that it is over
    is_open: bool = False  # whether somebody has read that it began, and not that it is over

    def repeated(self) -> Repeated:
        return Repeated(self.times, dict(self.totals))

    def say(self, now: float) -> Repeated:
        self.said_at, self.held_back, self.is_open = now, None, not self.is_over
        most = OVER_SECONDS if self.is_over else LONGEST_SECONDS
        self.gap = min(2 * self.gap, most) if self.times > 1 else self.gap
        return self.repeated()


class Spacing(Generic[Line]):
    """Says which lines to write. Lines with one key are one series; after ten quiet minutes it begins anew."""

    def __init__(self, seconds: Callable[[], float] = SYSTEM_CLOCK.seconds) -> None:
        self._seconds = seconds
        self._lock = threading.Lock()
        self._series: dict[Hashable, _Series[Line]] = {}

    def add(self, key: Hashable, line: Line, counts: Mapping[str, int] | None = None) -> Repeated | None:
        """Count a line; return how often it was if it is to be written now, and None if it is held back."""
        now = self._seconds()
        with self._lock:
            series = self._at(key, now)
            series.times += 1
            series.totals.update(counts or {})
            series.seen_at, series.is_over = now, False
            if series.times == 1 or now - series.said_at >= series.gap:
                return series.say(now)
            series.held_back = line
            return None

    def end(self, key: Hashable, line: Line) -> Repeated | None:
        """Take notice that what a series tells is over, as `line` says; return how often it was.

        None: the line is held back. It is no news to who has not read that it began again.
        """
        with self._lock:
            series = self._series.get(key)
            if series is None:
                return Repeated(1)
            repeated = Repeated(1) if series.held_back is None else series.repeated()
            series.gap = min(series.gap, OVER_SECONDS)
            if series.is_open:
                series.held_back, series.is_open = None, False
                return repeated
            if series.held_back is not None:  # what has happened since is counted by the last line
                series.held_back, series.is_over = line, True
            return None

    def due(self) -> list[tuple[Line, Repeated]]:
        """Return the lines that were held back and are to be written now, because no other of their series came."""
        if not self._series:  # as nearly always: each event asks
            return []
        now = self._seconds()
        with self._lock:
            late = [one for one in self._series.values() if one.held_back is not None and now - one.said_at >= one.gap]
            return [(one.held_back, one.say(now)) for one in late if one.held_back is not None]

    def held_back(self) -> list[tuple[Line, Repeated]]:
        """Return all lines that were held back: they are to be written now, for nothing may come any more."""
        now = self._seconds()
        with self._lock:
            held = [one for one in self._series.values() if one.held_back is not None]
            return [(one.held_back, one.say(now)) for one in held if one.held_back is not None]

    def clear(self) -> None:
        """Forget every line."""
        with self._lock:
            self._series.clear()

    def _at(self, key: Hashable, now: float) -> _Series[Line]:
        """Return the series of a key, as the newest of all; a new one takes the place of the oldest if need be."""
        series = self._series.pop(key, None)
        if series is None or (series.held_back is None and now - series.seen_at >= LONGEST_SECONDS):
            series = _Series(now, now)
        if len(self._series) >= MAX_SERIES:
            del self._series[next(iter(self._series))]
        self._series[key] = series
        return series
