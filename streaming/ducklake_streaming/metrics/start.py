"""`start_metrics`: the metrics of a sink in a program of one's own. Runs on the driver."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from functools import partial

from pyspark.sql import SparkSession

from ducklake_core import Lake
from ducklake_core.errors import InvalidInput
from ducklake_core.observe import NO_RECORDER, Event, Recorders
from ducklake_core.spec.quantities import parse_duration
from ducklake_sinks import DuckLakeSink
from ducklake_sinks.options import SinkOptions
from ducklake_sinks.report import BatchFailed, BatchReport
from ducklake_streaming.metrics.exporter import JVM_SECONDS, PATIENCE_SECONDS, Exporter
from ducklake_streaming.metrics.health import STUCK_SECONDS, State
from ducklake_streaming.metrics.jvm import JvmPoll
from ducklake_streaming.metrics.lake_poll import LakePoll
from ducklake_streaming.metrics.progress import ProgressCounter
from ducklake_streaming.metrics.query_runs import Run
from ducklake_streaming.metrics.registry import MAX_TABLES
from ducklake_streaming.metrics.server import Address


def start_metrics(  # noqa: PLR0913 # each is a choice that users make, by name
    sink: DuckLakeSink,
    *,
    port: int = 9464,
    host: str = "127.0.0.1",
    pipeline: str | None = None,
    trigger: str | float | timedelta = 0,
    poll: bool = True,
    every: str | float | timedelta = "30s",
    stuck_after: str | float | timedelta = STUCK_SECONDS,
    max_tables: int = MAX_TABLES,
    certificate: str | None = None,
    key: str | None = None,
    client_ca: str | None = None,
) -> Exporter:
    """Serve the metrics of a sink at `http://host:port/metrics`, until `close` of what this returns.

    Call it after Spark has started and before the sink's first batch. `pipeline` is the label of its series, by default
    the sink's stream, or its table; the query has the same name, or none. `trigger` is how often the query
    begins a batch: alerts and `/livez` give it three times as long. `port` 0: any that is free, as `url` tells. The
    others are as in `[metrics]` of a job file. Raises InvalidInput where it cannot listen, or came too late.
    """
    rest, trigger_seconds = _seconds("every", every), _seconds("trigger", trigger)
    stuck = _seconds("stuck_after", stuck_after)
    spark = SparkSession.getActiveSession()
    if spark is None or not hasattr(spark, "_jsparkSession"):
        raise InvalidInput("metrics need a classic Spark session in this process: start one before start_metrics")
    options = sink.options
    exporter = Exporter(Address(host, port, certificate, key, client_ca), max_tables=max_tables, stuck_seconds=stuck)
    try:
        name = pipeline or options.stream or options.table or "default"
        patience = options.catalog_timeout.total_seconds()
        recorder = exporter.pipeline_recorder(name, trigger_seconds, State.STARTING, patience)
        sink.add_recorder(Recorders(exporter.lake_recorder(), _Claims(sink, name, exporter.progress), recorder))
    except InvalidInput:
        exporter.close()
        raise
    exporter.progress.follow(name, recorder)
    exporter.listen_to(spark)
    if poll:
        lake = LakePoll(partial(_open_lake, options), exporter.numbers)
        exporter.poll("catalog", rest, exporter.page.hears_lake(lake), lake.close)
    exporter.poll("jvm", JVM_SECONDS, JvmPoll(spark, exporter.numbers))
    return exporter.start()


@dataclass(frozen=True, slots=True)
class _Claims:
    """Says which query is that of a sink: the one whose batches it sees."""

    sink: DuckLakeSink
    pipeline: str
    progress: ProgressCounter

    def record(self, event: Event) -> None:
        query = self.sink.current_query if isinstance(event, BatchReport | BatchFailed) else None
        if query is not None and query.handle is not None:
            self.progress.claim(self.pipeline, Run(query.query_id, query.run_id))


def _seconds(name: str, value: str | float | timedelta) -> float:
    try:
        return parse_duration(value).total_seconds()
    except ValueError as error:
        raise InvalidInput(f"{name} is {value!r}, but must be {error}") from error


def _open_lake(options: SinkOptions) -> Lake:
    return Lake.open(
        options.catalog,
        storage=options.storage,
        metadata_schema=options.metadata_schema,
        catalog_timeout=PATIENCE_SECONDS,
        recorder=NO_RECORDER,
    )
