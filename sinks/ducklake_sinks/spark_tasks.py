"""Tasks that Spark's executors do: merges, rewrites, searches for keys. Runs on the driver; `TaskPart` in the tasks.

Executors need no catalog and get no password: a task names files, and its result names those that it has written, or
tells what it has read. It works over Spark Connect, too, where there is no SparkContext.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from ducklake_core.errors import DuckLakeError, TransientError
from ducklake_core.tasks import Result, Task
from ducklake_sinks.executor_python import refuse_missing_package

_SCHEMA = "result binary"


class SparkRunner:
    """Does tasks by executors, `at_once` of them at a time at most; None: as many as there are cores for."""

    def __init__(self, spark: SparkSession, at_once: int | None = None) -> None:
        self._spark = spark
        self._at_once = at_once

    def __call__(self, function: Callable[[Task], Result], tasks: Sequence[Task]) -> Iterator[Result]:
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
