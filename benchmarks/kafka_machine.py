"""What benchmarks of Kafka share: a broker, a Spark, a PostgreSQL, and pipelines on new lakes. Runs on the driver."""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from benchmarks.contenders import Place, Places
from benchmarks.kafka_events import PARTITIONS, SCHEMA
from ducklake_core.observe import Event
from ducklake_sinks import DuckLakeSink
from ducklake_sinks.report import BatchReport
from ducklake_streaming.demo.local_kafka import Kafka, Record, run_kafka
from ducklake_streaming.formats.choose import make_decoder
from ducklake_streaming.jobs.batch_writer import BatchWriter
from ducklake_streaming.jobs.inputs import read_stream
from ducklake_streaming.jobs.job_file import load_job
from ducklake_streaming.jobs.settings import KafkaInput
from ducklake_streaming.session import make_session
from tests.fixtures.kafka_jars import connector_jars
from tests.fixtures.postgres import run_postgres

PIPELINE = "events"
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "2g",
    "spark.log.level": "ERROR",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.numRecentProgressUpdates": "10000",
}
JOB = """
[catalog]
url = {catalog}
data_path = {data_path}

[pipeline.events]
checkpoint = {checkpoint}

[pipeline.events.input]
kind = "kafka"
servers = {servers}
topics = {topics}
{format}
max_records_per_trigger = {batch_records}

[pipeline.events.sink]
table = "main.events"
on_bad_row = "quarantine"
dead_letter_table = "main.dead_letters"
flush = {{ rows = 100_000, bytes = "64MB", age = "5m" }}
"""
JSON = f'format = "json"\nschema = "{SCHEMA}"'


@dataclass
class Phases:
    """A recorder that keeps what the sink says of each batch."""

    reports: dict[int, BatchReport] = field(default_factory=dict)

    def record(self, event: Event) -> None:
        if isinstance(event, BatchReport) and event.rows:
            self.reports[int(str(event.names["batch"]))] = event

    def check_rows(self, expected: int) -> None:
        """See that rows were measured: dead letters would be something else."""
        found = sum(report.rows for report in self.reports.values())
        assert found == expected, f"{found} of {expected} records became rows"


@dataclass(frozen=True)
class Bench:
    """One pipeline on a new lake, and what it is made of."""

    spark: SparkSession
    frame: DataFrame
    sink: DuckLakeSink
    writer: BatchWriter
    phases: Phases
    checkpoint: str

    def start(self, turn: Callable[[DataFrame, int], None]) -> StreamingQuery:
        return self.frame.writeStream.foreachBatch(turn).option("checkpointLocation", self.checkpoint).start()


@dataclass(frozen=True)
class Machine:
    """What all benches share."""

    spark: SparkSession
    kafka: Kafka
    places: Places

    @contextmanager
    def bench(self, topic: str, batch_records: int, record_format: str = JSON) -> Iterator[Bench]:
        """Give a pipeline that reads a topic in batches of so many records."""
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "job.toml"
            file.write_text(_job_text(self.places.make(), self.kafka.servers, topic, batch_records, record_format))
            job = load_job(file).job
            pipeline, phases = job.pipeline[PIPELINE], Phases()
            assert isinstance(pipeline.input, KafkaInput)
            with closing(DuckLakeSink(**job.sink_arguments(PIPELINE), recorder=phases)) as sink:
                writer = BatchWriter(PIPELINE, pipeline, sink, make_decoder(pipeline.input), phases)
                frame = read_stream(self.spark, pipeline, job)
                yield Bench(self.spark, frame, sink, writer, phases, f"{folder}/checkpoint")


@contextmanager
def run_machine() -> Iterator[Machine]:
    """Start all of it, and end it with the block."""
    settings = {**SETTINGS, "spark.jars": ",".join(map(str, connector_jars()))}
    directory = Path(tempfile.mkdtemp())
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, directory)
        kafka, postgres = stack.enter_context(run_kafka()), stack.enter_context(run_postgres())
        spark = make_session("benchmark", "local[2]", local_checkpoints=True, settings=settings)
        stack.callback(spark.stop)
        yield Machine(spark, kafka, Places(directory, postgres))


def fill(kafka: Kafka, records: Iterator[Record]) -> str:
    topic = kafka.create_topic(PARTITIONS)
    kafka.produce(topic, records)
    return topic


def _job_text(place: Place, servers: str, topic: str, batch_records: int, record_format: str) -> str:
    texts = {
        "catalog": place.url,
        "data_path": place.data_path,
        "checkpoint": "checkpoint",
        "servers": servers,
        "topics": [topic],
    }
    quoted = {name: json.dumps(text) for name, text in texts.items()}
    return JOB.format(**quoted, batch_records=batch_records, format=record_format)


def wait_for(query: StreamingQuery, is_done: Callable[[], bool]) -> None:
    while not is_done():
        require_active(query)
        time.sleep(0.2)


def require_active(query: StreamingQuery) -> None:
    if not query.isActive:
        raise RuntimeError(str(query.exception()))
