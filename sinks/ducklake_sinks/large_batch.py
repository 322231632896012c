"""A large batch: written by executors, or by Spark's own writer where that will do. Runs on the driver."""

from __future__ import annotations

import pickle
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from ducklake_core import Transaction
from ducklake_core.files.parquet_writer import FileLayout
from ducklake_core.files.storage import Storage
from ducklake_core.files.written import WrittenFiles
from ducklake_core.model import NewDataFile
from ducklake_core.observe import Recorder
from ducklake_core.spec.paths import hide_password
from ducklake_sinks.collector import is_too_large
from ducklake_sinks.dead_letters import RECORD_COLUMN
from ducklake_sinks.destination import Destination
from ducklake_sinks.events import InvalidTextMet, NativeWriterUnused
from ducklake_sinks.executor_python import refuse_missing_package
from ducklake_sinks.frame_schema import FrameSchema
from ducklake_sinks.memory import TableMemory
from ducklake_sinks.native_files import (
    InvalidTextFound,
    can_write_natively,
    takes_files_by_spark,
    write_natively,
)
from ducklake_sinks.options import SinkOptions
from ducklake_sinks.part import Part, Quarantine, part_of, target_of
from ducklake_sinks.routes import COMPUTED_ROUTE, TableKey, route_key
from ducklake_sinks.shared_storage import refuse_unshared_files
from ducklake_sinks.spark_types import to_arrow_types
from ducklake_sinks.task_writer import MESSAGE_SCHEMA, Message, Target, TaskResult, TaskWriter
from ducklake_sinks.unwritable import refuse_unwritable

_PARALLELISM_OVER_CONNECT = 8  # nobody tells
_ROWS_AT_ONCE = 256
_ROWS_PER_FILE = 16_384  # fewer, and our tasks are faster: Spark takes twice as long to open and close a file

Written: TypeAlias = tuple[list[Part], list[str]]  # parts, or the tables that rows name and nobody has prepared


@dataclass(frozen=True, slots=True)
class LargeBatch:
    """A frame, and all that is needed to write it.

    `tables` remembers which ones Spark's writer leaves to tasks: it can only fail on texts that are no UTF-8, and takes
    longer to open a file.
    """

    destination: Destination
    schema: FrameSchema
    quarantine: Quarantine
    options: SinkOptions
    storage: Storage
    tables: TableMemory
    recorder: Recorder

    def write(self, core: Transaction, names: Sequence[str]) -> Written:
        """Return the parts of the batch, or tables that rows name beyond `names`: then nothing was kept.

        The tables, and that for dead letters, are prepared in the lake's transaction.
        """
        targets = {route_key(name): target_of(core, name) for name in names}
        if self.destination.route is not None:
            return self._write_by_tasks(core, targets)
        [(key, target)] = targets.items()
        part = self._try_natively(key, target)
        written = self._write_by_tasks(core, targets) if part is None else ([part], [])
        self._note_files(key, [part for part in written[0] if part.table == target.name])
        return written

    def _try_natively(self, key: TableKey, target: Target) -> Part | None:
        if not self._can_write_natively(key, target):
            return None
        try:
            return self._write_natively(target)
        except InvalidTextFound:  # tasks of ours find its row, and refuse it by name or keep it aside
            self.tables.with_invalid_text.add(key)
            self.recorder.record(InvalidTextMet(target.name, "tasks"))
            return None

    def _note_files(self, key: TableKey, parts: Sequence[Part]) -> None:
        """Remember who writes the next batch: tasks, if the rows of this one were in so many partitions."""
        files = [file for part in parts for file in part.files if file.partition_values is not None]
        are_small = sum(file.record_count for file in files) < _ROWS_PER_FILE * len(files)
        (self.tables.with_small_files.add if are_small else self.tables.with_small_files.discard)(key)

    def _write_by_tasks(self, core: Transaction, targets: Mapping[TableKey, Target]) -> Written:
        written = self.write_by_tasks(core, targets)
        if written is None:
            written = self._with_records().write_by_tasks(core, targets)
        assert written is not None  # noqa: S101 # what has its records is not read again
        return written

    def _with_records(self) -> LargeBatch:
        """Return the batch whose rows have the record of each."""
        destination = self.destination.with_records()
        assert destination is not None  # noqa: S101 # asked for where there are records
        return replace(self, destination=destination, schema=FrameSchema.of(destination.frame.schema))

    def _can_write_natively(self, key: TableKey, target: Target) -> bool:
        session = self.destination.frame.sparkSession
        if not self.storage.is_local and not takes_files_by_spark(session, self.storage):
            self.recorder.record(NativeWriterUnused(hide_password(self.storage.root)))
            return False
        is_left = key in self.tables.with_invalid_text or key in self.tables.with_small_files
        return not is_left and can_write_natively(session, self.schema.spark, target.layout, self.storage)

    def _write_natively(self, target: Target) -> Part:
        self.destination.runs.append("native")
        files = write_natively(self.destination.frame, target.layout, self.storage, self.schema.native)
        most = self.options.inline_bytes
        schema = None if self.destination.is_letters else self.schema
        # Its size nobody tells: large until the rows have been seen.
        part = Part(target.name, schema, None, files, target.layout.directory, most + 1, is_native=True)
        if not 0 < part.row_count <= self.options.inline_rows:
            return part
        with part.written(self.storage) as written:
            rows = _read_up_to(most, self.storage, target.layout, files)
            if rows is None:
                return part
            written.remove()  # few after all: they can be inlined
        return Part(target.name, schema, rows, size_bytes=rows.nbytes)

    def write_by_tasks(self, core: Transaction, targets: Mapping[TableKey, Target]) -> Written | None:
        """Return what tasks wrote; None when a row is bad, and its record can be found by reading all once more."""
        results = self._run_tasks(self._task_writer(core, targets))
        messages: defaultdict[str, list[Message]] = defaultdict(list)
        for message in (message for result in results for message in result.messages):
            messages[message.table].append(message)
        error = next((result.error for result in results if result.error is not None), None)
        with WrittenFiles(self.storage) as written:
            for table, found in messages.items():
                directory = core.table_version(table).directory
                written.add(*(directory + file.path for message in found for file in message.files))
            if self.destination.recorded is not None and (error is not None or self.quarantine.table in messages):
                written.remove()
                return None
            if error is not None:
                raise error
            parts = [self._part(core, table, found) for table, found in messages.items()]
            for part in parts:
                refuse_unshared_files(self.storage, part.directory, part.files)
            unknown = sorted({name for result in results for name in result.unknown})
            if unknown:
                written.remove()
                return [], unknown
        return parts, []

    def _run_tasks(self, writer: TaskWriter) -> list[TaskResult]:
        """Let executors write; where the few rows of each of many tasks are too many together, all into files."""
        self.destination.runs.append("tasks")
        try:
            return write_by_executors(self.destination.frame, writer)
        except ResultsTooLarge:
            self.destination.runs.append("tasks")
            return write_by_executors(self.destination.frame, replace(writer, few_rows=0, few_bytes=0))

    def _task_writer(self, core: Transaction, targets: Mapping[TableKey, Target]) -> TaskWriter:
        dead = self.quarantine.table
        parallelism = _parallelism(self.destination.frame.sparkSession)
        return TaskWriter(
            storage=self.storage,
            schema=self.schema.spark,
            targets=targets,
            batch=self.quarantine.batch,
            few_rows=self.options.inline_rows // parallelism,
            few_bytes=self.options.inline_bytes // parallelism,
            dead_letters=self.options.dead_letters,
            route=self.destination.route,
            dead=None if dead is None else target_of(core, dead),
            fill_missing=self.options.merge_schema or self.destination.is_letters,
        )

    def _part(self, core: Transaction, table: str, messages: Sequence[Message]) -> Part:
        schema = None if table == self.quarantine.table else self.schema.without(COMPUTED_ROUTE, RECORD_COLUMN)
        return part_of(target_of(core, table), schema, messages)


class ResultsTooLarge(Exception):
    """The messages of all tasks are more than the driver may take: Spark has thrown them away."""


def write_by_executors(frame: DataFrame, writer: TaskWriter) -> list[TaskResult]:
    """Run the writer on every partition and return what each task did."""
    try:
        rows = _with_plain_names(to_arrow_types(frame, frame.schema))
        messages = rows.mapInArrow(writer, MESSAGE_SCHEMA).toArrow()
    except (PySparkException, Py4JError) as error:  # the second where Spark wraps the first in a wait
        if is_too_large(error):
            raise ResultsTooLarge from error
        refuse_missing_package(error)
        refuse_unwritable(writer.storage, error)
        raise
    return [pickle.loads(message) for message in messages.column(0).to_pylist()]  # noqa: S301 # our own tasks wrote it


def _with_plain_names(frame: DataFrame) -> DataFrame:
    """Return a frame that `mapInArrow` takes: it asks for columns by names in which a dot or a backtick means more."""
    if not any(mark in name for name in frame.columns for mark in ".`"):
        return frame
    return frame.toDF(*(f"column_{number}" for number in range(len(frame.columns))))


def _read_up_to(size_bytes: int, storage: Storage, layout: FileLayout, files: Sequence[NewDataFile]) -> pa.Table | None:
    """Return the rows of some files; None when they are of more bytes, which compressed ones do not tell."""
    found: list[pa.RecordBatch] = []
    size = 0
    for file in files:
        with storage.open_input(layout.directory + file.path) as source:
            for record_batch in pq.ParquetFile(source).iter_batches(_ROWS_AT_ONCE):
                size += record_batch.nbytes
                if size > size_bytes:
                    return None
                found.append(record_batch)
    return pa.Table.from_batches(found)


def _parallelism(session: SparkSession) -> int:
    is_classic = hasattr(session, "_jsparkSession")
    return max(1, session.sparkContext.defaultParallelism) if is_classic else _PARALLELISM_OVER_CONNECT
