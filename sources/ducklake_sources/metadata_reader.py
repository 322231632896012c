"""Reads what is in a lake as a batch: `option("metadata", "snapshots")`.

All of it is read where Spark plans, and travels to one task: executors need no catalog.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from ducklake_core import Lake
from ducklake_core.metadata_tables import find_metadata, read_metadata
from ducklake_sources.options import ALL_TABLES, SourceOptions
from ducklake_sources.source_feed import open_lake
from ducklake_sources.spark_schema import SparkBatches


class MetadataPartition(InputPartition):
    """All rows, as Arrow's stream."""

    def __init__(self, rows: bytes) -> None:
        super().__init__(None)
        self.rows = rows

    def __repr__(self) -> str:
        return f"MetadataPartition({len(self.rows)} bytes)"


class MetadataReader(DataSourceReader):
    """Reads one table of metadata, when a query of its DataFrame is planned."""

    def __init__(self, options: SourceOptions) -> None:
        self.options = options

    def partitions(self) -> Sequence[InputPartition]:
        """Read everything. Runs where Spark plans."""
        table, name = self.options.table, self.options.metadata or ""
        with open_lake(self.options, Lake) as lake:
            rows = read_metadata(lake, name, None if table == ALL_TABLES else table)
        batches = SparkBatches.of(find_metadata(name).columns)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batches.schema) as writer:
            for record_batch in rows.combine_chunks().to_batches():
                writer.write_batch(batches.convert(record_batch))
        return [MetadataPartition(sink.getvalue().to_pybytes())]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Hand the rows over. Runs on executors."""
        if isinstance(partition, MetadataPartition):
            yield from pa.ipc.open_stream(partition.rows)
