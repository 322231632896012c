"""Where the rows of a frame go: to one table, or to those that a column names. Runs on the driver."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from pyspark.sql import DataFrame

from ducklake_core.errors import InvalidInput
from ducklake_sinks.change_rules import ChangeRules
from ducklake_sinks.frame_schema import FrameSchema
from ducklake_sinks.options import Route
from ducklake_sinks.routes import COMPUTED_ROUTE


@dataclass(frozen=True, slots=True)
class Destination:
    """A frame, and its table or else the column of it that names the table of each row.

    `recorded`: gives the same rows with the record of each (`RECORD_COLUMN`), which is read only when one is bad.
    `is_letters`: the rows are dead letters. `changes`: the rows are changes, applied by these rules. `runs`: how the
    frame was run so far, each time.
    """

    frame: DataFrame
    table: str | None
    route: str | None
    recorded: Callable[[], DataFrame] | None = None
    is_letters: bool = False
    changes: ChangeRules | None = None
    runs: list[str] = field(default_factory=list)

    @property
    def key(self) -> str:
        """What all frames with the same destination share."""
        return self.table or COMPUTED_ROUTE

    def stored(self, schema: FrameSchema) -> FrameSchema:
        """Return what the table has of the frame's columns."""
        return schema if self.changes is None else self.changes.stored(schema)

    def with_records(self) -> Destination | None:
        """Return the same destination for the rows with their records; None where nobody knows them."""
        if self.recorded is None:
            return None
        frame = self.recorded()
        return replace(self, frame=frame if self.changes is None else self.changes.marked(frame), recorded=None)


def find_destination(frame: DataFrame, table: str | None, route: Route | None) -> Destination:
    """Return where rows go; a route that must be computed becomes a column. Raises InvalidInput where nobody says."""
    if table is not None:
        return Destination(frame, table, None)
    if route is None:
        raise InvalidInput("no table is named: give the sink a table or a route, or name one in append(frame, table)")
    if COMPUTED_ROUTE in frame.columns:
        return Destination(frame, None, COMPUTED_ROUTE)
    if not isinstance(route, str):
        return Destination(frame.withColumn(COMPUTED_ROUTE, route(frame).cast("string")), None, COMPUTED_ROUTE)
    if route not in frame.columns:
        raise InvalidInput(f"the route '{route}' is no column of the data, which has {', '.join(frame.columns)}")
    return Destination(frame, None, route)
