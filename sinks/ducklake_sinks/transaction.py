"""One epoch: frames of a batch that become one snapshot, exactly once. Runs on the driver."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from types import TracebackType
from typing import Self, TypeAlias, Unpack

import pyarrow as pa
from pyspark.sql import DataFrame

from ducklake_core import CommitResult, faults
from ducklake_core.errors import InvalidInput, ObjectNotFound
from ducklake_core.observe import Event
from ducklake_sinks.batch import BatchReader
from ducklake_sinks.batch_commit import BatchCommit
from ducklake_sinks.change_rules import ChangeArguments, ChangeRules
from ducklake_sinks.collector import BatchSize
from ducklake_sinks.created_tables import CreatedTables
from ducklake_sinks.dead_letters import BatchInfo, Explain, bad_record_error, explained
from ducklake_sinks.destination import Destination, find_destination
from ducklake_sinks.epoch import EpochStart
from ducklake_sinks.events import ChangesApplied
from ducklake_sinks.letter_frame import letter_frame
from ducklake_sinks.modes.append import AppendMode
from ducklake_sinks.modes.mode import Mode
from ducklake_sinks.options import SinkOptions
from ducklake_sinks.part import Part, Quarantine
from ducklake_sinks.report import failure_of, record_dead_letters, recorded_failure, report_of
from ducklake_sinks.runtime import SinkRuntime
from ducklake_sinks.stopwatch import BatchCourse, Stopwatch
from ducklake_sinks.table_setup import TableSetup

MakeMode: TypeAlias = Callable[[TableSetup, SinkOptions, Quarantine], Mode]


class SinkTransaction:
    """Made by `DuckLakeSink.transaction`. The end of the `with` block commits; an error in it discards everything.

    `is_replay`: the epoch is committed already; `append` then reads nothing and writes nothing.
    """

    def __init__(self, runtime: SinkRuntime, start: EpochStart, make_mode: MakeMode = AppendMode) -> None:
        options = runtime.options
        self._runtime = runtime
        self._started = start
        self._stopwatch = Stopwatch(runtime.clock.seconds)
        self._setup = TableSetup(runtime.lake, options, runtime.definitions, runtime.tables)
        quarantine = Quarantine(options.dead_letters if options.quarantines else None, self._batch_info())
        self._mode = make_mode(self._setup, options, quarantine)
        self._commit = BatchCommit(runtime, start, self._mode, self._setup)
        self._reader = BatchReader(runtime, start.query, quarantine, self._setup, self._commit.open, self._stopwatch)
        self._parts: list[Part] = []
        self._named: str | None = None  # the table that rows were meant for last
        self._has_ended = False
        self.result: CommitResult | None = None

    def _batch_info(self) -> BatchInfo:
        epoch, now = self._started.epoch, self._runtime.clock.now()
        if epoch is None:
            return BatchInfo(self._runtime.options.stream, None, now)
        return BatchInfo(epoch.stream, epoch.batch_id, now)

    @property
    def mode(self) -> Mode:
        """How rows get into the lake."""
        return self._mode

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
                self._runtime.recorder.record(self._failed(error))
            self.discard()

    def write(
        self,
        frame: DataFrame,
        *,
        recorded: Callable[[], DataFrame] | None = None,
        keys: Sequence[str] | None = None,
    ) -> int:
        """Append the rows of a frame, or apply them by key, as the sink's mode says; see `append`.

        `keys`: those of the frame's table, where they are not the sink's own.
        """
        changes = self._runtime.options.changes
        if changes is not None and keys is not None:
            changes = replace(changes, keys=tuple(keys))
        return self._take(frame, None, changes, recorded)

    def append(
        self, frame: DataFrame, table: str | None = None, *, recorded: Callable[[], DataFrame] | None = None
    ) -> int:
        """Add the rows of a frame to a table, the sink's own by default; nothing is visible before the commit.

        `recorded`: gives the same rows with a last column `__ducklake_record`, the record that each was made from. It
        is asked when a row is bad. Return how often the frame was run: once, unless it is not of the size expected.
        """
        return self._take(frame, table, None, recorded)

    def upsert(self, frame: DataFrame, table: str | None = None, **rules: Unpack[ChangeArguments]) -> None:
        """Apply the rows of a frame to a table by key. What is not given is as the sink's own options say."""
        self._take(frame, table, ChangeRules.of(rules, self._runtime.options.changes), None)

    def delete(self, frame: DataFrame, table: str | None = None, *, keys: Sequence[str] | str = ()) -> None:
        """Delete the rows that have the keys of a frame's rows; its other columns say nothing."""
        rules = ChangeRules.of({"keys": keys} if keys else {}, self._runtime.options.changes)
        self._take(frame, table, ChangeRules(rules.keys, deletes_all=True), None)

    def _take(
        self,
        frame: DataFrame,
        table: str | None,
        changes: ChangeRules | None,
        recorded: Callable[[], DataFrame] | None,
    ) -> int:
        self._refuse_ended()
        if self.is_replay:
            return 0
        self._named = table or self._runtime.options.table
        rows = frame if changes is None else changes.marked(frame)
        found = find_destination(rows, self._named, self._runtime.options.route)
        destination = replace(found, recorded=recorded, changes=changes)
        self._mode.accept(destination)
        self._parts += self._reader.read(destination)
        faults.at("after_collect")
        return len(destination.runs)

    def add(self, parts: Sequence[Part]) -> None:
        """Take parts that tasks have made without a frame of ours; those of a replay are removed."""
        self._refuse_ended()
        self._named = parts[0].table
        if self.is_replay:
            self._remove_files(parts)
        else:
            self._parts += parts

    def quarantine(self, records: DataFrame, *, are_few: bool | None = None, explain: Explain | None = None) -> None:
        """Keep records aside that are no rows; the frame has their `reason`, and the columns of `RECORD_FIELDS`.

        `are_few`: they come to the driver, where `explain` makes the reason of each longer; many are written by
        executors. None: nobody has counted them. Without a quarantine, the first one is refused: the batch fails.
        """
        self._refuse_ended()
        if self.is_replay:
            return
        explain = explain or _as_it_is
        if not self._runtime.options.quarantines:
            first = records.first()
            if first is not None:
                raise bad_record_error(explain(first.value, first.reason), first.asDict())
            return
        letters = letter_frame(records, self._batch_info())
        destination = Destination(letters, self._runtime.options.dead_letters, None, is_letters=True)
        if are_few is not None:
            self._runtime.tables.sizes[destination.key] = BatchSize.SMALL if are_few else BatchSize.LARGE
        for part in self._reader.read(destination):
            rows = part.rows if part.rows is None else explained(part.rows, explain)
            self._parts.append(replace(part, rows=rows))

    def _refuse_ended(self) -> None:
        if self._has_ended:
            raise InvalidInput("this transaction has ended: begin a new one for the next batch")

    def commit(self) -> CommitResult:
        """Make the snapshot, and record the epoch with it. An empty batch records the epoch only."""
        self._has_ended = True
        if self.is_replay:
            self.result = CommitResult(None, replayed=True)
        else:
            self.result = self._commit_or_discard()
        self._finish(self.result)
        return self.result

    def read_letters(self) -> pa.Table | None:
        """Return the dead letters of this epoch as the lake has them after the commit, of a replay, too; None: none."""
        epoch, options = self._started.epoch, self._runtime.options
        if epoch is None or not options.quarantines or not (self.is_replay or self._mode.dead_letters):
            return None
        stream = epoch.stream.replace("'", "''")
        try:
            table = self._runtime.lake.table(options.dead_letters)
        except ObjectNotFound:  # a replay of a batch without letters
            return None
        return table.read(filter=f"stream = '{stream}' AND batch_id = {epoch.batch_id}")

    def discard(self) -> None:
        """End the transaction and remove the files that were written for it."""
        self._has_ended = True
        self._commit.discard()
        self._remove_files(self._parts)

    def _remove_files(self, parts: Sequence[Part]) -> None:
        for part in parts:
            part.written(self._runtime.lake.storage).remove()

    def _commit_or_discard(self) -> CommitResult:
        """Commit; whatever fails, an interrupt too, leaves no file behind, nor does an epoch that another run has."""
        with ExitStack() as stack:
            stack.callback(self._discard_unless_in_doubt)
            with recorded_failure(self._runtime.recorder, self._failed), self._stopwatch.phase("commit"):
                result = self._commit.run(self._parts)
                self._runtime.gate.check(self._started, result)
            if not result.replayed:
                stack.pop_all()
        return result

    def _discard_unless_in_doubt(self) -> None:
        if not self._commit.in_doubt:  # else the snapshot may exist: its files must stay
            self.discard()

    def _finish(self, result: CommitResult) -> None:
        """Do what follows on a commit, for tables that are new and rows that are inlined, and report the batch."""
        runtime, start = self._runtime, self._started
        created = CreatedTables(runtime.lake, runtime.options, runtime.tables, runtime.recorder)
        if start.committed is not None:
            created.finish_interrupted_setup(start.committed)
        else:
            runtime.gate.remember(start)
        added = {}
        if self._commit.core is not None and result.snapshot is not None:
            added = self._commit.core.added()
            created.configure(self._setup.created, is_repeated=start.epoch is not None)
        runtime.note_inlined(added)
        dead_letters = [] if result.replayed else self._mode.dead_letters  # else another run has kept them aside
        record_dead_letters(runtime.recorder, start, dead_letters, runtime.lake.storage)
        dead = sum(part.row_count for part in dead_letters) if runtime.options.quarantines else None
        for table, applied in () if result.replayed else self._mode.applied:
            runtime.recorder.record(ChangesApplied(start.names, table, applied))
        seconds = self._stopwatch.read()
        runtime.recorder.record(report_of(start, result, added, dead, seconds, self._course(seconds["total"])))

    def _course(self, seconds: float) -> BatchCourse:
        start = self._started
        return BatchCourse(seconds, self._stopwatch.phases(), start.offsets_before, start.offsets)

    def _failed(self, error: BaseException) -> Event:
        """Return what has failed: a batch by its number, rows without one by their table."""
        names = self._started.names or ({} if self._named is None else {"table": self._named})
        return failure_of(self._started.query, names, error, self._course(self._stopwatch.read()["total"]))


def _as_it_is(_: bytes | None, reason: str) -> str:
    return reason
