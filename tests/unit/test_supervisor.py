"""How a pipeline's life ends, with queries and watches that do as they are told: no Spark, no broker."""

import threading
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException

from ducklake_core.errors import CatalogUnavailable, SchemaMismatch, StreamFenced
from ducklake_core.observe import Event
from ducklake_streaming.jobs.batch_gate import BatchGate
from ducklake_streaming.jobs.events import PipelineEnded, PipelineFailed, PipelineRestarted, PipelineStarted
from ducklake_streaming.jobs.exit_codes import ExitCode
from ducklake_streaming.jobs.supervisor import PipelineParts, Supervisor
from ducklake_streaming.kafka.errors import BrokerRefused, BrokerUnavailable, RecordsLost
from ducklake_streaming.kafka.events import ClusterNotWatched


class FakeQuery:
    """A query that has ended with an error, or without; or runs until it is stopped."""

    def __init__(self, error: BaseException | None = None, *, is_active: bool = False) -> None:
        self.error = error
        self.isActive = is_active

    def exception(self) -> BaseException | None:
        return self.error

    def stop(self) -> None:
        self.isActive = False


class FakeWatch:
    timeout_seconds = 120.0
    counts_losses = False
    is_away = False

    def __init__(self, error: BaseException | None = None) -> None:
        self.error = error
        self.looks = 0

    def await_cluster(self) -> None:
        if self.error is not None:
            raise self.error

    def prepare(self) -> None: ...

    def look(self) -> None:
        self.looks += 1


class Life:
    """Runs a supervisor to its end, and keeps what it records."""

    def __init__(self, queries: list[FakeQuery], watch: FakeWatch | None = None) -> None:
        self.events: list[Event] = []
        self.gate = BatchGate()
        self.stop = threading.Event()
        parts: Any = PipelineParts("p", lambda: lambda *_: None, self.start, self.gate, watch, self)  # type: ignore[arg-type] # fakes
        self.queries = iter(queries)
        self.on_start: Callable[[], None] = lambda: None
        self.supervisor = Supervisor(parts, self.stop)

    def start(self, _: object) -> Any:  # Any: stands for Spark's query
        self.on_start()
        return next(self.queries)

    def record(self, event: Event) -> None:
        self.events.append(event)

    def run(self) -> ExitCode:
        self.supervisor.begin()
        while self.supervisor.is_running:
            threading.Event().wait(0.01)
        return self.supervisor.code

    @property
    def kinds(self) -> list[type[Event]]:
        return [type(event) for event in self.events]


def test_a_query_that_ends_by_itself_ends_its_pipeline() -> None:
    life = Life([FakeQuery()])

    assert life.run() is ExitCode.ENDED
    assert life.kinds == [PipelineStarted, PipelineEnded]


def test_a_query_that_failed_for_want_of_a_broker_begins_again_and_another_does_not() -> None:
    life = Life([FakeQuery(BrokerUnavailable("away")), FakeQuery(SchemaMismatch("no"))], FakeWatch())

    assert life.run() is ExitCode.FAILED
    assert life.kinds == [PipelineStarted, PipelineRestarted, PipelineStarted, PipelineFailed]


def test_a_query_whose_python_was_too_slow_to_start_begins_again() -> None:
    late = StreamingQueryException("Python worker failed to connect back.")
    life = Life([FakeQuery(late), FakeQuery()])

    assert life.run() is ExitCode.ENDED
    assert life.kinds == [PipelineStarted, PipelineRestarted, PipelineStarted, PipelineEnded]


def test_a_cluster_that_refuses_us_keeps_no_query_from_running() -> None:
    life = Life([FakeQuery()], FakeWatch(BrokerRefused("certificate unknown")))

    assert life.run() is ExitCode.ENDED
    assert life.kinds == [ClusterNotWatched, PipelineStarted, PipelineEnded]


def test_records_that_are_gone_keep_a_query_from_starting() -> None:
    life = Life([], FakeWatch(RecordsLost("gone")))

    assert life.run() is ExitCode.DATA_LOSS
    assert life.kinds == [PipelineFailed]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (StreamFenced("zombie"), ExitCode.FENCED),
        (CatalogUnavailable("stopped"), ExitCode.ENDED),
        (None, ExitCode.ENDED),
    ],
    ids=["fenced", "gave up waiting", "well"],
)
def test_what_the_last_batch_says_counts_though_the_pipeline_was_stopped(
    error: BaseException | None, code: ExitCode
) -> None:
    query = FakeQuery(is_active=True)
    life = Life([query])

    def fail_and_stop() -> None:
        life.stop.set()
        life.gate.error = error

    life.on_start = fail_and_stop

    assert life.run() is code
    assert not query.isActive
