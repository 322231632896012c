"""A range of changes as a batch: `spark.read.format("ducklake").option("readChangeFeed", "true")`.

Made and planned on the driver; only `read` runs on executors.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any

import pyarrow as pa
from pyspark.sql import types as T  # noqa: N812 # Spark's own convention
from pyspark.sql.datasource import DataSourceReader, InputPartition

from ducklake_core.errors import InvalidInput
from ducklake_core.feed.listing import FeedRequest
from ducklake_core.feed.sharing import share_out
from ducklake_core.model import SnapshotSpan
from ducklake_sources.executor_reader import PartitionReader
from ducklake_sources.feed_schema import check_schema, feed_columns
from ducklake_sources.options import SourceOptions
from ducklake_sources.partitions import FeedPartition, feed_schema
from ducklake_sources.source_feed import SourceFeed, log_loss


class ChangeReader(DataSourceReader):
    """Reads the changes from startingVersion to endingVersion, both included."""

    def __init__(self, options: SourceOptions, schema: T.StructType) -> None:
        self._options = options
        self._schema = schema

    def partitions(self) -> Sequence[InputPartition]:
        """Ask the catalog for everything that the executors need."""
        with closing(SourceFeed(self._options)) as source:
            return self._plan(source)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return PartitionReader().read(partition)

    def __reduce__(self) -> tuple[Any, ...]:  # Any: fixed by the pickle protocol
        return PartitionReader, ()  # it travels only to executors

    def _plan(self, source: SourceFeed) -> list[InputPartition]:
        feed, options = source.feed, source.options
        columns = feed_columns(source).columns
        check_schema(self._schema, feed_schema(columns, with_changes=True), source.table.qualified_name)
        start, last = source.start(), source.end()
        if start is None:
            raise InvalidInput(
                "a change feed needs its beginning: give startingVersion (a snapshot id, or 'earliest') or "
                "startingTimestamp"
            )
        end = feed.head() if last is None else feed.snapshot(last)
        span = SnapshotSpan(start, end.snapshot_id)
        if span.start >= span.end:
            return []
        request = FeedRequest(feed.table_at(end), columns, span, source.mode, accept_loss=not options.fail_on_data_loss)
        task = feed.list_changes(request, log_loss).task
        return [FeedPartition(source.lake.storage, part, options.change_types) for part in share_out(task)]
