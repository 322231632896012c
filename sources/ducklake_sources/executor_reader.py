"""What a reader of changes is on executors. A process that only hands it on imports this: it imports nothing heavy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.datasource import InputPartition


class PartitionReader:
    """It has no state, and what it imports has no driver of a database."""

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        from ducklake_sources.partitions import rows_of  # noqa: PLC0415 # see the top

        return rows_of(partition)
