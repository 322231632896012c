"""The source of `stream_changes` in the driver's own process: Spark asks it for offsets without a process of its own.

A source of `format("ducklake")` lives in Python processes that Spark starts for each query, which takes seconds. This
one is an object of Spark's interface `Source`, by the way that Spark itself calls the function of `foreachBatch`. It
needs a classic session. What it decides, and what a checkpoint has, is the same: see `FeedQuery`.
"""

from __future__ import annotations

import json
from typing import Any, TypeAlias

from pyspark.sql import DataFrame, SparkSession

from ducklake_sources.feed_query import FeedQuery
from ducklake_sources.offsets import FeedOffset
from ducklake_sources.options import SourceOptions
from ducklake_sources.ranges import RANGE_SCHEMA

JavaObject: TypeAlias = Any  # an object of the JVM
Range: TypeAlias = tuple[str | None, str]  # the two offsets of a batch as JSON, no start for the first batch
_QUERY_ID = "sql.streaming.queryId"  # the local property in which Spark tells it to whom it asks


class DriverSource:
    """Answers what Spark asks for any number of queries: each has a `FeedQuery` of its own, and a thread of Spark's."""

    class Java:
        """The interfaces that py4j makes the object one of."""

        implements = (
            "org.apache.spark.sql.execution.streaming.Source",
            "org.apache.spark.sql.connector.read.streaming.SupportsTriggerAvailableNow",
        )

    def __init__(self, spark: SparkSession, options: SourceOptions) -> None:
        self._spark = spark
        self._options = options
        self._queries: dict[str | None, FeedQuery] = {}
        self._ranges: dict[str | None, Range] = {}

    def frame(self) -> DataFrame | None:
        """Return a stream of ranges; None when this session cannot ask an object of Python, or is another Spark."""
        if not hasattr(self._spark, "_jsparkSession"):
            return None
        # A client of Spark Connect may have none of these.
        from py4j.clientserver import ClientServer  # noqa: PLC0415 # see above
        from py4j.protocol import Py4JError  # noqa: PLC0415 # see above
        from pyspark.java_gateway import ensure_callback_server_started  # noqa: PLC0415 # see above

        gateway: JavaObject = self._spark.sparkContext._gateway  # noqa: SLF001 # as foreachBatch does
        if not isinstance(gateway, ClientServer):  # else no thread of ours belongs to one of Spark's: who asks?
            return None
        try:
            ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call] # pyspark has no types for it
            companion = getattr(self._streaming.runtime, "StreamingExecutionRelation$")  # of Scala
            relation = getattr(companion, "MODULE$").apply(self, self._session)
            rows = self._jvm.org.apache.spark.sql.classic.Dataset.ofRows(self._session, relation)
        except (Py4JError, TypeError):  # TypeError: a class that is not there is a package to py4j
            return None
        return DataFrame(rows, self._spark)

    @property
    def query(self) -> FeedQuery:
        """The query of the thread that asks."""
        query_id = self._query_id
        if query_id not in self._queries:
            self._queries[query_id] = FeedQuery(self._options, None)
        return self._queries[query_id]

    def take_range(self) -> Range:
        """Return the range of the batch that Spark now hands to the function of the thread that asks."""
        return self._ranges.pop(self._query_id)

    # ---- what Spark asks

    def schema(self) -> JavaObject:
        return self._jvm.org.apache.spark.sql.types.DataType.fromJson(RANGE_SCHEMA.json())

    def initialOffset(self) -> JavaObject:  # noqa: N802 # Spark's name
        return self._to_java(self.query.initial())

    def deserializeOffset(self, text: str) -> JavaObject:  # noqa: N802 # Spark's name
        return self._to_java(FeedOffset.parse(json.loads(text)))

    def getDefaultReadLimit(self) -> JavaObject:  # noqa: N802 # Spark's name
        """Return the limit that Spark shows and hands back to us; that it is one at all is what counts."""
        limits, options = self._limits, self._options
        if options.max_rows_per_trigger is not None:
            return limits.maxRows(options.max_rows_per_trigger)
        if options.max_bytes_per_trigger is not None:
            return limits.maxBytes(options.max_bytes_per_trigger)
        return limits.maxFiles(options.max_versions_per_trigger)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 # Spark's name
        self.stop()  # a run that failed right here was not told to stop
        self.query.end_at_head()

    def latestOffset(self, start: JavaObject, limit: JavaObject) -> JavaObject:  # noqa: N802 # Spark's name
        """Return the end of the next batch, or its start when there is nothing to read."""
        begin = self.query.initial() if start is None else _parse(start)
        is_unlimited = limit.equals(self._limits.allAvailable())
        return self._to_java(self.query.latest(begin, has_limits=not is_unlimited))

    def reportLatestOffset(self) -> JavaObject:  # noqa: N802 # Spark's name
        """Tell progress reports where the lake is, whether or not it was read."""
        return self._to_java(self.query.newest())

    def getBatch(self, start: JavaObject, end: JavaObject) -> JavaObject:  # noqa: N802 # Spark's name
        """Return a frame without rows: nobody reads it, for a job of Spark's takes longer than `take_range`.

        Spark may ask for a batch that it has done, before it asks for the next one.
        """
        self._ranges[self._query_id] = (start.get().json() if start.isDefined() else None, end.json())
        rows = self._spark.sparkContext._jsc.emptyRDD().rdd()  # noqa: SLF001 # no public way says that it is of a stream
        return self._session.internalCreateDataFrame(rows, self.schema(), True)  # noqa: FBT003 # Java's

    def commit(self, end: JavaObject) -> None:
        self.query.commit(_parse(end))

    def stop(self) -> None:
        self._ranges.pop(self._query_id, None)
        query = self._queries.pop(self._query_id, None)
        if query is not None:
            query.stop()

    def toString(self) -> str:  # noqa: N802 # Java's name
        return f"ducklake[{self._options.table}]"

    def hashCode(self) -> int:  # noqa: N802 # Java's name
        return id(self) & 0x7FFFFFFF

    def equals(self, other: object) -> bool:
        return self is other

    # ---- Java's values

    @property
    def _query_id(self) -> str | None:
        return self._spark.sparkContext.getLocalProperty(_QUERY_ID)

    @property
    def _session(self) -> JavaObject:
        return self._spark._jsparkSession  # noqa: SLF001 # there is no public way

    @property
    def _jvm(self) -> JavaObject:
        return self._spark._jvm  # noqa: SLF001 # there is no public way

    @property
    def _limits(self) -> JavaObject:
        return self._jvm.org.apache.spark.sql.connector.read.streaming.ReadLimit

    @property
    def _streaming(self) -> JavaObject:
        return self._jvm.org.apache.spark.sql.execution.streaming

    def _to_java(self, offset: FeedOffset) -> JavaObject:
        return self._streaming.runtime.SerializedOffset(json.dumps(offset.to_json()))


def _parse(offset: JavaObject) -> FeedOffset:
    return FeedOffset.parse(json.loads(offset.json()))
