"""Makes the parts of each pipeline: sink, decoder, writer, watch over its input, and how its query starts. Driver.

It also makes who maintains the lake beside them.
"""

from __future__ import annotations

import threading
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from ducklake_core import Lake
from ducklake_core.clock import SYSTEM_CLOCK, Clock
from ducklake_core.errors import InvalidInput
from ducklake_core.observe import Recorder, Recorders
from ducklake_core.retries import Patience
from ducklake_core.spec.paths import hadoop_storage
from ducklake_sinks import DuckLakeSink
from ducklake_streaming.formats.choose import make_decoder
from ducklake_streaming.jobs.batch_gate import BatchGate
from ducklake_streaming.jobs.batch_writer import BatchWriter
from ducklake_streaming.jobs.checkpoint import Checkpoint
from ducklake_streaming.jobs.inputs import read_stream, trigger_arguments
from ducklake_streaming.jobs.job_lake import open_job_lake
from ducklake_streaming.jobs.job_metrics import NO_METRICS, JobMetrics
from ducklake_streaming.jobs.kafka_watch import KafkaWatch
from ducklake_streaming.jobs.maintainer import Maintainer
from ducklake_streaming.jobs.settings import Job, KafkaInput
from ducklake_streaming.jobs.supervisor import PipelineParts, Supervisor, WriteBatch
from ducklake_streaming.kafka.events import ClusterNotWatched
from ducklake_streaming.maintenance.spark_runner import choose_runner
from ducklake_streaming.stopping import StopFlag


@dataclass(frozen=True, slots=True)
class Assembly:
    """Makes pipelines of a job in one session; what they open is closed with `stack`."""

    spark: SparkSession
    job: Job
    flag: StopFlag
    recorder: Recorder
    stack: ExitStack
    metrics: JobMetrics = NO_METRICS
    clock: Clock = SYSTEM_CLOCK

    def supervisor(self, name: str) -> Supervisor:
        """Return who runs a pipeline."""
        gate, stop = BatchGate(), threading.Event()
        told = Recorders(self.recorder, *self.metrics.recorders(name))
        recorder = Recorders(told, gate)
        sink = DuckLakeSink(**self.job.sink_arguments(name), recorder=recorder)
        self.stack.callback(sink.close)
        sink.start_flushing()
        writer = partial(self._writer, name, sink, recorder)
        parts = PipelineParts(name, writer, partial(self._start, name), gate, self._watch(name, stop, told), told)
        return Supervisor(parts, stop, self.clock)

    def begin_maintenance(self) -> Maintainer | None:
        """Start who maintains the lake; None where the job does not ask for it. It ends before Spark does."""
        settings = self.job.maintenance
        if settings is None:
            return None
        stop = threading.Event()
        runner = partial(choose_runner, self.spark, settings.executor_tasks)
        maintainer = Maintainer(settings, partial(self._open_lake, stop), self.recorder, stop, runner)
        self.stack.callback(maintainer.end)
        maintainer.begin()
        return maintainer

    def _open_lake(self, stop: threading.Event) -> Lake:
        patience = Patience(self.job.catalog.timeout.total_seconds(), stop.is_set)
        return open_job_lake(self.job.catalog, patience, self.recorder)

    def _writer(self, name: str, sink: DuckLakeSink, recorder: Recorder) -> BatchWriter:
        """Return what writes batches of a pipeline. Raises InvalidInput, and what a schema registry does."""
        pipeline = self.job.pipeline[name]
        decoder = make_decoder(pipeline.input) if isinstance(pipeline.input, KafkaInput) else None
        counts_changes = self.metrics.exporter is not None
        return BatchWriter(name, pipeline, sink, decoder, recorder, counts_changes=counts_changes)

    def _watch(self, name: str, stop: threading.Event, recorder: Recorder) -> KafkaWatch | None:
        """Return who watches the cluster of a pipeline; None for other inputs, and where only Spark can log in."""
        pipeline = self.job.pipeline[name]
        if not isinstance(pipeline.input, KafkaInput):
            return None
        checkpoint = Checkpoint(self.spark, hadoop_storage(pipeline.checkpoint))
        stream = pipeline.stream or name
        try:
            return KafkaWatch(stream, pipeline.input, checkpoint, lambda: stop.is_set() or self.flag.is_set, recorder)
        except InvalidInput as error:
            recorder.record(ClusterNotWatched(stream, error))
            return None

    def _start(self, name: str, write: WriteBatch) -> StreamingQuery:
        """Start the query of a pipeline, from its checkpoint if there is one."""
        pipeline = self.job.pipeline[name]
        writer = read_stream(self.spark, pipeline, self.job).writeStream.foreachBatch(write).queryName(name)
        trigger: dict[str, Any] = trigger_arguments(pipeline.trigger)  # Any: one of the trigger's own arguments
        return writer.option("checkpointLocation", hadoop_storage(pipeline.checkpoint)).trigger(**trigger).start()
