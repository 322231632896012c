"""The metrics of a job: who counts what its pipelines do, and what is asked beside them. Runs on the driver."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial

from pyspark.sql import SparkSession

from ducklake_core import Lake
from ducklake_core.observe import NO_RECORDER, Recorder
from ducklake_core.spec.names import join_table_name, split_table_name
from ducklake_core.spec.paths import hadoop_storage
from ducklake_streaming.jobs.checkpoint import Checkpoint
from ducklake_streaming.jobs.job_file import LoadedJob
from ducklake_streaming.jobs.metrics_settings import MetricsSettings
from ducklake_streaming.jobs.settings import DuckLakeInput, Job, KafkaInput
from ducklake_streaming.kafka.places import Offsets
from ducklake_streaming.metrics import declared as m
from ducklake_streaming.metrics.exporter import JVM_SECONDS, PATIENCE_SECONDS, Exporter
from ducklake_streaming.metrics.jvm import JvmPoll
from ducklake_streaming.metrics.kafka_lag import KafkaLagPoll
from ducklake_streaming.metrics.lake_poll import LakePoll
from ducklake_streaming.metrics.server import Address

LAG_SECONDS = 10.0  # from one question to Kafka to the next


@dataclass(frozen=True, slots=True)
class JobMetrics:
    """What counts a job; `exporter` None: nothing does."""

    job: Job | None = None
    exporter: Exporter | None = None

    @classmethod
    def of(cls, loaded: LoadedJob, recorder: Recorder, stack: ExitStack) -> JobMetrics:
        """Begin to serve, if the file asks for it; it ends with `stack`. Raises InvalidInput where it cannot listen."""
        settings = loaded.job.metrics
        if settings is None:
            return NO_METRICS
        exporter = Exporter(
            _address(settings),
            max_tables=settings.max_tables,
            stuck_seconds=settings.stuck_after.total_seconds(),
            recorder=recorder,
            redact=loaded.redactor.redact,
        )
        stack.callback(exporter.close)
        _name_tables(exporter, loaded.job)
        for name in loaded.job.pipeline:
            exporter.health.expect(name)
            exporter.page.run.expect(name)
        exporter.start()
        return cls(loaded.job, exporter)

    @property
    def lake_recorder(self) -> Recorder:
        return NO_RECORDER if self.exporter is None else self.exporter.lake_recorder()

    def recorders(self, name: str) -> list[Recorder]:
        """Return who counts what a pipeline does."""
        if self.exporter is None or self.job is None:
            return []
        trigger, patience = self.job.pipeline[name].trigger, self.job.catalog.timeout.total_seconds()
        return [self.exporter.pipeline_recorder(name, trigger.interval.total_seconds(), patience_seconds=patience)]

    def watch(self, spark: SparkSession, stack: ExitStack) -> None:
        """Listen to queries, and ask catalog, Kafka and JVM in threads of their own, which end with `stack`."""
        exporter, job = self.exporter, self.job
        if exporter is None or job is None or job.metrics is None:
            return
        numbers = exporter.numbers
        numbers.set(m.CATALOG_UP, 1)  # it was waited for before Spark started
        stack.callback(exporter.stop_watching)
        exporter.listen_to(spark)
        if job.metrics.poll:
            lake = LakePoll(partial(_open_lake, job), numbers)
            exporter.poll("catalog", job.metrics.every.total_seconds(), exporter.page.hears_lake(lake), lake.close)
        for name, one in job.pipeline.items():
            if isinstance(one.input, KafkaInput):  # in a thread each: one that does not answer delays no other
                lag = KafkaLagPoll(name, one.input, partial(self._offsets_of, spark), numbers)
                exporter.poll(f"kafka of {name}", LAG_SECONDS, exporter.page.hears_lag(lag, name, numbers))
            if isinstance(one.input, DuckLakeInput) and not one.input.reads_change_feed:
                exporter.progress.count_as_inserts(name)
        exporter.poll("jvm", JVM_SECONDS, JvmPoll(spark, numbers))
        if job.maintenance is not None:
            numbers.set(m.MAINTENANCE_EVERY, job.maintenance.every.total_seconds())

    def _offsets_of(self, spark: SparkSession, name: str) -> Offsets:
        """Return what a pipeline reads next: as its query has told, and before that as its checkpoint has it."""
        if self.exporter is None or self.job is None:
            return {}
        told = self.exporter.progress.offsets_of(name)
        return told or Checkpoint(spark, hadoop_storage(self.job.pipeline[name].checkpoint)).next_offsets()


NO_METRICS = JobMetrics()


def _address(settings: MetricsSettings) -> Address:
    return Address(settings.host, settings.port, settings.certificate, settings.key, settings.client_ca)


def _name_tables(exporter: Exporter, job: Job) -> None:
    """Give the tables that the file names their own series, however many others the lake has."""
    for pipeline in job.pipeline.values():
        if pipeline.sink.table is not None:
            exporter.numbers.tables.label(join_table_name(*split_table_name(pipeline.sink.table)))


def _open_lake(job: Job) -> Lake:
    catalog = job.catalog
    return Lake.open(
        catalog.url,
        storage=catalog.storage,
        metadata_schema=catalog.metadata_schema,
        catalog_timeout=PATIENCE_SECONDS,
        recorder=NO_RECORDER,
    )
