"""Flushes inlined rows beside the stream, by policy. Runs on the driver, in a thread with a connection of its own.

A batch only tells what it added; it never waits for a flush, unless flushing has fallen behind by several thresholds,
and then no longer than the policy's budget. The thread also wakes by itself: rows grow old, and others delete, while no
batch comes. With a stream come the tables that it wrote to before: what it left inlined is flushed, too.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from ducklake_core import Lake
from ducklake_core.clock import Now, utc_now
from ducklake_core.errors import NoLakeFound, ObjectNotFound, TerminalError
from ducklake_core.log_lines import FailureCounts
from ducklake_core.observe import LOG_RECORDER, Recorder
from ducklake_sinks.events import FlushFailed, FlushRecovered
from ducklake_sinks.flush_policy import FlushPolicy

BEHIND = 4  # thresholds
EXIT_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Rests:
    """How long the thread rests, at most and at least, while nothing is due, and after an error.

    `wait` waits until something holds, for so many seconds at most; tests need not.
    """

    longest: timedelta = timedelta(seconds=30)
    shortest: timedelta = timedelta(milliseconds=200)
    after_error: timedelta = timedelta(seconds=10)
    wait: Callable[[threading.Condition, Callable[[], bool], float], object] = threading.Condition.wait_for


@dataclass(slots=True)
class InlinedBacklog:
    """What one table has inlined, as far as is known: counted at `checked_at`, then added up."""

    rows: int = 0
    ended_rows: int = 0
    file_deletes: int = 0
    size_bytes: int = 0
    oldest: datetime | None = None
    checked_at: datetime | None = None


class FlushGovernor:
    """Watches the tables of one sink. The thread starts with the first stream and ends with `close` or the process.

    `find_tables`: returns the tables that a stream wrote to before.
    """

    def __init__(
        self,
        policy: FlushPolicy,
        open_lake: Callable[[], Lake],
        find_tables: Callable[[Lake, str | None], Iterable[str]] = lambda _, __: (),
        clock: Now = utc_now,
        recorder: Recorder = LOG_RECORDER,
        rests: Rests = Rests(),  # noqa: B008 # frozen
    ) -> None:
        self._policy = policy
        self._open_lake = open_lake
        self._find_tables = find_tables
        self._clock = clock
        self._streams: set[str | None] = set()  # whose tables are known
        self._new_streams: set[str | None] = set()
        self._recorder = recorder
        self._rests = rests
        self._failures = FailureCounts()
        self._tables: dict[str, InlinedBacklog] = {}
        self._changed = threading.Condition()
        self._is_closed = False
        self._thread: threading.Thread | None = None
        self.checks = self.flushes = 0  # how often tables were counted, and flushed

    @property
    def is_closed(self) -> bool:
        return self._is_closed

    def watch_stream(self, stream: str | None) -> None:
        """Watch the tables that a stream wrote to before, as soon as the thread finds them."""
        with self._changed:
            if stream not in self._streams and stream not in self._new_streams:
                self._new_streams.add(stream)
                self._start()
                self._changed.notify_all()

    def note(self, table: str, rows: int, size_bytes: int) -> None:
        """Take notice of rows that a batch has inlined; 0 rows make the table a watched one."""
        with self._changed:
            backlog = self._tables.setdefault(table, InlinedBacklog())
            backlog.rows += rows
            backlog.size_bytes += size_bytes
            if rows and backlog.oldest is None:
                backlog.oldest = self._clock()
            self._start()
            if backlog.checked_at is None or self._policy.is_due(backlog, self._clock()):
                self._changed.notify_all()

    def wait_if_behind(self) -> float:
        """Wait while flushing is several thresholds behind, for the policy's budget at most; return the seconds."""
        start = self._clock()
        with self._changed:
            if not self._is_behind():
                return 0.0
            self._changed.wait_for(lambda: not self._is_behind(), self._policy.budget.total_seconds())
        return (self._clock() - start).total_seconds()

    def close(self, seconds: float = EXIT_SECONDS) -> None:
        """End the thread; a flush that runs may finish, for so long at most."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(seconds)

    def _start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="ducklake-flush", daemon=True)
            self._thread.start()

    def _is_behind(self) -> bool:
        return any(self._policy.is_due(backlog, self._clock(), BEHIND) for backlog in self._tables.values())

    # ---- in the thread

    def _run(self) -> None:
        while not self._is_closed:
            try:
                with self._open_lake() as lake:
                    self._govern(lake)
            except NoLakeFound:  # the first batch will create it
                self._pause(self._rests.after_error, lambda: bool(self._tables))
            except Exception as error:  # noqa: BLE001 # the thread must outlive a catalog that is away, and tries again
                self._note_failure(error)
                self._pause(self._rests.after_error)

    def _govern(self, lake: Lake) -> None:
        rest = timedelta(0)
        while True:
            with self._changed:
                self._changed.wait_for(self._has_work, rest.total_seconds())
                if self._is_closed:
                    return
            are_found = self._find_tables_of_streams(lake)
            with self._changed:
                names = list(self._tables)
            failures = [name for name in names if not self._try_to_visit(lake, name)]
            self._failures.end()
            if failures or not are_found:
                self._pause(self._rests.after_error)
            rest = self._rest()

    def _find_tables_of_streams(self, lake: Lake) -> bool:
        """Watch the tables of new streams; tell whether all were found. Else those that were are flushed meanwhile."""
        with self._changed:
            new = list(self._new_streams)
        missing = [stream for stream in new if not self._try_to_find_tables(lake, stream)]
        return not missing

    def _try_to_find_tables(self, lake: Lake, stream: str | None) -> bool:
        subject = f"stream {stream}"
        try:
            for table in self._find_tables(lake, stream):
                with self._changed:
                    self._tables.setdefault(table, InlinedBacklog())
        except TerminalError as error:
            self._note_failure(error, subject, stream=stream)
            return False
        self._failures.end(subject)
        with self._changed:
            self._new_streams.discard(stream)
            self._streams.add(stream)
        return True

    def _pause(self, time: timedelta, ends: Callable[[], bool] = lambda: False) -> None:
        with self._changed:
            self._rests.wait(self._changed, lambda: self._is_closed or ends(), time.total_seconds())

    def _note_failure(self, error: Exception, subject: str | None = None, **names: object) -> None:
        self._recorder.record(FlushFailed(names, self._failures.add(error, subject), error))

    def _try_to_visit(self, lake: Lake, name: str) -> bool:
        """Visit a table; tell whether that went well."""
        try:
            self._visit(lake, name)
        except ObjectNotFound:  # dropped, or renamed; a batch that writes to it again makes it known again
            with self._changed:
                self._tables.pop(name, None)
        except TerminalError as error:  # one table that cannot be flushed must not keep the others waiting
            self._note_failure(error, name, table=name)
            return False
        failed = self._failures.end(name)
        if failed:
            self._recorder.record(FlushRecovered(name, failed))
        return True

    def _has_work(self) -> bool:
        if self._is_closed or self._new_streams:
            return True
        now = self._clock()
        return any(w.checked_at is None or self._policy.is_due(w, now) for w in self._tables.values())

    def _visit(self, lake: Lake, name: str) -> None:
        """Count what a table really has, flush it if that is due, and count again."""
        self._count(lake, name)
        with self._changed:
            is_due = self._policy.is_due(self._tables[name], self._clock())
        if is_due and not self._is_closed:
            lake.flush_inlined(name, keep_superseded=self._policy.keep_superseded)
            self.flushes += 1
            self._count(lake, name)

    def _count(self, lake: Lake, name: str) -> None:
        state = lake.inlined_state(name)
        self.checks += 1
        with self._changed:
            self._tables[name] = InlinedBacklog(
                state.rows, state.ended_rows, state.file_deletes, state.size_bytes, state.oldest, self._clock()
            )
            self._changed.notify_all()

    def _rest(self) -> timedelta:
        """Return how long nothing can become due without a batch saying so; deletes of others are seen by then."""
        with self._changed:
            oldest = [w.oldest for w in self._tables.values() if w.oldest is not None]
        if self._policy.age is None or not oldest:
            return self._rests.longest
        until_due = min(oldest) + self._policy.age - self._clock()
        return min(max(until_due, self._rests.shortest), self._rests.longest)
