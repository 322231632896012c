"""What a sink remembers from batch to batch, by what ends it: a run, a definition, or the sink itself.

Runs on the driver. Everything here only saves work or gives a better message: a commit decides by the lake alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame

from ducklake_core.model import Column, TableId
from ducklake_sinks.collector import BatchSize
from ducklake_sinks.frame_schema import FrameSchema, json_of_schema
from ducklake_sinks.routes import TableKey

DEFINITIONS_SECONDS = 5.0  # for so long, what is known of tables and options is taken for true


@dataclass(slots=True)
class RunMemory:
    """What ends with a run of the query: that it has committed a batch, and the offsets where that ended."""

    committed_run_id: str | None = None
    offsets: list[Any] | None = None  # Any: JSON of the sources

    def has_committed(self, run_id: str) -> bool:
        return self.committed_run_id == run_id


class DefinitionMemory:
    """What ends with the definition of a table, or with the schema of the frames."""

    def __init__(self, seconds: Callable[[], float]) -> None:
        self._seconds = seconds
        self._read_at = -math.inf
        self._frame_schemas: dict[str, FrameSchema] = {}
        self._prepared: dict[TableKey, tuple[tuple[Column, ...], FrameSchema | None]] = {}

    def are_recent(self) -> bool:
        """Tell whether the lake's definitions were read a moment ago, and need not be read for this batch."""
        return self._seconds() - self._read_at < DEFINITIONS_SECONDS

    def note_reading(self) -> None:
        self._read_at = self._seconds()

    def expire(self) -> None:
        """Have definitions read anew for the next transaction."""
        self._read_at = -math.inf

    def schema_of(self, frame: DataFrame, key: str) -> FrameSchema:
        """Return a frame's schema as the lake has it; frames with the same `Destination.key` mostly have the same."""
        known, spelled = self._frame_schemas.get(key), json_of_schema(frame)
        if known is None or not known.is_of(frame, spelled):
            known = self._frame_schemas[key] = FrameSchema.of(frame.schema, spelled)
        return known

    def is_prepared(self, table: TableKey, columns: tuple[Column, ...], schema: FrameSchema | None) -> bool:
        """Tell whether a table with these columns was found fit for such rows before. `schema` None: dead letters."""
        return self._prepared.get(table) == (columns, schema)

    def note_prepared(self, table: TableKey, columns: tuple[Column, ...], schema: FrameSchema | None) -> None:
        self._prepared[table] = (columns, schema)


@dataclass(slots=True)
class TableMemory:
    """What stays as long as the sink runs, however tables are altered.

    `sizes`: of the last batch, by `Destination.key`. `ids`: of tables that were in the lake while this sink runs.
    `routed`: the names of those that rows were routed to. `with_invalid_text`, `with_small_files`: those that
    `LargeBatch` leaves to tasks. `unconfigured`: names of tables that the sink has created, and that lack their options
    still.
    """

    sizes: dict[str, BatchSize] = field(default_factory=dict)
    ids: dict[TableKey, TableId] = field(default_factory=dict)
    routed: dict[TableKey, str] = field(default_factory=dict)
    with_invalid_text: set[TableKey] = field(default_factory=set)
    with_small_files: set[TableKey] = field(default_factory=set)
    unconfigured: set[str] = field(default_factory=set)
