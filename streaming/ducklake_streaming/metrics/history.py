"""Numbers of the last hour, for small plots: each in buckets of some seconds, in a ring that never grows. No Spark.

Rows are added up in a bucket, of seconds the largest counts, of levels (lag, inlined rows) the last.
"""

from __future__ import annotations

import math
import threading
from array import array
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import TypeAlias

BUCKET_SECONDS = 5
BUCKETS = 3600 // BUCKET_SECONDS
MAX_SERIES = 100  # of a measure, 6 kB each; what comes later is not plotted
HELD_BUCKETS = 72  # for how long a value counts that no other has followed: six minutes
LEAST_SHOWN = 24  # buckets of a plot that has just begun: two minutes
POINTS = 120  # of a plot at most
RATE_BUCKETS = 6  # a rate of now is that of half a minute

Values: TypeAlias = Sequence[float | None]  # the oldest first; None: nothing is known


class Measure(StrEnum):
    """What is measured."""

    ROWS = "rows"
    BATCH_SECONDS = "batch_seconds"
    LAG_RECORDS = "lag_records"
    INLINED_ROWS = "inlined_rows"

    @property
    def is_level(self) -> bool:
        """Tell whether of several values the last counts."""
        return self in (Measure.LAG_RECORDS, Measure.INLINED_ROWS)


@dataclass(slots=True)
class _Ring:
    """The values of the last buckets; NaN for none. `first` and `last`: the numbers of the first and newest bucket."""

    first: int
    last: int
    values: array[float]

    @classmethod
    def starting_at(cls, bucket: int) -> _Ring:
        return cls(bucket, bucket, array("d", [math.nan]) * BUCKETS)

    def move_to(self, bucket: int) -> None:
        """Forget what was in the places of the buckets up to this one."""
        for passed in range(max(self.last + 1, bucket - BUCKETS + 1), bucket + 1):
            self.values[passed % BUCKETS] = math.nan
        self.last = max(self.last, bucket)

    def between(self, start: int, end: int) -> list[float]:
        """Return the buckets `(start, end]`."""
        is_kept = range(max(self.first, self.last - BUCKETS + 1), self.last + 1)
        return [self.values[one % BUCKETS] if one in is_kept else math.nan for one in range(start + 1, end + 1)]


class History:
    """What was measured in the last hour, by measure and name. Any thread may add and ask."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rings: dict[tuple[Measure, str], _Ring] = {}
        self._first: int | None = None  # bucket of all

    def add(self, measure: Measure, name: str, at: datetime, value: float) -> None:
        """Take notice of a value; a time before those that are known counts as the newest."""
        bucket = bucket_of(at)
        with self._lock:
            self._first = bucket if self._first is None else self._first
            ring = self._ring(measure, name, bucket)
            if ring is None:
                return
            ring.move_to(bucket)
            place = ring.last % BUCKETS
            ring.values[place] = combined(measure, ring.values[place], value)

    def values(self, measure: Measure, name: str, now: datetime) -> Values:
        """Return what a plot shows: all plots begin at the first value of any, and show an hour at most."""
        with self._lock:
            ring = self._rings.get((measure, name))
            if ring is None:
                return ()
            end = max(bucket_of(now), ring.last)  # clocks are set back at times
            shown = self._shown(end)
            found = ring.between(end - shown, end)
            begins = ring.first - (end - shown + 1)
        return thinned(measure, filled(measure, found, begins))

    def rate(self, name: str, now: datetime) -> float | None:
        """Return the rows per second of the last half minute, by the buckets that are over; None before one is."""
        end = bucket_of(now) - 1
        with self._lock:
            ring = self._rings.get((Measure.ROWS, name))
            if ring is None or ring.first > end:
                return None
            buckets = min(RATE_BUCKETS, end - ring.first + 1)
            found = ring.between(end - buckets, end)
        return sum(one for one in found if not math.isnan(one)) / (buckets * BUCKET_SECONDS)

    def span_seconds(self, now: datetime) -> int:
        """Return how much time plots show."""
        with self._lock:
            return self._shown(bucket_of(now)) * BUCKET_SECONDS

    def names(self, measure: Measure) -> tuple[str, ...]:
        """Return of what there are values."""
        with self._lock:
            return tuple(name for one, name in self._rings if one is measure)

    def keep_only(self, measure: Measure, names: Collection[str]) -> None:
        """Forget the others of a measure."""
        with self._lock:
            for key in [one for one in self._rings if one[0] is measure and one[1] not in names]:
                del self._rings[key]

    def _shown(self, end: int) -> int:
        return min(BUCKETS, max(LEAST_SHOWN, end - (end if self._first is None else self._first) + 1))

    def _ring(self, measure: Measure, name: str, bucket: int) -> _Ring | None:
        key = measure, name
        if key not in self._rings and sum(one is measure for one, _ in self._rings) < MAX_SERIES:
            self._rings[key] = _Ring.starting_at(bucket)
        return self._rings.get(key)


def bucket_of(at: datetime) -> int:
    """Return the number of the bucket of a time."""
    return int(at.timestamp() // BUCKET_SECONDS)


def combined(measure: Measure, before: float, value: float) -> float:
    """Return the value of a bucket that has one, or NaN, and gets another."""
    if math.isnan(before) or measure.is_level:
        return value
    return before + value if measure is Measure.ROWS else max(before, value)


def filled(measure: Measure, buckets: Sequence[float], begins: int) -> list[float | None]:
    """Return values of buckets: no rows are 0 from the first bucket on; a level, or a batch, counts for a while."""
    found: list[float | None] = []
    held, since = None, 0
    for number, value in enumerate(buckets):
        if not math.isnan(value):
            held, since = value, number
            found.append(value)
        elif measure is Measure.ROWS:
            found.append(0.0 if number >= begins else None)
        else:
            found.append(held if number - since <= HELD_BUCKETS else None)
    return found


def thinned(measure: Measure, values: Values) -> list[float | None]:
    """Return fewer points where there are too many: rows per second, the longest batch, the last level.

    The newest bucket of rows is not over: it would look like a fall, and is left out.
    """
    if measure is Measure.ROWS:
        values = [None if one is None else one / BUCKET_SECONDS for one in values[:-1]]
    width = -(-len(values) // POINTS)
    start = len(values) % width if width else 0
    groups = [values[at : at + width] for at in range(start, len(values), max(1, width))]
    return [_one_of(measure, [one for one in group if one is not None]) for group in groups]


def _one_of(measure: Measure, known: Sequence[float]) -> float | None:
    if not known:
        return None
    if measure is Measure.ROWS:
        return sum(known) / len(known)
    return known[-1] if measure.is_level else max(known)
