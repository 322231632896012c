"""What an executor does with its part of a large batch: Parquet files, or the rows themselves when they are few.

Runs in a Spark task, by `mapInArrow`; needs no catalog and gets no password. What comes back is one message per table:
facts of files that nobody can see until the driver commits them, or rows. A lost attempt leaves files that no message
names; they are orphans for maintenance.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from uuid import UUID

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import types as T  # noqa: N812 # Spark's own convention

from ducklake_core import faults
from ducklake_core.arrow_stream import from_stream, to_stream
from ducklake_core.errors import InvalidInput, NotNullViolation, SchemaMismatch, TerminalError
from ducklake_core.files.parquet_writer import FileLayout, write_data_files
from ducklake_core.files.storage import Storage
from ducklake_core.files.written import WrittenFiles
from ducklake_core.model import NewDataFile
from ducklake_core.plan.filter_arrow import refuse_others
from ducklake_core.plan.predicates import Predicate
from ducklake_core.spec.utf8 import refuse_invalid_text
from ducklake_sinks.bad_rows import bad_rows, fitting_rows, without_invalid_text
from ducklake_sinks.dead_letters import RECORD_COLUMN, BadRow, BatchInfo, bad_row_error, dead_letters, fitting_letters
from ducklake_sinks.routes import TableKey, route_key, split_by_route, why_no_table
from ducklake_sinks.spark_types import from_arrow_types

MESSAGE_SCHEMA = "message binary"
BUFFER_BYTES = 256 * 2**20


@dataclass(frozen=True, slots=True)
class Target:
    """A table that rows go to. `table_uuid` None: it is created for them."""

    name: str
    layout: FileLayout
    table_uuid: UUID | None = None


@dataclass(frozen=True, slots=True)
class Message:
    """What a task did for one table. `rows`: in Arrow's stream format; None: there are none, or they are in files.

    `size_bytes`: of all its rows, as Arrow has them.
    """

    table: str
    files: tuple[NewDataFile, ...] = ()
    rows: bytes | None = None
    size_bytes: int = 0

    def read_rows(self) -> pa.Table | None:
        return None if self.rows is None else from_stream(self.rows).read_all()


@dataclass(frozen=True, slots=True)
class TaskResult:
    """Everything one task did. `unknown`: tables that are not prepared; then the task kept nothing.

    `error`: why the batch must fail. Raised in the task it would be tried again, and reach the driver as a text.
    """

    messages: tuple[Message, ...]
    unknown: tuple[str, ...] = ()
    error: TerminalError | None = None


@dataclass(frozen=True, slots=True)
class TaskWriter:
    """Writes the rows of one task. Pickled with the task.

    `targets` are by `route_key`; without a `route` there is one. `few_rows` and `few_bytes` are how much of a table a
    task returns instead of a file. `dead` is the table for bad rows; None: a bad row fails the batch.
    """

    storage: Storage
    schema: T.StructType
    targets: Mapping[TableKey, Target]
    batch: BatchInfo
    few_rows: int
    few_bytes: int
    dead_letters: str
    route: str | None = None
    dead: Target | None = None
    fill_missing: bool = False
    where: Predicate | None = None  # what rows must match, because they replace what does
    buffer_bytes: int = BUFFER_BYTES

    def __call__(self, record_batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        result = pickle.dumps(self.write(record_batches))
        yield pa.record_batch([pa.array([result], pa.binary())], names=["message"])

    def write(self, record_batches: Iterator[pa.RecordBatch]) -> TaskResult:
        try:
            with WrittenFiles(self.storage) as written:  # whatever ends the task, no message will name its files
                task = _Task(self, written)
                for record_batch in record_batches:
                    rows = pa.Table.from_batches([record_batch]).rename_columns(self.schema.names)
                    task.add(from_arrow_types(rows, self.schema))
                return task.finish()
        except (InvalidInput, SchemaMismatch, NotNullViolation) as error:  # the data's fault, wherever it is tried
            return TaskResult((), error=error)


@dataclass(slots=True)
class _Buffer:
    """Rows of one table that wait to be written, and the files that were."""

    target: Target
    written: WrittenFiles
    tables: list[pa.Table] = field(default_factory=list)
    size_bytes: int = 0
    written_bytes: int = 0
    files: list[NewDataFile] = field(default_factory=list)

    def add(self, rows: pa.Table) -> None:
        if rows.num_rows:
            self.tables.append(rows)
            self.size_bytes += rows.nbytes

    def write(self, storage: Storage) -> None:
        if self.tables:
            layout = self.target.layout
            files = write_data_files(storage, layout, pa.concat_tables(self.tables))
            self.files += files
            self.written.add(*(layout.directory + file.path for file in files))
            faults.at("after_task_file_write")
        self.written_bytes += self.size_bytes
        self.tables, self.size_bytes = [], 0

    def finish(self, storage: Storage, few_rows: int, few_bytes: int) -> Message:
        is_large = sum(table.num_rows for table in self.tables) > few_rows or self.size_bytes > few_bytes
        if self.files or is_large:
            self.write(storage)
        rows = to_stream(pa.concat_tables(self.tables)) if self.tables else None
        return Message(self.target.name, tuple(self.files), rows, self.written_bytes + self.size_bytes)


class _Task:
    """One run of a writer."""

    def __init__(self, writer: TaskWriter, written: WrittenFiles) -> None:
        self.writer = writer
        self.written = written
        self.buffers: dict[TableKey, _Buffer] = {}
        self.unknown: set[str] = set()
        self.seen_rows = 0

    def add(self, table: pa.Table) -> None:
        try:
            self._add(table)
        except InvalidInput:
            refuse_invalid_text(table, self._only_table(), first_row=self.seen_rows, of=_shown_partition())
            raise
        self.seen_rows += table.num_rows

    def _only_table(self) -> str | None:
        return next(iter(self.writer.targets.values())).name if self.writer.route is None else None

    def _add(self, table: pa.Table) -> None:
        if self.writer.route is None:
            [(key, target)] = self.writer.targets.items()
            self._store(key, target, table)
            return
        if not self._singles_out(table):
            refuse_invalid_text(table.select([self.writer.route]), None)
        table, bad = without_invalid_text(table, self.writer.route)
        self._quarantine(None, bad)
        for name, rows in split_by_route(table, self.writer.route):
            reason = why_no_table(name, self.writer.route, self.writer.dead_letters)
            if name is None or reason is not None:
                self._quarantine(name, bad_rows(rows, [str(reason)] * rows.num_rows))
            elif route_key(name) not in self.writer.targets:
                self.unknown.add(name)
            elif not self.unknown:  # else the whole batch is read again
                self._store(route_key(name), self.writer.targets[route_key(name)], rows)

    def finish(self) -> TaskResult:
        if self.unknown:
            self.written.remove()
            return TaskResult((), tuple(sorted(self.unknown)))
        writer = self.writer
        found = (b.finish(writer.storage, writer.few_rows, writer.few_bytes) for b in self.buffers.values())
        return TaskResult(tuple(found))

    def _store(self, key: TableKey, target: Target, rows: pa.Table) -> None:
        good, bad = fitting_rows(
            rows,
            target.layout.columns,
            target.name,
            fill_missing=self.writer.fill_missing,
            quarantines=self._singles_out(rows),
        )
        self._quarantine(target.name, bad)
        refuse_others(good, self.writer.where, target.name)
        self._keep(key, target, good)

    def _singles_out(self, rows: pa.Table) -> bool:
        """Tell whether bad rows are found one by one: to keep them aside, or to name the record of the first."""
        return self.writer.dead is not None or RECORD_COLUMN in rows.column_names

    def _quarantine(self, table_name: str | None, bad: list[BadRow]) -> None:
        if bad and self.writer.dead is None:
            raise bad_row_error(bad[0])
        if bad and self.writer.dead is not None:
            dead = self.writer.dead
            letters = fitting_letters(dead_letters(self.writer.batch, table_name, bad), dead.layout.columns)
            self._keep(route_key(dead.name), dead, letters)

    def _keep(self, key: TableKey, target: Target, rows: pa.Table) -> None:
        buffer = self.buffers.setdefault(key, _Buffer(target, self.written))
        buffer.add(rows)
        if buffer.size_bytes >= self.writer.buffer_bytes:
            buffer.write(self.writer.storage)


def _shown_partition() -> str:
    context = TaskContext.get()
    return "the data" if context is None else f"partition {context.partitionId()} of the batch"
