"""A stream of ranges: of each micro-batch only where it begins and ends, as two offsets in one row.

Who has the row reads the changes between them by another way (`stream_changes`). Spark asks for it by its schema.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import types as T  # noqa: N812 # Spark's own convention
from pyspark.sql.datasource import InputPartition

from ducklake_core.spec.buffers import from_texts
from ducklake_sources.offsets import FeedOffset

RANGE_SCHEMA = T.StructType(
    [T.StructField("_ducklake_range_start", T.StringType()), T.StructField("_ducklake_range_end", T.StringType())]
)


@dataclass(frozen=True)
class RangePartition(InputPartition):
    """Where a micro-batch begins and ends, as JSON."""

    start: str
    end: str

    @classmethod
    def of(cls, start: FeedOffset, end: FeedOffset) -> RangePartition:
        return cls(json.dumps(start.to_json()), json.dumps(end.to_json()))

    def read(self) -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_arrays([from_texts([self.start]), from_texts([self.end])], RANGE_SCHEMA.names)


def parse_range(start: str | None, end: str) -> tuple[FeedOffset | None, FeedOffset]:
    """Return the offsets of a row. The start is None where the feed begins."""
    return None if start is None else FeedOffset.parse(json.loads(start)), FeedOffset.parse(json.loads(end))
