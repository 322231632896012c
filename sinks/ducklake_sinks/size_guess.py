"""Whether a batch will be large, judged before anything of it is read: by Spark's plan and Kafka's offsets.

Runs on the driver. A wrong guess costs time alone: executors return few rows just as well, and a batch that is large
after all is met by a limit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame

from ducklake_sinks.query import Query

_KNOWN_BYTES = 2**50  # Spark says exabytes of what it does not know, and of products of joins
_DOUBT = 4  # a text of JSON is about so much longer than the row that it becomes


def looks_large(frame: DataFrame, query: Query, few_rows: int, few_bytes: int) -> bool:
    """Tell whether a frame seems to have more rows or bytes than are few; False where nobody knows.

    What a query filters is not known: of Kafka's records and of files all count.
    """
    if few_rows == 0:
        return True
    records = [count_records(start, end) for start, end in query.offset_ranges()]
    if any(count is not None and count > few_rows for count in records):
        return True
    size_bytes = _planned_bytes(frame)
    if size_bytes is None:
        return False
    return size_bytes > few_bytes or size_bytes > _DOUBT * few_rows * frame._jdf.schema().defaultSize()  # noqa: SLF001 # only the JVM knows


def count_records(start: Any, end: Any) -> int | None:  # Any: JSON of a source
    """Return how many records are between two offsets of Kafka; None if they are another source's."""
    if not (_is_kafka(start) and _is_kafka(end)):
        return None
    begins = {(topic, partition): at for topic, places in start.items() for partition, at in places.items()}
    places = [
        (begins.get((topic, partition), at), at) for topic, found in end.items() for partition, at in found.items()
    ]
    return sum(int(end_at - start_at) for start_at, end_at in places)


def _is_kafka(offset: Any) -> bool:  # Any: see count_records
    """Tell whether an offset is such as `{"topic": {"0": 17}}`."""
    return isinstance(offset, Mapping) and all(
        isinstance(places, Mapping) and all(type(at) is int for at in places.values()) for places in offset.values()
    )


def _planned_bytes(frame: DataFrame) -> int | None:
    """Return of what size Spark's optimizer takes a frame to be: of files what they take; None where it has no idea."""
    try:
        size_bytes = int(str(frame._jdf.queryExecution().optimizedPlan().stats().sizeInBytes()))  # noqa: SLF001 # see above
    except Py4JError:  # Spark's inner objects promise nothing
        return None
    return size_bytes if size_bytes < _KNOWN_BYTES else None
