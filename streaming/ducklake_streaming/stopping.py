"""Run streaming queries until the process is told to end, and end them well. Runs in the main thread of a driver.

A handler that calls `query.stop()` breaks: the main thread waits for the JVM on the connection that it would use. So
the handler only sets a flag, which the main thread looks at between short waits.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from types import FrameType

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql.streaming.query import StreamingQuery

from ducklake_core.clock import SYSTEM_CLOCK, Clock
from ducklake_core.errors import InvalidInput
from ducklake_core.observe import LOG_RECORDER
from ducklake_sinks import DuckLakeSink
from ducklake_streaming.stopping_events import QueryFailedAfterSignal, QueryNotStopped, Stopped, Stopping

SIGNALS = (signal.SIGTERM, signal.SIGINT)
POLL_SECONDS = 0.5
SIGNAL_SECONDS = 2.0
JVM_GONE = (Py4JError, ConnectionError)  # what any call says when the JVM has ended


def run_until_stopped(
    query: StreamingQuery | Sequence[StreamingQuery], *sinks: DuckLakeSink, clock: Clock = SYSTEM_CLOCK
) -> None:
    """Wait until the queries end or SIGTERM or SIGINT comes; then stop those that run, and close the sinks.

    Call it as the last thing of a driver, in its main thread. On a signal it returns, so that the process ends with
    code 0, also when the same signal has ended Spark's JVM: a batch that runs is committed or is repeated by the next
    start, never lost or written twice. A second signal ends the process at once. When a query fails, the others are
    stopped, and its error is raised. Sinks begin to flush what earlier runs have left inlined. Handlers of before are
    restored.
    """
    queries = [query] if isinstance(query, StreamingQuery) or not isinstance(query, Sequence) else list(query)
    with flag_of_signals() as flag:
        try:
            _start_flushing(queries, sinks)
            _wait(queries, flag, clock)
        finally:
            try:
                _stop(queries, flag, clock)
            finally:
                _close(sinks)


class StopFlag:
    """Whether a signal has come, and which."""

    def __init__(self) -> None:
        self.name: str | None = None

    @property
    def is_set(self) -> bool:
        return self.name is not None

    def handle(self, number: int, _: FrameType | None) -> None:
        if self.is_set:  # whoever sends it twice will not wait
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        self.name = signal.Signals(number).name


@contextmanager
def flag_of_signals() -> Iterator[StopFlag]:
    """Note SIGTERM and SIGINT in a flag while the block lasts; the second one ends the process at once."""
    if threading.current_thread() is not threading.main_thread():
        raise InvalidInput("queries must be run in the main thread: Python gives signals to no other")
    flag = StopFlag()
    before = {number: signal.signal(number, flag.handle) for number in SIGNALS}
    try:
        yield flag
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _start_flushing(queries: Sequence[StreamingQuery], sinks: Sequence[DuckLakeSink]) -> None:
    stream = queries[0].id if len(queries) == 1 else None  # what a sink without a name calls its stream
    for sink in sinks:
        sink.start_flushing(stream if sink.options.stream is None else None)


def _wait(queries: Sequence[StreamingQuery], flag: StopFlag, clock: Clock) -> None:
    """Wait until all queries have ended or a signal has come; raise the error of one that fails meanwhile.

    A signal to the whole process group ends the JVM, too: a query that fails after it is only logged.
    """
    try:
        while not flag.is_set and (running := [one for one in queries if one.isActive]):
            for one in running:
                one.awaitTermination(POLL_SECONDS / len(running))  # type: ignore[arg-type] # any number will do
        for one in queries:
            if (error := one.exception()) is not None:
                raise error
    except (PySparkException, *JVM_GONE) as error:
        if isinstance(error, JVM_GONE):
            _await_signal(flag, clock)
        if not flag.is_set:
            raise
        LOG_RECORDER.record(QueryFailedAfterSignal(flag.name, error))


def _await_signal(flag: StopFlag, clock: Clock) -> None:
    """Give a signal that ended the JVM a moment to be told to us, too."""
    deadline = clock.seconds() + SIGNAL_SECONDS
    while not flag.is_set and clock.seconds() < deadline:
        clock.sleep(0.01)


def _stop(queries: Sequence[StreamingQuery], flag: StopFlag, clock: Clock) -> None:
    start = clock.seconds()
    running = [one for one in queries if _is_active(one)]
    if running:
        LOG_RECORDER.record(Stopping(len(running), flag.name))
    for one in running:
        try:
            one.stop()
        except (PySparkException, *JVM_GONE) as error:  # one that cannot be stopped must not keep the others running
            LOG_RECORDER.record(QueryNotStopped(error))
    LOG_RECORDER.record(Stopped(clock.seconds() - start))


def _is_active(query: StreamingQuery) -> bool:
    try:
        return query.isActive
    except JVM_GONE:
        return False


def _close(sinks: Sequence[DuckLakeSink]) -> None:
    """Close each sink, whatever becomes of the others; raise the first error."""
    with ExitStack() as stack:
        for sink in reversed(sinks):
            stack.callback(sink.close)
