"""A large batch: written by executors, or by Spark's own writer where that will do. Runs on the driver."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from ducklake_core import Transaction
from ducklake_core.files.parquet_writer import FileLayout
from ducklake_core.files.storage import Storage
from ducklake_core.files.written import WrittenFiles
from ducklake_core.log_lines import log_event
from ducklake_core.model import NewDataFile
from ducklake_sinks.bad_rows import BatchInfo
from ducklake_sinks.collector import write_by_executors
from ducklake_sinks.frame_schema import FrameSchema
from ducklake_sinks.native_files import InvalidTextFound, can_write_natively, native_directories, write_natively
from ducklake_sinks.options import SinkOptions
from ducklake_sinks.routes import COMPUTED_ROUTE, route_key
from ducklake_sinks.task_writer import Message, Target, TaskWriter

log = logging.getLogger("ducklake_sinks")

_PARALLELISM_OVER_CONNECT = 8  # nobody tells
_ROWS_AT_ONCE = 256


@dataclass(frozen=True, slots=True)
class Part:
    """What a batch adds to one table: rows on the driver, files that wait for their commit, or both.

    `schema` None: dead letters, whose schema is ours. `size_bytes`: of all rows, as Arrow has them. `is_native`:
    Spark's own writer has made the files.
    """

    table: str
    schema: FrameSchema | None
    rows: pa.Table | None = None
    files: tuple[NewDataFile, ...] = ()
    directory: str = ""  # of the table, for the files
    size_bytes: int = 0
    is_native: bool = False

    @property
    def row_count(self) -> int:
        rows: int = 0 if self.rows is None else self.rows.num_rows
        return rows + sum(file.record_count for file in self.files)

    def written(self, storage: Storage) -> WrittenFiles:
        """Return the files, to be removed when the batch will not be committed."""
        return WrittenFiles(storage, self._paths())

    def _paths(self) -> set[str]:
        """Return the files' paths; of those that have a directory to themselves, that."""
        if self.is_native:
            return native_directories(self.directory, self.files)
        return {self.directory + file.path for file in self.files}


@dataclass(frozen=True, slots=True)
class LargeBatch:
    """A frame, and all that is needed to write it.

    `with_invalid_text`: the tables, by `route_key`, whose rows had texts that are no UTF-8; Spark's writer, which can
    only fail on them, writes these no more.
    """

    frame: DataFrame
    schema: FrameSchema
    route: str | None
    batch: BatchInfo
    options: SinkOptions
    storage: Storage
    with_invalid_text: set[tuple[str, str]]

    def write(self, core: Transaction, names: Sequence[str]) -> tuple[list[Part], list[str]]:
        """Return the parts of the batch, or tables that rows name beyond `names`: then nothing was kept.

        The tables, and that for dead letters, are prepared in the lake's transaction.
        """
        targets = {route_key(name): Target(name, core.file_layout(name)) for name in names}
        if self.route is None:
            [(key, target)] = targets.items()
            if self._can_write_natively(key, target):
                try:
                    return [self._write_natively(target)], []
                except InvalidTextFound:  # tasks of ours find its row, and refuse it by name or keep it aside
                    self.with_invalid_text.add(key)
                    log_event(log, logging.WARNING, "invalid_text_found", table=target.name, writer="tasks")
        return self._write_by_executors(targets, core)

    def _can_write_natively(self, key: tuple[str, str], target: Target) -> bool:
        return key not in self.with_invalid_text and can_write_natively(
            self.frame.sparkSession, self.schema.spark, target.layout, self.storage
        )

    def _write_natively(self, target: Target) -> Part:
        files, most = write_natively(self.frame, target.layout, self.storage), self.options.inline_bytes
        # Its size nobody tells: large until the rows have been seen.
        part = Part(target.name, self.schema, None, files, target.layout.directory, most + 1, is_native=True)
        if not 0 < part.row_count <= self.options.inline_rows:
            return part
        with part.written(self.storage) as written:
            rows = _read_up_to(most, self.storage, target.layout, files)
            if rows is None:
                return part
            written.remove()  # few after all: they can be inlined
        return Part(target.name, self.schema, rows, size_bytes=rows.nbytes)

    def _write_by_executors(
        self, targets: dict[tuple[str, str], Target], core: Transaction
    ) -> tuple[list[Part], list[str]]:
        dead = self.options.dead_letters if self.options.quarantines else None
        parallelism = _parallelism(self.frame.sparkSession)
        writer = TaskWriter(
            storage=self.storage,
            schema=self.schema.spark,
            targets=targets,
            batch=self.batch,
            few_rows=self.options.inline_rows // parallelism,
            few_bytes=self.options.inline_bytes // parallelism,
            dead_letters=self.options.dead_letters,
            route=self.route,
            dead=None if dead is None else Target(dead, core.file_layout(dead)),
            fill_missing=self.options.merge_schema,
        )
        results = write_by_executors(self.frame, writer)
        messages: defaultdict[str, list[Message]] = defaultdict(list)
        for message in (message for result in results for message in result.messages):
            messages[message.table].append(message)
        error = next((result.error for result in results if result.error is not None), None)
        with WrittenFiles(self.storage) as written:
            for table, found in messages.items():
                directory = core.table_version(table).directory
                written.add(*(directory + file.path for message in found for file in message.files))
            if error is not None:
                raise error
            parts = [self._part(core, table, found, is_dead=table == dead) for table, found in messages.items()]
            unknown = sorted({name for result in results for name in result.unknown})
            if unknown:
                written.remove()
                return [], unknown
        return parts, []

    def _part(self, core: Transaction, table: str, messages: Sequence[Message], *, is_dead: bool) -> Part:
        rows = [found for message in messages if (found := message.read_rows()) is not None]
        files = tuple(file for message in messages for file in message.files)
        schema = None if is_dead else self.schema.without(COMPUTED_ROUTE)
        directory = core.table_version(table).directory
        size_bytes = sum(message.size_bytes for message in messages)
        return Part(table, schema, pa.concat_tables(rows) if rows else None, files, directory, size_bytes)


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
