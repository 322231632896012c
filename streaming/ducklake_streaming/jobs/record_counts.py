"""How many records of a batch are bad: counted by the same Spark job that reads the good ones. Runs on the driver."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F  # noqa: N812 # Spark's own convention

from ducklake_core.clock import SYSTEM_CLOCK, Clock
from ducklake_core.feed.change_types import CHANGE_TYPES
from ducklake_streaming.formats.decoder import ERROR, STALE

# What is counted of records, by the names and in the order of `RecordCounts`; an expression is one question to the JVM.
_COUNTS = (
    f"count({ERROR}) AS errors",
    f"count_if({STALE}) AS stale",
    "max(unix_micros(timestamp)) AS newest_micros",
    f"sum(CASE WHEN {ERROR} IS NOT NULL THEN length(value) END) AS error_bytes",
)
CHANGE_TYPE = "_change_type"  # a column of change feeds
_CHANGE_COUNTS = tuple(f"count_if({CHANGE_TYPE} = '{name}') AS {name}" for name in CHANGE_TYPES)
FEW_ERRORS, FEW_BYTES = 1_000, 8 * 2**20
PATIENCE_SECONDS = 1.0  # some versions of Spark tell it a moment after the job has ended


@dataclass(frozen=True, slots=True)
class RecordCounts:
    """Records that have an error, and those that the decoder must learn a schema for.

    `newest_micros`: the time of the newest record, in microseconds since 1970; None: there is no record. `error_bytes`:
    of the values of those that have an error; None: they have none.
    """

    errors: int
    stale: int
    newest_micros: int | None = None
    error_bytes: int | None = None

    @property
    def are_errors_few(self) -> bool:
        """Tell whether the driver may take all records that have an error."""
        return self.errors <= FEW_ERRORS and (self.error_bytes or 0) <= FEW_BYTES

    @property
    def newest(self) -> datetime | None:
        """When the newest record was written."""
        micros = self.newest_micros
        return None if micros is None else datetime.fromtimestamp(0, UTC) + timedelta(microseconds=micros)


def count_records(decoded: DataFrame) -> RecordCounts:
    """Return the numbers by a job of their own."""
    [row] = decoded.agg(*map(F.expr, _COUNTS)).collect()
    return RecordCounts(*row)


class CountedRecords:
    """Records that are counted while they are read; `frame` is to be run once."""

    def __init__(self, decoded: DataFrame, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._observation = Observation()
        self._decoded = decoded
        self.frame = decoded.observe(self._observation, *map(F.expr, _COUNTS))

    def counts(self, runs: int) -> RecordCounts:
        """Return the numbers after the frame was run so many times.

        Spark keeps those of the first run, which need not have read everything: after more runs, or where Spark has
        left the count out of its plan, all records are counted by another job.
        """
        told = _told(self._observation, self._clock) if runs == 1 else {}
        if "errors" not in told or "stale" not in told:
            return count_records(self._decoded)
        return RecordCounts(told["errors"], told["stale"], told.get("newest_micros"), told.get("error_bytes"))


class CountedChanges:
    """Changes of a table that are counted by their type while they are read; `frame` is to be run once."""

    def __init__(self, changes: DataFrame, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._observation = Observation()
        self.frame = changes.observe(self._observation, *map(F.expr, _CHANGE_COUNTS))

    def counts(self, runs: int) -> dict[str, int] | None:
        """Return how many there are of each type; None where Spark cannot tell, as after a frame was run twice."""
        told = _told(self._observation, self._clock) if runs == 1 else {}
        return {name: int(count) for name, count in told.items() if count} or None


def _told(observation: Observation, clock: Clock) -> dict[str, Any]:  # Any: Spark's values
    """Return what was observed, nothing where Spark does not tell in time."""
    deadline = clock.seconds() + PATIENCE_SECONDS
    future = observation._jo.future()  # type: ignore[union-attr] # noqa: SLF001 # `get` would wait for ever
    while not future.isCompleted():
        if clock.seconds() > deadline:
            return {}
        clock.sleep(0.002)
    try:
        return observation.get
    except Py4JError:  # Spark has left the count out of its plan, such as for WHERE 1 = 0
        return {}
