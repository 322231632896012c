"""How many records of a batch are bad: counted by the same Spark job that reads the good ones. Runs on the driver."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F  # noqa: N812 # Spark's own convention

from ducklake_core.clock import SYSTEM_CLOCK, Clock
from ducklake_streaming.formats.decoder import ERROR, STALE

_ERRORS, _STALE = f"count({ERROR}) AS errors", f"count_if({STALE}) AS stale"
PATIENCE_SECONDS = 1.0  # some versions of Spark tell it a moment after the job has ended


@dataclass(frozen=True, slots=True)
class RecordCounts:
    """Records that have an error, and those that the decoder must learn a schema for."""

    errors: int
    stale: int


def count_records(decoded: DataFrame) -> RecordCounts:
    """Return the numbers by a job of their own."""
    [row] = decoded.agg(F.expr(_ERRORS), F.expr(_STALE)).collect()
    return RecordCounts(*row)


class CountedRecords:
    """Records that are counted while they are read; `frame` is to be run once."""

    def __init__(self, decoded: DataFrame, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._observation = Observation()
        self._decoded = decoded
        self.frame = decoded.observe(self._observation, F.expr(_ERRORS), F.expr(_STALE))

    def counts(self, runs: int) -> RecordCounts:
        """Return the numbers after the frame was run so many times.

        Spark keeps those of the first run, which need not have read everything: after more runs, or where Spark has
        left the count out of its plan, all records are counted by another job.
        """
        told = self._told() if runs == 1 else {}
        if "errors" not in told or "stale" not in told:
            return count_records(self._decoded)
        return RecordCounts(told["errors"], told["stale"])

    def _told(self) -> dict[str, Any]:  # Any: Spark's values
        deadline = self._clock.seconds() + PATIENCE_SECONDS
        future = self._observation._jo.future()  # type: ignore[union-attr] # noqa: SLF001 # `get` would wait for ever
        while not future.isCompleted():
            if self._clock.seconds() > deadline:
                return {}
            self._clock.sleep(0.002)
        try:
            return self._observation.get
        except Py4JError:  # Spark has left the count out of its plan, such as for WHERE 1 = 0
            return {}
