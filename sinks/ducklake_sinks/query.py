"""Which query is calling: its identity, its offsets, and whether its source runs in Python. Runs on the driver.

Spark tells a `foreachBatch` function only the number of the batch. The classic client finds the rest in the JVM; over
Connect there is no JVM, and a sink needs its stream's name as an option.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from ducklake_core.errors import InvalidInput

# Operators that run Python workers: their input must be drained, or the next task waits for a worker to be abandoned.
_PYTHON_PLAN = re.compile(r"Python|Pandas|InArrow")
_KNOWN = re.compile(r"Some\(\[(.*)\]\)", re.DOTALL)
_STREAM_LEAF = "StreamingDataSourceV2ScanRelation"
_NO_OFFSET = re.compile(r"-(?=, |$)")
_JSON = json.JSONDecoder()
BY_HAND = "by hand"


@dataclass(frozen=True, slots=True)
class Query:
    """A query that runs now. `handle` is Spark's own object for it, `offset_log` what it remembers of its batches.

    Both are None where there is no such object.
    """

    query_id: str
    run_id: str
    handle: Any = field(default=None, compare=False, repr=False)  # Any: a Java object
    offset_log: Any = field(default=None, compare=False, repr=False)  # Any: see above

    def is_active(self) -> bool:
        """Tell whether nobody has stopped it yet. Spark tells a running `foreachBatch` function nothing about that."""
        if self.handle is None:
            return True
        try:
            return bool(self.handle.isActive())
        except Py4JError:  # the JVM itself has gone
            return False

    def offsets(self, batch_id: int) -> list[Any] | None:  # Any: JSON of the sources
        """Return where each source ends in this batch, as the source says it; None where nobody knows."""
        if self.offset_log is None:
            return None
        try:
            # No call that fails when Spark has forgotten the batch: py4j asks a hundred questions about an error.
            text = self.offset_log.get(batch_id).toString()
        except Py4JError:  # Spark's inner objects promise nothing, and only people read this
            return None
        return parse_offsets(text)

    def offset_ranges(self) -> list[tuple[Any, Any]]:  # Any: JSON of the sources
        """Return where each source of the batch begins and ends, of those whose plan tells both."""
        execution = None if self.handle is None else self.handle.lastExecution()
        if execution is None:
            return []
        try:
            leaves = execution.logical().collectLeaves()
            found = [leaves.apply(index) for index in range(leaves.size())]
            streams = [leaf for leaf in found if leaf.nodeName() == _STREAM_LEAF]
            return [(_parsed(leaf.startOffset()), _parsed(leaf.endOffset())) for leaf in streams]
        except Py4JError:  # see offsets
            return []

    def must_be_drained(self) -> bool:
        """Tell whether some of the batch is made by Python workers, as far as can be known."""
        if self.handle is None:
            return True
        execution = self.handle.lastExecution()
        return execution is None or _PYTHON_PLAN.search(execution.executedPlan().toString()) is not None


class QueryFinder:
    """Finds the query of a batch; remembers Spark's object for it, which costs a few calls to the JVM."""

    def __init__(self, root: SparkSession | None = None) -> None:
        self._own_run_id = str(uuid4())
        self._root = root  # over Connect: the session that started the query
        self._known: Query | None = None
        self._group: str | None = None

    def find(self, session: SparkSession, stream: str | None) -> Query:
        if hasattr(session, "_jsparkSession"):
            return self._find_classic(session)
        known = self._known = self._known or self._find_remote(stream)
        return known

    def _find_classic(self, session: SparkSession) -> Query:
        context = session.sparkContext
        query_id = context.getLocalProperty("sql.streaming.queryId")
        if query_id is None:
            return Query(BY_HAND, self._own_run_id)
        group = context.getLocalProperty("spark.jobGroup.id")  # another one for each run
        known = self._known
        if known is None or self._group != group or known.query_id != query_id:
            handle = _handle(session, query_id)
            known = Query(query_id, handle.runId().toString(), handle, _offset_log(handle))
            self._known, self._group = known, group
        return known

    def _find_remote(self, stream: str | None) -> Query:
        """Return the only query of the session, or the one that has the stream's name.

        Never a guess: a query that goes by another id after a restart would be taken for one whose checkpoint is lost.
        """
        active = self._root.streams.active if self._root is not None and stream is not None else []
        named = [query for query in active if query.name == stream] if len(active) > 1 else active
        if active and len(named) != 1:
            raise InvalidInput(
                f"{len(active)} queries run in this Spark Connect session, and the sink cannot tell which one is that "
                f"of stream '{stream}': give it the stream's name with writeStream.queryName('{stream}')"
            )
        return Query(named[0].id, named[0].runId) if named else Query(BY_HAND, self._own_run_id)


def _handle(session: SparkSession, query_id: str) -> Any:  # Any: a Java object
    """Return Spark's object for a running query; it has no public way to it from within a batch."""
    uuid = session._jvm.java.util.UUID.fromString(query_id)  # type: ignore[union-attr] # noqa: SLF001 # see above
    return session._jsparkSession.sharedState().activeStreamingQueries().get(uuid)  # noqa: SLF001 # see above


def _offset_log(handle: Any) -> Any:  # Any: Java objects
    try:
        return handle.offsetLog()
    except Py4JError:  # see Query.offsets
        return None


def _parsed(offset: Any) -> Any:  # Any: a Java object, and JSON of a source
    """Return an offset that Spark may know; None if it does not, or if the source says it in no JSON."""
    if not offset.isDefined():
        return None
    try:
        return json.loads(offset.get().json())
    except ValueError:
        return None


def parse_offsets(text: str) -> list[Any] | None:  # Any: JSON of the sources
    """Parse Spark's text of a batch's offsets, such as `Some([{"logOffset":3}, -])`: a dash for a source without one.

    A source may say its offset in no JSON; then the text is all there is. None for a batch that Spark does not know.
    """
    inner = _KNOWN.fullmatch(text)
    if inner is None:
        return None
    found: list[Any] = []  # Any: see above
    rest = inner.group(1)
    while rest:
        try:
            value, end = (None, 1) if _NO_OFFSET.match(rest) else _JSON.raw_decode(rest)
        except ValueError:
            return [inner.group(1)]
        found.append(value)
        rest = rest[end:].removeprefix(", ")
    return found
