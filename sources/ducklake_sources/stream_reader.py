"""The change feed as a stream: `spark.readStream.format("ducklake")`.

Spark calls it on the driver, in a Python process of its own; only `read` runs on executors, where it has no state.
Another process of the driver makes one as well, only to send it to executors: what reads is imported when it is asked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from ducklake_core.clock import Now, utc_now
from ducklake_sources.executor_reader import PartitionReader
from ducklake_sources.offsets import FeedOffset
from ducklake_sources.ranges import RANGE_SCHEMA
from ducklake_sources.spark_versions import AvailableNow, is_unlimited, read_limit

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import types as T  # noqa: N812 # Spark's own convention

    from ducklake_sources.feed_query import FeedQuery
    from ducklake_sources.options import SourceOptions


class DuckLakeStreamReader(DataSourceStreamReader, AvailableNow):  # type: ignore[misc] # by Spark's version
    """Reads what each snapshot has changed, in order, every one exactly once."""

    def __init__(self, options: Mapping[str, str], schema: T.StructType, clock: Now = utc_now) -> None:
        self._given = options
        self._schema = schema
        self._clock = clock
        self._query: FeedQuery | None = None
        self._emits_ranges = schema == RANGE_SCHEMA

    def __reduce__(self) -> tuple[Any, ...]:  # Any: fixed by the pickle protocol
        return PartitionReader, ()  # it travels only to executors

    @cached_property
    def _options(self) -> SourceOptions:
        """The options, parsed when they are asked for first; raises InvalidInput that lists all that is wrong."""
        from ducklake_sources.options import check_stream, parse_options  # noqa: PLC0415 # see the top

        options = parse_options(self._given)
        check_stream(options)
        return options

    @property
    def _running(self) -> FeedQuery:
        from ducklake_sources.feed_query import FeedQuery  # noqa: PLC0415 # see the top

        if self._query is None:
            schema = None if self._emits_ranges else self._schema
            self._query = FeedQuery(self._options, schema, self._clock)
        return self._query

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 # Spark's name; Any: JSON
        return self._running.initial().to_json()

    def latestOffset(  # noqa: N802 # Spark's name
        self,
        start: Mapping[str, Any] | None = None,  # Any: JSON; none before Spark 4.2
        limit: Any = None,  # Any: Spark's ReadLimit, which older ones do not have
    ) -> dict[str, Any]:
        """Return the end of the next batch, or its start when there is nothing to read."""
        position = None if start is None else FeedOffset.parse(start)
        return self._running.latest(position, has_limits=not is_unlimited(limit)).to_json()

    def getDefaultReadLimit(self) -> Any:  # noqa: N802 # Spark's name; Any: see latestOffset
        return read_limit(self._options)

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802 # Spark's name; Any: JSON
        """Tell progress reports where the lake is, whether or not it was read."""
        return self._running.newest().to_json()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 # Spark's name
        self._running.end_at_head()

    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> Sequence[InputPartition]:  # Any: JSON
        plan = self._running.plan_range if self._emits_ranges else self._running.plan
        return plan(FeedOffset.parse(start), FeedOffset.parse(end))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return PartitionReader().read(partition)

    def commit(self, end: Mapping[str, Any]) -> None:  # Any: JSON
        self._running.commit(FeedOffset.parse(end))

    def stop(self) -> None:
        if self._query is not None:
            self._query.stop()
