"""The rows of a frame as Arrow, with fewer questions to the JVM than `DataFrame.toArrow`. Runs on the driver."""

from __future__ import annotations

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
        fetch = getattr(frame, "_collect_as_arrow", None)  # what `toArrow` rests on; the frames of Connect have none
        if self._schema is None or fetch is None:
            table = frame.toArrow()
            self._schema = table.schema
            return table
        batches = fetch()
        table = pa.Table.from_batches(batches) if batches else self._schema.empty_table()
        return table if table.schema.equals(self._schema) else table.cast(self._schema)
