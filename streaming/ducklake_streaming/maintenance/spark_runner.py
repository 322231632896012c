"""Whose tasks Spark's executors do, of all merges and rewrites: those of large tables. Runs on the driver."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import cast

from pyspark.sql import SparkSession

from ducklake_core.files.compaction import CompactionTask
from ducklake_core.tasks import Result, Runner, Task
from ducklake_sinks.spark_tasks import SparkRunner
from ducklake_streaming.maintenance.pace import Pace
from ducklake_streaming.maintenance.runners import LARGE_BYTES, PacedRunner


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

    def __call__(self, function: Callable[[Task], Result], tasks: Sequence[Task]) -> Iterable[Result]:
        size = sum(file.file_size_bytes for task in cast("Sequence[CompactionTask]", tasks) for file in task.files)
        return (self._spark if size >= self._large_bytes else self._small)(function, tasks)
