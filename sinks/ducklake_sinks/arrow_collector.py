"""The rows of a frame as Arrow, with fewer questions to the JVM than `DataFrame.toArrow`. Runs on the driver."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame


class ArrowCollector:
    """Collects frames of one schema.

    `toArrow` asks the JVM for settings and for the frame's schema, parses that and casts to it, every time. Here the
    first frame goes that way; of the others only the rows are asked for, and cast where they are not yet of its types.
    """

    def __init__(self) -> None:
        self._schema: pa.Schema | None = None

    def collect(self, frame: DataFrame) -> pa.Table:
        # A frame of Connect, which has no object of the JVM, takes any other name for that of a column.
        if self._schema is None or getattr(frame, "_jdf", None) is None:
            table = frame.toArrow()
            self._schema = table.schema
            return table
        classic: Any = frame  # Any: what `toArrow` rests on is not declared
        batches = classic._collect_as_arrow()  # noqa: SLF001 # see above
        table = pa.Table.from_batches(batches) if batches else self._schema.empty_table()
        return table if table.schema.equals(self._schema) else table.cast(self._schema)
