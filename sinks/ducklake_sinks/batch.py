"""The frames of a batch become parts: rows on the driver, or files that executors have written. Runs on the driver."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from ducklake_core import Transaction, faults
from ducklake_core.spec.utf8 import refuse_invalid_text
from ducklake_sinks.bad_rows import BAD_ROW_ERRORS, bad_rows, without_invalid_text
from ducklake_sinks.collector import BatchSize, SizeHint, collect_changes, collect_rows
from ducklake_sinks.dead_letters import RECORD_COLUMN
from ducklake_sinks.destination import Destination
from ducklake_sinks.frame_schema import FrameSchema
from ducklake_sinks.large_batch import LargeBatch
from ducklake_sinks.part import Part, Quarantine
from ducklake_sinks.query import Query
from ducklake_sinks.recorded_rows import ReadRecorded, RecordedRows
from ducklake_sinks.routes import COMPUTED_ROUTE, route_key, split_by_route, why_no_table
from ducklake_sinks.runtime import SinkRuntime
from ducklake_sinks.stopwatch import Stopwatch
from ducklake_sinks.table_setup import TableSetup


@dataclass(frozen=True, slots=True)
class BatchReader:
    """Reads the frames of one batch, each in one execution of its source.

    `open_core` gives the lake's transaction: executors must know the tables, as it has them, before they write.
    """

    runtime: SinkRuntime
    query: Query
    quarantine: Quarantine
    setup: TableSetup
    open_core: Callable[[], Transaction]
    stopwatch: Stopwatch

    def read(self, destination: Destination) -> list[Part]:
        """Return what a frame adds to each table, and remember of what size it was, for the next batch."""
        schema = self.runtime.definitions.schema_of(destination.frame, destination.key)
        sizes, options = self.runtime.tables.sizes, self.runtime.options
        size = sizes.get(destination.key, BatchSize.UNKNOWN)
        hint = SizeHint(size, options.inline_rows, options.inline_bytes)
        with self.stopwatch.phase("collect"):
            if destination.changes is not None:
                return self._parts(destination, collect_changes(destination, schema), schema)
            rows = collect_rows(destination, schema, self.query, hint)
        if rows is not None:
            parts = self._parts(destination, rows, schema)
        else:
            faults.at("before_large_write")
            with self.stopwatch.phase("write"):
                parts = self._write(destination, schema)
        sizes[destination.key] = self._size_of(parts)
        return parts

    def _size_of(self, parts: Sequence[Part]) -> BatchSize:
        """Return what the next batch is expected to be: many rows, or large ones, are written by executors."""
        rows, size = sum(part.row_count for part in parts), sum(part.size_bytes for part in parts)
        options = self.runtime.options
        is_small = rows <= options.inline_rows and size <= options.inline_bytes
        return BatchSize.SMALL if is_small else BatchSize.LARGE

    # ---- rows on the driver

    def _parts(self, destination: Destination, rows: pa.Table, schema: FrameSchema) -> list[Part]:
        """Return the rows by table; where some name none, they are read once more, with their records if there are."""
        recorded = RecordedRows(destination)
        try:
            parts = list(self._split(destination, rows, schema, recorded))
            if not destination.recorded or all(part.schema is not None for part in parts):
                return parts
        except BAD_ROW_ERRORS:
            if not destination.recorded:
                raise
        found = recorded.all()
        return list(self._split(destination, rows if found is None else found, schema, recorded))

    def _split(
        self, destination: Destination, rows: pa.Table, schema: FrameSchema, recorded: RecordedRows
    ) -> Iterator[Part]:
        """Yield the rows by table; those that name none are bad."""
        if rows.num_rows == 0:
            return
        if destination.route is None:
            known = None if destination.is_letters else destination.stored(schema)
            again = recorded.all if destination.recorded else None
            table, changes = str(destination.table), destination.changes
            yield Part(table, known, rows, size_bytes=rows.nbytes, recorded=again, changes=changes)
            return
        if not self.quarantine.is_on and RECORD_COLUMN not in rows.column_names:
            refuse_invalid_text(rows, None)  # now, when the numbers of rows are those of the batch
        rows, bad = without_invalid_text(rows, destination.route)
        if bad:
            yield self.quarantine.keep(None, bad)
        for name, found in split_by_route(rows, destination.route):
            again = partial(recorded.of_table, name) if destination.recorded else None
            yield self._routed_part(destination, name, found, schema, again)

    def _routed_part(
        self,
        destination: Destination,
        name: str | None,
        rows: pa.Table,
        schema: FrameSchema,
        recorded: ReadRecorded | None,
    ) -> Part:
        reason = why_no_table(name, str(destination.route), self.runtime.options.dead_letters)
        if name is None or reason is not None:
            return self.quarantine.keep(name, bad_rows(rows, [str(reason)] * rows.num_rows))
        self.runtime.tables.routed[route_key(name)] = name
        stored, changes = destination.stored(schema).without(COMPUTED_ROUTE), destination.changes
        return Part(name, stored, rows, size_bytes=rows.nbytes, recorded=recorded, changes=changes)

    # ---- files by executors

    def _write(self, destination: Destination, schema: FrameSchema) -> list[Part]:
        runtime, core = self.runtime, self.open_core()
        storage, tables = runtime.lake.storage, runtime.tables
        batch = LargeBatch(destination, schema, self.quarantine, runtime.options, storage, tables, runtime.recorder)
        names = [destination.table] if destination.table is not None else self._routed_so_far(core)
        while True:
            self._prepare(core, destination, names, schema.without(COMPUTED_ROUTE))
            parts, unknown = batch.write(core, names)
            if not unknown:
                return [part for part in parts if part.row_count]
            runtime.tables.routed.update((route_key(name), name) for name in unknown)
            names = [*names, *unknown]  # the batch is read again: only when a table gets its first rows in a large one

    def _routed_so_far(self, core: Transaction) -> list[str]:
        """Return the tables that rows may be for, as far as is known. Those that others dropped may get none."""
        return [name for name in self.runtime.tables.routed.values() if core.has_table(name)]

    def _prepare(self, core: Transaction, destination: Destination, names: Sequence[str], schema: FrameSchema) -> None:
        for name in () if destination.is_letters else names:
            self.setup.prepare(core, name, schema)
        if self.quarantine.table is not None:
            with_records = destination.is_letters or destination.recorded is not None
            self.setup.prepare(core, self.quarantine.table, None, with_records=with_records)
