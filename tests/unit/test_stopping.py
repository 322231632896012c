"""`run_until_stopped` with queries that say what they are told to: it ends well even where the JVM does not."""

import logging
import os
import signal
from collections.abc import Callable
from itertools import count

import pytest
from py4j.protocol import Py4JNetworkError
from pyspark.errors import StreamingQueryException

from ducklake_core.clock import SYSTEM_CLOCK, Clock
from ducklake_sinks import DuckLakeSink
from ducklake_streaming import run_until_stopped, stopping


class FakeQuery:
    """A query that runs until its JVM is gone; `wait` is what happens while somebody waits for it."""

    id = "q"

    def __init__(self, wait: Callable[["FakeQuery"], None]) -> None:
        self.wait = wait
        self.error: Exception | None = None
        self.stops = 0

    @property
    def isActive(self) -> bool:  # noqa: N802 # Spark's name
        self.ask_jvm()
        return True

    def awaitTermination(self, _: float) -> None:  # noqa: N802 # Spark's name
        self.wait(self)
        self.ask_jvm()

    def exception(self) -> None:
        self.ask_jvm()

    def stop(self) -> None:
        self.ask_jvm()
        self.stops += 1

    def ask_jvm(self) -> None:
        if self.error is not None:
            raise self.error


class FakeSink(DuckLakeSink):
    def __init__(self, error: Exception | None = None) -> None:
        super().__init__("sqlite:///nowhere.sqlite", "t", stream="s")
        self.error = error
        self.is_closed = False

    def start_flushing(self, stream: str | None = None) -> None:
        pass

    def close(self) -> None:
        self.is_closed = True
        if self.error is not None:
            raise self.error


def run(wait: Callable[[FakeQuery], None], *sinks: DuckLakeSink, clock: Clock = SYSTEM_CLOCK) -> FakeQuery:
    query = FakeQuery(wait)
    run_until_stopped([query], *sinks, clock=clock)  # type: ignore[list-item] # has what is asked of a query
    return query


@pytest.mark.parametrize(
    "error", [Py4JNetworkError("gone"), ConnectionRefusedError("gone"), ConnectionResetError("gone")], ids=repr
)
def test_driver_whose_jvm_dies_with_the_signal_returns_and_closes_its_sinks(error: Exception) -> None:
    def die(query: FakeQuery) -> None:
        query.error = error
        os.kill(os.getpid(), signal.SIGTERM)

    sink = FakeSink()
    query = run(die, sink)

    assert sink.is_closed
    assert query.stops == 0


def test_query_that_fails_with_the_signal_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    def die(_: FakeQuery) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        raise StreamingQueryException("the context was shut down")

    with caplog.at_level(logging.WARNING):
        run(die)

    assert any("query_failed signal=SIGTERM" in message for message in caplog.messages)


def test_jvm_that_dies_without_a_signal_is_an_error() -> None:
    seconds = count(step=stopping.SIGNAL_SECONDS)

    def die(query: FakeQuery) -> None:
        query.error = Py4JNetworkError("gone")

    sink = FakeSink()
    with pytest.raises(Py4JNetworkError, match="gone"):
        run(die, sink, clock=Clock(seconds=lambda: next(seconds)))

    assert sink.is_closed


def test_sink_that_cannot_be_closed_keeps_no_other_open() -> None:
    sinks = FakeSink(OSError("first")), FakeSink()

    with pytest.raises(OSError, match="first"):
        run(lambda _: os.kill(os.getpid(), signal.SIGTERM), *sinks)

    assert [sink.is_closed for sink in sinks] == [True, True]
