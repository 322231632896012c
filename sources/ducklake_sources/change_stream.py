"""Changes as a stream whose rows are read by Spark's own scan: `stream_changes`. Runs on the driver.

The query's source emits a range of snapshots for each trigger; the function gets the changes of that range.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, closing, nullcontext
from typing import TypeAlias

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from ducklake_sources.changes_scan import changes_frame
from ducklake_sources.driver_source import DriverSource
from ducklake_sources.feed_query import FeedQuery
from ducklake_sources.options import SourceOptions, check_stream, parse_options
from ducklake_sources.partitions import feed_schema
from ducklake_sources.ranges import RANGE_SCHEMA, parse_range

BatchFunction: TypeAlias = Callable[[DataFrame, int], object]


def stream_changes(
    spark: SparkSession, catalog: str, table: str, function: BatchFunction, **options: str | float
) -> DataStreamWriter:
    """Return a writer that calls `function(changes, batch_id)` for each micro-batch of a table's changes.

    It is to be given a `checkpointLocation` and a trigger, and started. The options are those of
    `readStream.format("ducklake")`; `readChangeFeed` is true unless you say otherwise. A DuckLakeSink is such a
    function. Raises InvalidInput that lists all that is wrong with the options.
    """
    given = {"catalog": catalog, "table": table, "readChangeFeed": "true"}
    given |= {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in options.items()}
    parsed = parse_options(given)
    check_stream(parsed)
    source = DriverSource(spark, parsed)
    ranges = source.frame()
    if ranges is not None:
        return ranges.writeStream.foreachBatch(RangeBatches(parsed, function, source))
    ranges = spark.readStream.format("ducklake").schema(RANGE_SCHEMA).options(**given).load()
    return ranges.writeStream.foreachBatch(RangeBatches(parsed, function))


class RangeBatches:
    """Hands a function the changes of each range.

    Without a source in this process, it travels to the server of Spark Connect before its first batch.
    """

    def __init__(self, options: SourceOptions, function: BatchFunction, source: DriverSource | None = None) -> None:
        self._options = options
        self._function = function
        self._source = source
        self._query: FeedQuery | None = None

    def __call__(self, ranges: DataFrame, batch_id: int) -> None:
        for start, end in ranges.collect() if self._source is None else [self._source.take_range()]:
            self._function(self.frame(ranges.sparkSession, start, end), batch_id)

    def frame(self, spark: SparkSession, start: str | None, end: str) -> DataFrame:
        """Return the changes between two offsets."""
        with self._opened() as query:
            columns, task = query.range_task(*parse_range(start, end))
        kinds = self._options.change_types if self._options.read_change_feed else None
        if task is None:
            return spark.createDataFrame([], feed_schema(columns, with_changes=kinds is not None))
        return changes_frame(spark, query.storage, task, kinds)

    def _opened(self) -> AbstractContextManager[FeedQuery]:
        """Return the query of the source; our own keeps no connection, for nobody tells us when it ends."""
        if self._source is not None:
            return nullcontext(self._source.query)
        self._query = self._query or FeedQuery(self._options, None)
        return closing(self._query)
