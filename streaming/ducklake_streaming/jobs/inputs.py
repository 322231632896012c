"""Spark's readers of a pipeline's input, and its trigger. Runs on the driver."""

from __future__ import annotations

from typing import Any, assert_never

from pyspark.sql import DataFrame, SparkSession

from ducklake_core.references import portable
from ducklake_core.spec.paths import hadoop_storage
from ducklake_streaming.formats.choose import make_decoder
from ducklake_streaming.jobs.settings import (
    DuckLakeInput,
    FilesInput,
    Input,
    Job,
    KafkaInput,
    Pipeline,
    RateInput,
    TriggerSetting,
)

_REFERRING = ("catalog", "dataPath")  # options of our own source that may refer to a secret


def read_stream(spark: SparkSession, pipeline: Pipeline, job: Job) -> DataFrame:
    """Return what a pipeline's batches are made of: its input, of Kafka with decoded records where a schema is given.

    Spark analyzes what is part of the stream once. To analyze the long SQL of a strict decoder with each batch takes
    longer than to read and to write a small one. Where a registry has the schemas, a batch may bring a new one.
    """
    stream, source = read_input(spark, pipeline, job), pipeline.input
    if isinstance(source, KafkaInput) and source.registry is None and not pipeline.routes_envelopes:
        return make_decoder(source).decode(stream)
    return stream


def read_input(spark: SparkSession, pipeline: Pipeline, job: Job) -> DataFrame:
    """Return the stream of a pipeline's input; of Kafka, with the columns of Spark's own connector and headers."""
    source = pipeline.input
    reader = spark.readStream.format(source.format if isinstance(source, FilesInput) else source.kind)
    if isinstance(source, FilesInput) and source.columns is not None:
        reader = reader.schema(source.columns)
    return reader.options(**input_options(source, job)).load()


def input_options(source: Input, job: Job) -> dict[str, str]:
    """Return the options of the Spark source that reads an input."""
    match source:
        case KafkaInput():
            return _kafka_options(source)
        case FilesInput():
            most = {} if source.max_files_per_trigger is None else {"maxFilesPerTrigger": source.max_files_per_trigger}
            path = hadoop_storage(source.path)
            return {"path": path, **{name: str(value) for name, value in most.items()}, **source.options}
        case DuckLakeInput():
            return _lake_options(source, job)
        case RateInput():
            return {"rowsPerSecond": str(source.rows_per_second)}
        case other:
            assert_never(other)


def trigger_arguments(trigger: TriggerSetting) -> dict[str, Any]:  # Any: a text or a flag, as the name has it
    """Return the arguments of `writeStream.trigger`."""
    if trigger.available_now:
        return {"availableNow": True}
    return {"processingTime": f"{round(trigger.interval.total_seconds() * 1000)} milliseconds"}


def _kafka_options(kafka: KafkaInput) -> dict[str, str]:
    options = {
        "kafka.bootstrap.servers": kafka.servers,
        "startingOffsets": kafka.starting_offsets,
        "failOnDataLoss": str(kafka.fail_on_data_loss).lower(),
        "includeHeaders": "true",
    }
    if kafka.topic_pattern is None:
        options["subscribe"] = ",".join(kafka.topics)
    else:
        options["subscribePattern"] = kafka.topic_pattern
    if kafka.max_records_per_trigger is not None:
        options["maxOffsetsPerTrigger"] = str(kafka.max_records_per_trigger)
    return options | dict(kafka.options)


def _lake_options(lake: DuckLakeInput, job: Job) -> dict[str, str]:
    """Return the options of our own source; the lake is the job's unless another is named.

    Spark shows the options of a source in its plans: it is told where a password is, and the source looks it up.
    """
    options = {"catalogTimeout": f"{job.catalog.timeout.total_seconds()}s"}
    if lake.catalog is None:
        named = {"metadataSchema": job.catalog.metadata_schema, "dataPath": job.catalog.data_path}
        options |= {name: value for name, value in named.items() if value is not None}
        options |= {"overrideDataPath": "true"} if job.catalog.override_data_path else {}
        options |= {} if job.catalog.storage is None else {"storage": job.catalog.storage.text}
    options |= {"catalog": lake.catalog or job.catalog.url, **lake.source_options()}
    return {name: portable(value) if name in _REFERRING else value for name, value in options.items()}
