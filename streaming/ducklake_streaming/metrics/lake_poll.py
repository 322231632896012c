"""Asks the catalog, by a connection of its own, how much there is and who does what. Runs on the driver, in a thread.

The number of statements does not grow with the tables, and none of them writes.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TypeVar

from ducklake_core import Lake, MaintenanceRun
from ducklake_core.clock import SYSTEM_CLOCK, Clock
from ducklake_core.errors import NoLakeFound
from ducklake_core.overview import SMALL_FILE_BYTES
from ducklake_streaming.metrics import declared as m
from ducklake_streaming.metrics.catalog_up import note_catalog
from ducklake_streaming.metrics.lake_series import (
    FAILED,
    Found,
    consumer_series,
    has_failed,
    run_times,
    runs_by_id,
    snapshot_series,
    table_series,
)
from ducklake_streaming.metrics.registry import Numbers
from ducklake_streaming.overview.lake_state import LakeState, read_state

Told = TypeVar("Told")
_MAX_RUNS = 1000  # rows of the record: all that the catalog keeps


class LakePoll:
    """Reads the lake once for each call. `state` is what it found at last, for who shows it; None: nothing yet."""

    def __init__(self, open_lake: Callable[[], Lake], numbers: Numbers, clock: Clock = SYSTEM_CLOCK) -> None:
        self.state: LakeState | None = None
        self._open_lake = open_lake
        self._numbers = numbers
        self._clock = clock
        self._lake: Lake | None = None
        self._runs = RunCounts(numbers, clock.now())

    def __call__(self) -> None:
        """Ask, and let the numbers be those of now. Raises what asking raises: the last numbers stand."""
        has_answered = False
        try:
            self._ask()
            has_answered = True
        except NoLakeFound:  # the first batch will create it
            has_answered = True
        finally:
            note_catalog(self._numbers, is_up=has_answered)
            if not has_answered:
                self.close()  # the next call begins anew

    def close(self) -> None:
        lake, self._lake = self._lake, None
        if lake is not None:
            lake.close()

    def _ask(self) -> None:
        lake = self._lake = self._lake or self._open_lake()
        now = self._clock.now()
        state = read_state(lake, SMALL_FILE_BYTES, now, self._timed, _MAX_RUNS)
        unread = self._timed("consumers", lake.unread_since)
        size = self._timed("size", lake.catalog_size_bytes)
        self._tell(
            {
                **table_series(state.totals.tables, self._numbers.tables.label, now),
                **snapshot_series(state.totals),
                **consumer_series(state.consumers, unread, state.totals, now),
                **run_times(state.runs),
                m.CATALOG_BYTES: {(): size},
            }
        )
        self._runs.count(state.runs)
        self._numbers.set(m.CATALOG_LAST_POLL, now.timestamp())
        self.state = state

    def _tell(self, found: Found) -> None:
        for metric, series in found.items():
            self._numbers.replace(metric, series)

    def _timed(self, name: str, question: Callable[[], Told]) -> Told:
        start = self._clock.seconds()
        try:
            return question()
        finally:
            self._numbers.observe(m.CATALOG_QUERY_SECONDS, self._clock.seconds() - start, name)


class RunCounts:
    """Counts runs of maintenance that have begun since the start, each once, whoever has made them."""

    def __init__(self, numbers: Numbers, since: datetime) -> None:
        self._numbers = numbers
        self._since = since
        self._counted: set[str] = set()

    def count(self, runs: tuple[MaintenanceRun, ...]) -> None:
        by_id = runs_by_id(runs)
        for run_id, run in by_id.items():
            operation = run[0].operation
            for outcome in ("done", FAILED):
                self._numbers.add(m.MAINTENANCE_RUNS, 0, operation, outcome)
            if run[0].started_at >= self._since and run_id not in self._counted:
                self._numbers.add(m.MAINTENANCE_RUNS, 1, operation, FAILED if has_failed(run) else "done")
                self._numbers.add(m.MAINTENANCE_SECONDS, sum(row.seconds for row in run), operation)
        self._counted = set(by_id)
