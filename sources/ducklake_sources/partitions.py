"""What an executor is told to read of a change feed, and how it reads it. Needs no catalog there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as T  # noqa: N812 # Spark's own convention
from pyspark.sql.datasource import InputPartition

from ducklake_core.errors import DuckLakeError
from ducklake_core.feed.change_types import ChangeType
from ducklake_core.feed.rows import CHANGE_FIELDS, change_schema, read_changes
from ducklake_core.feed.task import ChangeTask
from ducklake_core.files.storage import Storage
from ducklake_core.model import Column
from ducklake_sources.executor_hint import executor_hint
from ducklake_sources.ranges import RangePartition
from ducklake_sources.spark_schema import SparkBatches, spark_schema

CHANGE_COLUMNS = (
    T.StructField("_change_type", T.StringType()),
    T.StructField("_commit_version", T.LongType()),
    T.StructField("_commit_timestamp", T.TimestampType()),
    T.StructField("_rowid", T.LongType()),
)


@dataclass(frozen=True)
class FeedPartition(InputPartition):
    """Some changes. `kinds` None: the rows alone, without what tells of the change."""

    storage: Storage
    task: ChangeTask = field(repr=False)  # files may have keys
    kinds: frozenset[ChangeType] | None


def rows_of(partition: InputPartition) -> Iterator[pa.RecordBatch]:
    """Read a partition; there is nothing in Spark's own, which it makes when there is nothing to read."""
    if isinstance(partition, RangePartition):
        return partition.read()
    return read_partition(partition) if isinstance(partition, FeedPartition) else iter(())


def feed_schema(columns: Sequence[Column], *, with_changes: bool) -> T.StructType:
    """Return the Spark schema of a feed; raise InvalidInput when a column has the name of one of the feed."""
    if with_changes:
        change_schema(columns)
    return T.StructType([*spark_schema(columns).fields, *(CHANGE_COLUMNS if with_changes else ())])


def read_partition(partition: FeedPartition) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a partition as Spark demands them; errors name the table."""
    task = partition.task
    try:
        yield from spark_rows(read_changes(partition.storage, task), task.columns, partition.kinds)
    except DuckLakeError as error:
        span = f"after snapshot {task.span.start} up to {task.span.end}"
        raise type(error)(
            f"cannot read the changes of table '{task.table}' {span}: {error.message}{executor_hint(error)}",
            **error.facts,
        ) from error


def spark_rows(
    changes: Iterable[pa.RecordBatch], columns: Sequence[Column], kinds: frozenset[ChangeType] | None
) -> Iterator[pa.RecordBatch]:
    """Yield changes of some kinds as Spark demands them. `kinds` None: inserted rows, without what tells of it."""
    batches = SparkBatches.of(columns, () if kinds is None else CHANGE_COLUMNS)
    wanted = None if kinds == frozenset(ChangeType) else pa.array([kind.name for kind in kinds or (ChangeType.insert,)])
    for record_batch in changes:
        rows = record_batch
        if wanted is not None:
            rows = rows.filter(pc.is_in(rows.column(len(columns)), wanted))
        if kinds is None:
            rows = rows.select(list(range(rows.num_columns - len(CHANGE_FIELDS))))
        if rows.num_rows:
            yield batches.convert(rows)
