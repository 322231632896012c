"""The rows of a small batch, on the driver, in one execution of its source; a large one is left to its executors.

No `count`, no `persist`. A batch that is expected to be small comes as Arrow (`toArrow`), a large one is written where
it is; what the last batch of its kind was is what the next is expected to be. The first is tried with a limit, unless
it looks large, or Python workers make it: those must be drained, or their next task waits. Runs on the driver.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from ducklake_core.errors import InvalidInput
from ducklake_sinks.destination import Destination
from ducklake_sinks.frame_schema import FrameSchema
from ducklake_sinks.query import Query
from ducklake_sinks.size_guess import looks_large
from ducklake_sinks.spark_types import from_arrow_types, to_arrow_types


class BatchSize(Enum):
    """What a batch will be, judged by the last one."""

    UNKNOWN = "unknown"
    SMALL = "small"
    LARGE = "large"


@dataclass(frozen=True, slots=True)
class SizeHint:
    """What is expected of a batch, and how many rows and bytes are few."""

    size: BatchSize
    few_rows: int
    few_bytes: int


def collect_rows(destination: Destination, schema: FrameSchema, query: Query, hint: SizeHint) -> pa.Table | None:
    """Return the rows of a batch, None when it is to be written by executors."""
    frame = destination.frame
    match hint.size:
        case BatchSize.LARGE:
            return None
        case BatchSize.UNKNOWN if query.must_be_drained():
            return None  # executors return few rows just as well, only later
        case BatchSize.UNKNOWN if looks_large(frame, query, hint.few_rows, hint.few_bytes):
            return None
        case BatchSize.UNKNOWN:
            destination.runs.append("try")
            rows = collect_all(frame.limit(hint.few_rows + 1), schema)
            return rows if rows is not None and rows.num_rows <= hint.few_rows else None
        case BatchSize.SMALL:
            destination.runs.append("collect")
            return collect_all(frame, schema)


def collect_changes(destination: Destination, schema: FrameSchema) -> pa.Table:
    """Return the rows of a batch of changes: the driver finds the rows of their keys, so it takes all of them."""
    destination.runs.append("collect")
    rows = collect_all(destination.frame, schema)
    if rows is None:
        raise InvalidInput(
            f"the changes of a batch for '{destination.key}' are more than the driver may take: read fewer in a batch "
            "(maxOffsetsPerTrigger, maxFilesPerTrigger or max_records_per_trigger), or raise spark.driver.maxResultSize"
        )
    return rows


def collect_all(frame: DataFrame, schema: FrameSchema) -> pa.Table | None:
    """Return all rows of a frame, None when they are more than the driver may take."""
    try:
        return _to_arrow(frame, schema)
    except (PySparkException, Py4JError) as error:  # the second where Spark wraps the first in a wait
        if is_too_large(error):  # nothing is lost, executors can write it
            return None
        raise


def is_too_large(error: Exception) -> bool:
    """Tell whether a job of Spark failed because its results are more than the driver may take."""
    return "spark.driver.maxResultSize" in str(error)


def _to_arrow(frame: DataFrame, schema: FrameSchema) -> pa.Table:
    rows = schema.collector.collect(to_arrow_types(frame, schema.spark))
    return from_arrow_types(rows, schema.spark)
