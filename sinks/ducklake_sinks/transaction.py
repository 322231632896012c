"""One epoch: frames of a batch that become one snapshot, exactly once. Runs on the driver."""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from types import TracebackType
from typing import Self

import pyarrow as pa
from pyspark.sql import DataFrame

from ducklake_core import CommitResult, Transaction, faults
from ducklake_core.errors import CommitConflict, DuckLakeError, InvalidInput, TransientError
from ducklake_core.log_lines import log_event
from ducklake_core.spec.utf8 import refuse_invalid_text
from ducklake_sinks.bad_rows import (
    BadRow,
    BatchInfo,
    bad_row_error,
    dead_letters,
    fitting_rows,
    plain_rows,
    without_invalid_text,
)
from ducklake_sinks.collector import BatchSize, SizeHint, collect_rows
from ducklake_sinks.frame_schema import FrameSchema
from ducklake_sinks.large_batch import LargeBatch, Part
from ducklake_sinks.report import log, log_batch, log_dead_letters, log_failure
from ducklake_sinks.routes import COMPUTED_ROUTE, route_key, split_by_route, why_no_table
from ducklake_sinks.runtime import EpochStart, SinkRuntime, refuse_second_use
from ducklake_sinks.table_gone import table_gone_error
from ducklake_sinks.table_setup import prepare_dead_letters, prepare_table

MAX_REBUILDS = 4


class SinkTransaction:
    """Made by `DuckLakeSink.transaction`. The end of the `with` block commits; an error in it discards everything.

    `is_replay`: the epoch is committed already; `append` then reads nothing and writes nothing.
    """

    def __init__(self, runtime: SinkRuntime, start: EpochStart, *, replaces: bool = False) -> None:
        self._runtime = runtime
        self._options = runtime.options
        self._started = start
        epoch = start.epoch
        stream, batch_id = (self._options.stream, None) if epoch is None else (epoch.stream, epoch.batch_id)
        self._batch = BatchInfo(stream, batch_id, datetime.now(UTC))
        self._parts: list[Part] = []
        self._core: Transaction | None = None
        self._created: set[str] = set()
        self._dead: list[Part] = []  # dead letters, as they were staged last
        self._replaces = replaces  # the rows that tables have go with the same snapshot
        self._replaced: list[str] = []
        self._named: str | None = None  # the table that rows were meant for last
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._start = time.perf_counter()
        self._has_ended = False
        self.result: CommitResult | None = None

    @property
    def is_replay(self) -> bool:
        return self._started.is_replay

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if self._has_ended:
            return
        if kind is None:
            self.commit()
        else:
            if error is not None:
                self._log_failure(error)
            self.discard()

    def append(self, frame: DataFrame, table: str | None = None) -> None:
        """Add the rows of a frame to a table, the sink's own by default; nothing is visible before the commit."""
        if self._has_ended:
            raise InvalidInput("this transaction has ended: begin a new one for the next batch")
        if self.is_replay:
            return
        self._named = table or self._options.table
        name, route, frame = self._destination(frame, table)
        if self._replaces:
            if name is None:
                raise InvalidInput("a route has no rows to be replaced: name a table, as in sink.replace(df, table)")
            self._replaced.append(name)
        schema = self._runtime.schema_of(frame)
        key = name or COMPUTED_ROUTE
        known = self._runtime.sizes.get(key, BatchSize.UNKNOWN)
        with self._phase("collect"):
            rows = collect_rows(frame, schema, self._started.query, SizeHint(known, self._options.inline_rows))
        if rows is not None:
            parts = list(self._sorted_out(name, route, rows, schema))
        else:
            faults.at("before_large_write")
            with self._phase("write"):
                parts = self._write_large(frame, name, route, schema)
        self._parts += parts
        faults.at("after_collect")
        self._runtime.sizes[key] = self._next_size(parts)

    def _next_size(self, parts: Sequence[Part]) -> BatchSize:
        """Return what the next batch is expected to be: many rows, or large ones, are written by executors."""
        rows, size = sum(part.row_count for part in parts), sum(part.size_bytes for part in parts)
        is_small = rows <= self._options.inline_rows and size <= self._options.inline_bytes
        return BatchSize.SMALL if is_small else BatchSize.LARGE

    def commit(self) -> CommitResult:
        """Make the snapshot, and record the epoch with it. An empty batch records the epoch only."""
        self._has_ended = True
        if self.is_replay:
            self.result = CommitResult(None, replayed=True)
        else:
            try:
                with self._phase("commit"):
                    self.result = self._commit()
                    self._refuse_second_use(self.result)
            except BaseException as error:  # an interrupt must leave no file behind, either
                self._log_failure(error)
                if self._core is None or not self._core.in_doubt:  # else the snapshot may exist: its files must stay
                    self.discard()
                raise
            if self.result.replayed and self._core is not None and not self._core.in_doubt:
                self.discard()  # another run was faster: the files are for nothing
        self._finish(self.result)
        return self.result

    def discard(self) -> None:
        """End the transaction and remove the files that were written for it."""
        self._has_ended = True
        if self._core is not None:
            self._core.discard()
        for part in self._parts:
            part.written(self._runtime.lake.storage).remove()

    # ---- rows

    def _destination(self, frame: DataFrame, table: str | None) -> tuple[str | None, str | None, DataFrame]:
        """Return the table, or the column that names it, and the frame, with that column if it must be computed."""
        name, route = table or self._options.table, self._options.route
        if name is not None:
            return name, None, frame
        if route is None:
            raise InvalidInput(
                "no table is named: give the sink a table or a route, or name one in append(frame, table)"
            )
        if isinstance(route, str):
            if route not in frame.columns:
                raise InvalidInput(
                    f"the route '{route}' is no column of the data, which has {', '.join(frame.columns)}"
                )
            return None, route, frame
        return None, COMPUTED_ROUTE, frame.withColumn(COMPUTED_ROUTE, route(frame).cast("string"))

    def _sorted_out(self, name: str | None, route: str | None, rows: pa.Table, schema: FrameSchema) -> Iterator[Part]:
        """Yield the rows by table; those that name none are bad."""
        if rows.num_rows == 0:
            return
        if route is None:
            yield Part(str(name), schema, rows, size_bytes=rows.nbytes)
            return
        if not self._options.quarantines:
            refuse_invalid_text(rows, None)  # now, when the numbers of rows are those of the batch
        rows, bad = without_invalid_text(rows, route)
        if bad:
            yield self._dead_letter_part(None, bad)
        for found, part in split_by_route(rows, route):
            reason = why_no_table(found, route, self._options.dead_letters)
            if found is not None and reason is None:
                self._runtime.routed[route_key(found)] = found
                yield Part(found, schema.without(COMPUTED_ROUTE), part, size_bytes=part.nbytes)
            else:
                yield self._dead_letter_part(found, [(row, str(reason)) for row in plain_rows(part)])

    def _dead_letter_part(self, table: str | None, bad: Sequence[BadRow]) -> Part:
        if not self._options.quarantines:
            raise bad_row_error(bad[0][1])
        return Part(self._options.dead_letters, None, dead_letters(self._batch, table, bad))

    def _write_large(self, frame: DataFrame, name: str | None, route: str | None, schema: FrameSchema) -> list[Part]:
        batch = LargeBatch(
            frame,
            schema,
            route,
            self._batch,
            self._options,
            self._runtime.lake.storage,
            self._runtime.with_invalid_text,
        )
        names = [name] if name is not None else self._routed_so_far()
        while True:
            core = self._open_for(names, schema.without(COMPUTED_ROUTE))
            parts, unknown = batch.write(core, names)
            if not unknown:
                return [part for part in parts if part.row_count]
            self._runtime.routed.update((route_key(name), name) for name in unknown)
            names = [*names, *unknown]  # the batch is read again: only when a table gets its first rows in a large one

    def _routed_so_far(self) -> list[str]:
        """Return the tables that rows may be for, as far as is known. Those that others dropped may get none."""
        self._core = self._core or self._runtime.begin_transaction(self._started)
        return [name for name in self._runtime.routed.values() if self._core.has_table(name)]

    # ---- the commit

    def _open_for(self, names: Sequence[str], schema: FrameSchema) -> Transaction:
        """Return the lake's transaction with its tables prepared: executors must know them before they write."""
        self._core = self._core or self._runtime.begin_transaction(self._started)
        for name in names:
            self._prepare(self._core, name, schema)
        if self._options.quarantines:
            self._prepare(self._core, self._options.dead_letters, None)
        return self._core

    def _prepare(self, core: Transaction, name: str, schema: FrameSchema | None) -> None:
        """Create or change a table as its rows need it; what was found fit before is not looked at again."""
        key = route_key(name)
        table_id = self._runtime.table_ids.get(key)
        found = core.table_version(name) if core.has_table(name) else None
        if table_id is not None and (found is None or found.table_id != table_id):
            # A new one under its name would hide that the rows so far are gone.
            raise table_gone_error(self._runtime.lake, name, table_id)
        if found is not None and self._runtime.prepared.get(key) == (found.columns, schema):
            return
        if schema is None:
            is_new = prepare_dead_letters(core, name)
        else:
            is_new = prepare_table(core, name, schema, self._options)
        if is_new:
            self._created.add(name)
        table = core.table_version(name)
        self._runtime.prepared[key] = (table.columns, schema)
        if table.table_id >= 0:
            self._runtime.table_ids[key] = table.table_id

    def _commit(self) -> CommitResult:
        """Commit; where another writer has changed a table meanwhile, plan anew, a few times at most.

        Rows alone can always be planned anew. Files were made for tables as they were, and are never made again: they
        are planned anew after a flush, which leaves a table with the same rows elsewhere; else a conflict is final.
        """
        core = self._core if self._has_files else None
        if core is None:
            core = self._core = self._build()
        else:
            self._fill(core)
        for _ in range(MAX_REBUILDS):
            places = self._places_of_files(core)
            try:
                return core.commit()
            except CommitConflict as error:
                if self._has_files and (core.in_doubt or not error.facts.get("is_flush")):
                    raise
                self._runtime.expire_definitions()
                log_event(log, logging.WARNING, "batch_planned_anew", **self._started.names, error=error)
                core = self._build()
                if self._places_of_files(core) != places:
                    core.discard()
                    raise
                self._core = core
        return core.commit()

    @property
    def _has_files(self) -> bool:
        return any(part.files for part in self._parts)

    def _places_of_files(self, core: Transaction) -> list[tuple[object, ...]]:
        """Return what files that are written rest on, of the tables that they are for."""
        layouts = [core.file_layout(part.table) for part in self._parts if part.files]
        return [(layout.directory, layout.columns, layout.partitioning) for layout in layouts]

    def _refuse_second_use(self, result: CommitResult) -> None:
        """See who had committed the epoch before us: another run may, this one cannot without losing rows now."""
        epoch = self._started.epoch
        if result.replayed and epoch is not None:
            refuse_second_use(epoch, self._runtime.lake.ledger_entry(epoch.stream))

    def _build(self) -> Transaction:
        """Return a new transaction of the lake that holds all rows."""
        self._created.clear()  # by a transaction that will not be committed
        core = self._runtime.begin_transaction(self._started)
        try:
            self._fill(core)
        except BaseException:  # an interrupt must leave no file behind, either
            core.discard()
            raise
        return core

    def _fill(self, core: Transaction) -> None:
        """Stage everything: tables are prepared first, and then get their rows."""
        self._dead.clear()
        for part in self._parts:
            self._prepare(core, part.table, part.schema)
        for name in self._replaced:
            if core.has_table(name):
                core.delete(name, None)
        for part in self._parts:
            self._stage(core, part)

    def _stage(self, core: Transaction, part: Part) -> None:
        if part.schema is None:
            self._dead.append(part)
        if part.files:
            core.append_files(part.table, part.files, lent=True)  # `discard` removes them
        if part.rows is None:
            return
        rows, fill = part.rows, self._options.merge_schema or part.schema is None
        if self._options.quarantines and part.schema is not None:
            columns = core.table_version(part.table).columns
            rows, bad = fitting_rows(rows, columns, part.table, fill_missing=fill, quarantines=True)
            if bad:
                self._prepare(core, self._options.dead_letters, None)
                self._stage(core, self._dead_letter_part(part.table, bad))
        limits = self._options.inline_rows, self._options.inline_bytes
        core.append(part.table, rows, fill_missing=fill, inline_rows=limits[0], inline_bytes=limits[1])

    # ---- afterwards

    def _finish(self, result: CommitResult) -> None:
        runtime, added = self._runtime, {}
        if result.replayed:
            self._dead.clear()  # another run has kept them aside
        if self._started.committed is not None:
            runtime.finish_interrupted_setup(self._started.committed)
        else:
            runtime.remember_commit(self._started.epoch)
        if self._core is not None and result.snapshot is not None:
            added = self._core.added()
            self._configure_created()
        if runtime.governor is not None:
            for name, one in added.items():
                runtime.governor.note(name, one.inlined_rows, one.inlined_bytes)
        log_dead_letters(self._started, self._dead)
        milliseconds = {**self._seconds, "total": time.perf_counter() - self._start}
        dead = self._dead if self._options.quarantines else None
        log_batch(self._started, result, added, dead, {name: 1000 * value for name, value in milliseconds.items()})

    def _log_failure(self, error: BaseException) -> None:
        """Say what has failed: a batch by its number, rows without one by their table."""
        names = self._started.names or ({} if self._named is None else {"table": self._named})
        log_failure(self._started.query, names, error)

    def _configure_created(self) -> None:
        """Give the tables that were created their options; a batch that is repeated does so again, if this fails.

        Rows without a number must not be repeated, for they are committed: the sink's next commit does it for them.
        """
        runtime = self._runtime
        names = self._created | runtime.unconfigured
        runtime.unconfigured.clear()
        for name in sorted(names):
            try:
                runtime.configure_created(name)
            except DuckLakeError as error:
                if self._started.epoch is not None and name in self._created:
                    raise
                log_event(log, logging.WARNING, "table_options_not_set", table=name, error=error)
                if isinstance(error, TransientError):
                    runtime.unconfigured.add(name)

    @contextmanager
    def _phase(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self._seconds[name] += time.perf_counter() - start
