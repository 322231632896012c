"""One pipeline of a job from start to end: it waits for its input, runs its query, begins again after an outage.

Runs on the driver, in a thread of its own for each pipeline: one that waits or fails keeps no other from running.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from typing import TypeAlias

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from ducklake_core.clock import SYSTEM_CLOCK, Clock
from ducklake_core.observe import Recorder
from ducklake_sinks.query import QueryFinder
from ducklake_streaming.jobs.batch_gate import BatchGate, GateClosed, await_stop
from ducklake_streaming.jobs.events import PipelineEnded, PipelineFailed, PipelineRestarted, PipelineStarted
from ducklake_streaming.jobs.exit_codes import ExitCode, exit_code_of, is_broker_away, is_data_loss, is_python_late
from ducklake_streaming.jobs.kafka_watch import KafkaWatch
from ducklake_streaming.kafka.errors import BrokerRefused, BrokerUnavailable, RecordsLost
from ducklake_streaming.kafka.events import ClusterNotWatched
from ducklake_streaming.kafka.places import Offsets, offsets_of_source
from ducklake_streaming.stopping import JVM_GONE

WriteBatch: TypeAlias = Callable[[DataFrame, int], None]
StartQuery: TypeAlias = Callable[[WriteBatch], StreamingQuery]

POLL_SECONDS = 0.25
LOOK_SECONDS = 5.0  # from one look at the cluster to the next
STABLE_SECONDS = 60.0  # a query that has run for so long is well: what comes then is a new outage
RETRY_SECONDS = 120.0  # for how long a query of an input without a timeout may begin again and again
PAUSE_SECONDS = 1.0  # before a query begins again


@dataclass(frozen=True, slots=True)
class PipelineParts:
    """What a pipeline is made of. `watch` is that of an input from Kafka, else None.

    The writer is made in the pipeline's own thread: it may ask a schema registry, which may be away.
    """

    name: str
    make_writer: Callable[[], WriteBatch]
    start: StartQuery
    gate: BatchGate
    watch: KafkaWatch | None
    recorder: Recorder


class Supervisor:
    """Runs a pipeline until it ends, fails or is stopped; then `code` and `error` tell how."""

    def __init__(self, parts: PipelineParts, stop: threading.Event, clock: Clock = SYSTEM_CLOCK) -> None:
        self.name = parts.name
        self.code = ExitCode.ENDED
        self.error: BaseException | None = None
        self.failed_at = 0.0
        self._parts = parts
        self._stop = stop
        self._clock = clock
        self._watch = parts.watch
        self._writer = cache(parts.make_writer)
        self._finder = QueryFinder()
        self._look_at = 0.0
        self._thread = threading.Thread(target=self._run, name=f"pipeline {parts.name}", daemon=True)

    def begin(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Tell it to end after the batch that runs; it does so in its own time."""
        self._stop.set()

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive()

    @property
    def has_failed(self) -> bool:
        return self.error is not None and not self.is_running

    def _run(self) -> None:
        try:
            self._run_queries()
        except BaseException as error:  # noqa: BLE001 # the thread ends here, and whoever waits must hear why
            self._fail(error)
        else:
            self._parts.recorder.record(PipelineEnded(self.name))

    def _fail(self, error: BaseException) -> None:
        """Keep an error, unless it comes of the stop itself."""
        if self._stop.is_set() and exit_code_of(error) is ExitCode.FAILED:
            self._parts.recorder.record(PipelineEnded(self.name))
            return
        self.error, self.code, self.failed_at = error, exit_code_of(error), self._clock.seconds()
        self._parts.recorder.record(PipelineFailed(self.name, self.code, error))

    def _run_queries(self) -> None:
        """Run one query after another, as long as they fail of what passes by itself, and not for too long."""
        budget = RestartBudget(RETRY_SECONDS if self._parts.watch is None else self._parts.watch.timeout_seconds)
        self._writer()
        while not self._stop.is_set():
            self._prepare()
            started, batches = self._clock.seconds(), self._parts.gate.batches
            error = self._run_query()
            if error is None:
                return
            is_well = self._parts.gate.batches > batches or self._clock.seconds() - started > STABLE_SECONDS
            may_pass = is_broker_away(error) or is_python_late(error)
            if not may_pass or not budget.allows(self._clock.seconds(), is_well=is_well):
                raise error
            self._parts.recorder.record(PipelineRestarted(self.name, error))
            self._stop.wait(PAUSE_SECONDS)

    def _prepare(self) -> None:
        """Wait for the cluster of the input, and see that what is to be read next is there."""
        if self._watch is not None:
            with self._gives_up_watching():
                self._watch.await_cluster()
                self._watch.prepare()

    @contextmanager
    def _gives_up_watching(self) -> Iterator[None]:
        """Go on without a watch where the cluster refuses us: Java may trust a certificate that we do not know."""
        try:
            yield
        except BrokerRefused as error:
            self._watch = None
            self._parts.recorder.record(ClusterNotWatched(self.name, error))

    def _run_query(self) -> BaseException | None:
        """Run a query to its end; return what made it fail."""
        self._parts.gate.error = None  # that of the query before
        query = self._parts.start(self._write)
        self._parts.recorder.record(PipelineStarted(self.name))
        try:
            self._wait(query)
        finally:
            self._end(query)
        return self._parts.gate.error if self._stop.is_set() else self._explained(self._error_of(query))

    def _wait(self, query: StreamingQuery) -> None:
        """Wait until the query has ended or is to be stopped. Raises what the watch over its input does."""
        while not self._stop.is_set() and query.isActive:
            self._look()
            self._stop.wait(POLL_SECONDS)

    def _look(self) -> None:
        """Look at the cluster of the input, if that is due."""
        now = self._clock.seconds()
        if self._watch is not None and now >= self._look_at:
            self._look_at = now + LOOK_SECONDS
            with self._gives_up_watching():
                self._watch.look()

    def _end(self, query: StreamingQuery) -> None:
        """Stop a query that runs: after its batch, unless that waits for what is away."""
        try:
            if query.isActive:
                self._parts.gate.close(lambda: self._is_working(query))
                query.stop()
        except (PySparkException, *JVM_GONE):
            if not self._stop.is_set():  # who is to end need not know that Spark has ended before
                raise

    def _is_working(self, query: StreamingQuery) -> bool:
        with suppress(BrokerUnavailable, RecordsLost):
            self._look()
        return query.isActive and not (self._watch is not None and self._watch.is_away)

    def _error_of(self, query: StreamingQuery) -> BaseException | None:
        """Return what made the query fail: in a batch, the error as it was raised; else Spark's."""
        error = query.exception()
        return None if error is None else self._parts.gate.error or error

    def _explained(self, error: BaseException | None) -> BaseException | None:
        if error is None or self._watch is None or not is_data_loss(error):
            return error
        return self._watch.explain(error)

    def _write(self, batch: DataFrame, batch_id: int) -> None:
        """Write one batch; Spark calls this. What comes when the pipeline is about to end is left to the next start."""
        try:
            with self._parts.gate.batch():
                if self._watch is not None and self._watch.counts_losses:
                    self._watch.warn_of_losses(*self._range_of(batch, batch_id))
                self._writer()(batch, batch_id)
        except GateClosed:
            await_stop(batch.sparkSession)
            raise

    def _range_of(self, batch: DataFrame, batch_id: int) -> tuple[Offsets, Offsets]:
        """Return where a batch begins and ends in each partition."""
        query = self._finder.find(batch.sparkSession, None)
        before, after = query.offsets(batch_id - 1) if batch_id else None, query.offsets(batch_id)
        return offsets_of_source(before[0] if before else None), offsets_of_source(after[0] if after else None)


class RestartBudget:
    """How long a query may fail again and again."""

    def __init__(self, timeout_seconds: float) -> None:
        self._timeout = timeout_seconds
        self._since: float | None = None

    def allows(self, now: float, *, is_well: bool) -> bool:
        """Tell whether a query that has just failed may begin again. `is_well`: it had worked before it failed."""
        if self._since is None or is_well:
            self._since = now
        return now - self._since < self._timeout
