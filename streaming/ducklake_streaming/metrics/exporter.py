"""The exporter of one process: numbers, health, the threads that ask, and the server. Runs on the driver."""

from __future__ import annotations

import platform
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Self

import pyspark
from pyspark.sql import SparkSession

from ducklake_core.clock import SYSTEM_CLOCK, Clock
from ducklake_core.observe import LOG_RECORDER, Recorder, Recorders
from ducklake_core.version import package_version
from ducklake_streaming.metrics import declared as m
from ducklake_streaming.metrics.answers import METRICS_TEXT, Answer, MakeAnswer
from ducklake_streaming.metrics.events import MetricsServed
from ducklake_streaming.metrics.health import STUCK_SECONDS, Health, State
from ducklake_streaming.metrics.listener import QueryListener
from ducklake_streaming.metrics.poller import Poller
from ducklake_streaming.metrics.progress import ProgressCounter
from ducklake_streaming.metrics.recorder import LakeRecorder, PipelineRecorder
from ducklake_streaming.metrics.registry import MAX_TABLES, Numbers
from ducklake_streaming.metrics.server import Address, MetricsServer
from ducklake_streaming.metrics.status_page import StatusPage
from ducklake_streaming.stopping import JVM_GONE

PATIENCE_SECONDS = 5.0  # of a poll with a catalog that is away: the next one comes soon
JVM_SECONDS = 10.0  # from one question to the next


class Exporter:
    """Serves the metrics of a process from `start` to `close`. Raises InvalidInput where it cannot listen.

    `routes` may be added to until `start`.
    """

    def __init__(
        self,
        address: Address,
        *,
        max_tables: int = MAX_TABLES,
        stuck_seconds: float = STUCK_SECONDS,
        recorder: Recorder = LOG_RECORDER,
        redact: Callable[[str], str] = lambda text: text,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self.numbers = Numbers(max_tables, redact)
        self.health = Health(self.numbers, stuck_seconds, clock, redact)
        self.page = StatusPage(clock.now, redact)
        self.routes: dict[str, MakeAnswer] = {
            "/metrics": lambda: Answer(self.numbers.text(), METRICS_TEXT),
            "/livez": self.health.livez,
            "/readyz": self.health.readyz,
            **self.page.routes(),
        }
        self._recorder = recorder
        self._clock = clock
        self._pipelines: set[str] = set()
        self._progress = ProgressCounter(self.numbers, self.health, self._pipeline_of, clock)
        self._pollers: list[Poller] = []
        self._listening: tuple[SparkSession, QueryListener] | None = None
        self._server = MetricsServer(address, self.routes)
        self.numbers.set(m.BUILD_INFO, 1, package_version(), pyspark.__version__, platform.python_version())

    @property
    def url(self) -> str:
        return self._server.url

    @property
    def progress(self) -> ProgressCounter:
        return self._progress

    def start(self) -> Self:
        self._server.start()
        self._recorder.record(MetricsServed(self.url))
        return self

    def lake_recorder(self) -> Recorder:
        """Return who counts what happens to the lake beside the pipelines."""
        return Recorders(LakeRecorder(self.numbers), self.page.run)

    def pipeline_recorder(
        self,
        name: str,
        trigger_seconds: float = 0.0,
        state: State = State.STARTING,
        patience_seconds: float = 0.0,
    ) -> Recorder:
        """Make a pipeline known, and return who counts what happens to it. Its query has its name, or none.

        `patience_seconds`: how long it waits for a catalog that is away.
        """
        self._pipelines.add(name)
        self.health.expect(name, trigger_seconds, state, patience_seconds)
        self.numbers.set(m.SINK_TRIGGER, trigger_seconds, name)
        counter = PipelineRecorder(self.numbers, name, self._clock)
        return Recorders(counter, self.health.recorder(name), self.page.run.recorder(name))

    def listen_to(self, spark: SparkSession) -> None:
        """Count the progress of queries."""
        listener = QueryListener(self._progress)
        spark.streams.addListener(listener)
        self._listening = spark, listener

    def stop_watching(self) -> None:
        """Ask and hear nothing any more; the numbers stay."""
        for poller in self._pollers:
            poller.stop()
        for poller in self._pollers:
            poller.close()
        self.stop_listening()

    def stop_listening(self) -> None:
        """Count no progress any more."""
        listening, self._listening = self._listening, None
        if listening is not None:
            spark, listener = listening
            with suppress(*JVM_GONE):
                spark.streams.removeListener(listener)

    def poll(
        self, name: str, every_seconds: float, ask: Callable[[], None], end: Callable[[], None] = lambda: None
    ) -> None:
        """Ask for something every so often, from now on; `end` is called after the last time."""
        poller = Poller(name, every_seconds, ask, self._recorder, end)
        self._pollers.append(poller)
        poller.start()

    def close(self) -> None:
        """End the threads and the server."""
        self.stop_watching()
        self._server.close()

    def _pipeline_of(self, query_name: str | None) -> str | None:
        """Return the pipeline of a query: that of its name; of one without a name, the only one there is."""
        if query_name is None:
            return next(iter(self._pipelines)) if len(self._pipelines) == 1 else None
        return query_name if query_name in self._pipelines else None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.close()
