"""The rows of a small batch with the record of each: read once more, and only when one is bad. Runs on the driver."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import pyarrow as pa

from ducklake_sinks.collector import collect_all
from ducklake_sinks.destination import Destination
from ducklake_sinks.frame_schema import FrameSchema
from ducklake_sinks.routes import split_by_route

ReadRecorded: TypeAlias = Callable[[], pa.Table | None]


class RecordedRows:
    """Reads a destination's rows with their records, once at most; None where nobody knows them, or too many."""

    def __init__(self, destination: Destination) -> None:
        self._destination = destination
        self._rows: pa.Table | None = None
        self._is_read = False

    def all(self) -> pa.Table | None:
        if not self._is_read:
            self._is_read = True
            recorded = self._destination.with_records()
            if recorded is not None:
                self._rows = collect_all(recorded.frame, FrameSchema.of(recorded.frame.schema))
                recorded.runs.append("records")
        return self._rows

    def of_table(self, name: str | None) -> pa.Table | None:
        """Return the rows whose route has this value."""
        rows, route = self.all(), self._destination.route
        if rows is None or route is None:
            return rows
        return dict(split_by_route(rows, route)).get(name)
