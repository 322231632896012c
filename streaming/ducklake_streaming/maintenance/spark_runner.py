"""Tasks of a merge or a rewrite, done by Spark's executors. Runs on the driver; `TaskPart` in the tasks.

Executors need no catalog and get no password: a task names files, and its result names those that it has written. It
works over Spark Connect, too, where there is no SparkContext.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from ducklake_core.errors import DuckLakeError, TransientError
from ducklake_core.files.compaction import CompactionTask
from ducklake_sinks.executor_python import refuse_missing_package
from ducklake_streaming.maintenance.pace import Pace
from ducklake_streaming.maintenance.runners import LARGE_BYTES, PacedRunner, Runner

T = TypeVar("T")
R = TypeVar("R")

_SCHEMA = "result binary"


class SparkRunner:
    """Does tasks by executors, `at_once` of them at a time at most; None: as many as there are cores for."""

    def __init__(self, spark: SparkSession, at_once: int | None = None) -> None:
        self._spark = spark
        self._at_once = at_once

    def __call__(self, function: Callable[[T], R], tasks: Sequence[T]) -> Iterator[R]:
        """Yield the results in order. What the first failed task raised comes after all that went well.

        Raises TransientError when Spark itself gives up, as after the loss of executors.
        """
        parts = min(len(tasks), self._at_once or len(tasks))
        done = TaskPart(function, tuple(tasks))
        try:
            found = self._spark.range(0, len(tasks), 1, parts).mapInArrow(done, _SCHEMA).toArrow()
        except PySparkException as error:
            refuse_missing_package(error)
            raise TransientError(f"Spark could not do {len(tasks)} tasks: {_reason(error)}") from error
        results = sorted((pickle.loads(one) for one in found.column(0).to_pylist()), key=_number)  # noqa: S301 # our own tasks wrote it
        yield from (one.result for one in results if one.error is None)
        for one in results:
            if one.error is not None:
                raise one.error


def _reason(error: PySparkException) -> str:
    """Return the last line of what Spark tells: that of a task has its whole traceback."""
    return next((line.strip() for line in reversed(str(error).splitlines()) if line.strip()), type(error).__name__)


@dataclass(frozen=True, slots=True)
class TaskResult:
    """What became of one task. An error of ours is a value: raised in the task, Spark would try again, for nothing."""

    number: int
    result: Any = None  # Any: whatever the function returns
    error: DuckLakeError | None = None


def _number(result: TaskResult) -> int:
    return result.number


@dataclass(frozen=True, slots=True)
class TaskPart:
    """Does the tasks whose numbers are the rows of a partition. Pickled with the Spark task."""

    function: Callable[[Any], Any]  # Any: a task, and what becomes of it
    tasks: tuple[Any, ...]

    def __call__(self, numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for record_batch in numbers:
            for number in record_batch.column(0).to_pylist():
                message = pickle.dumps(self._run(number))
                yield pa.record_batch([pa.array([message], pa.binary())], names=["result"])

    def _run(self, number: int) -> TaskResult:
        try:
            return TaskResult(number, self.function(self.tasks[number]))
        except DuckLakeError as error:
            return TaskResult(number, error=error)


def choose_runner(spark: SparkSession, at_once: int, in_process: Runner, pace: Pace) -> Runner:
    """Return who does the tasks of a job: `at_once` by executors when they are large, else the process; 0: it alone."""
    if not at_once:
        return in_process
    return LargeBySpark(PacedRunner(SparkRunner(spark, at_once), pace, at_once), in_process)


class LargeBySpark:
    """Leaves the tasks of a table to executors when their files are of many bytes; else another does them."""

    def __init__(self, spark: Runner, small: Runner, large_bytes: int = LARGE_BYTES) -> None:
        self._spark = spark
        self._small = small
        self._large_bytes = large_bytes

    def __call__(self, function: Callable[[T], R], tasks: Sequence[T]) -> Iterable[R]:
        size = sum(file.file_size_bytes for task in cast("Sequence[CompactionTask]", tasks) for file in task.files)
        return (self._spark if size >= self._large_bytes else self._small)(function, tasks)
