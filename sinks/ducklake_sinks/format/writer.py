"""The writers that Spark calls: made and committed in Python processes of the driver, sent to executors to write.

What executors get is their task and no more than the texts of the options: a password that these refer to stays behind.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import types as T  # noqa: N812 # Spark's own convention
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from ducklake_sinks.format.job import WriteJob, remove_written
from ducklake_sinks.task_writer import TaskResult, TaskWriter


@dataclass(frozen=True, slots=True)
class WrittenTask(WriterCommitMessage):
    """What one task did, and what it was told: the process that commits a stream is told nothing else."""

    tasks: TaskWriter | None
    result: TaskResult


class _PlannedWriter:
    """What is planned when it is made, on the driver, and done by each task."""

    def __init__(self, job: WriteJob) -> None:
        self.job = job
        self.tasks = job.plan()

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of one task. Runs on executors."""
        if self.tasks is None:
            for _ in iterator:  # Spark waits until it has been read
                pass
            return WrittenTask(None, TaskResult(()))
        return WrittenTask(self.tasks, self.tasks.write(iterator))


class BatchWriter(_PlannedWriter, DataSourceArrowWriter):
    """`df.write.format("ducklake")`, one snapshot."""

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Make the snapshot. Runs on the driver."""
        if self.tasks is not None:
            self.job.commit(self.tasks, _results(messages))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Remove what tasks have told of; the others leave orphans. Runs on the driver."""
        _abort(messages)


class StreamWriter(_PlannedWriter, DataSourceStreamArrowWriter):
    """`df.writeStream.format("ducklake")`, a snapshot for each batch, exactly once."""

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 # Spark's name
        """Make the snapshot of a batch, unless the ledger has it. Runs on the driver."""
        tasks = next((message.tasks for message in _told(messages)), self.tasks)
        assert tasks is not None  # noqa: S101 # a stream always writes
        self.job.commit(tasks, _results(messages), batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803 # Spark's
        """Remove what tasks have told of; the others leave orphans. Runs on the driver."""
        _abort(messages)


def make_writer(given: Mapping[str, str], schema: T.StructType, *, overwrites: bool) -> BatchWriter:
    return BatchWriter(WriteJob(dict(given), schema, overwrites))


def make_stream_writer(given: Mapping[str, str], schema: T.StructType, *, overwrites: bool) -> StreamWriter:
    return StreamWriter(WriteJob(dict(given), schema, overwrites, is_stream=True))


def _told(messages: Sequence[WriterCommitMessage | None]) -> list[WrittenTask]:
    return [message for message in messages if isinstance(message, WrittenTask)]


def _results(messages: Sequence[WriterCommitMessage | None]) -> list[TaskResult]:
    return [message.result for message in _told(messages)]


def _abort(messages: Sequence[WriterCommitMessage | None]) -> None:
    """Remove files where a task has failed. Else a commit has, which has removed them, or a snapshot may name them."""
    if all(message is not None for message in messages):
        return
    for message in _told(messages):
        if message.tasks is not None:
            remove_written(message.tasks, [message.result])
