"""Spark's readers of a pipeline's input, and its trigger. Runs on the driver."""

from __future__ import annotations

from typing import assert_never

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamReader

from ducklake_streaming.jobs.settings import (
    DuckLakeInput,
    FilesInput,
    Job,
    KafkaInput,
    Pipeline,
    RateInput,
    TriggerSetting,
)


def read_input(spark: SparkSession, pipeline: Pipeline, job: Job) -> DataFrame:
    """Return the stream of a pipeline's input; of Kafka, with the columns of Spark's own connector and headers."""
    return make_reader(spark.readStream, pipeline, job).load()


def make_reader(reader: DataStreamReader, pipeline: Pipeline, job: Job) -> DataStreamReader:
    match pipeline.input:
        case KafkaInput() as kafka:
            return reader.format("kafka").options(**kafka_options(kafka))
        case FilesInput() as files:
            return _files(reader, files)
        case DuckLakeInput() as lake:
            return reader.format("ducklake").options(**lake_options(lake, job))
        case RateInput() as rate:
            return reader.format("rate").option("rowsPerSecond", str(rate.rows_per_second))
        case other:
            assert_never(other)


def trigger_arguments(trigger: TriggerSetting) -> dict[str, object]:
    """Return the arguments of `writeStream.trigger`."""
    if trigger.available_now:
        return {"availableNow": True}
    return {"processingTime": f"{round(trigger.interval.total_seconds() * 1000)} milliseconds"}


def kafka_options(kafka: KafkaInput) -> dict[str, str]:
    """Return the options of Spark's Kafka source."""
    options = {
        "kafka.bootstrap.servers": kafka.servers,
        "startingOffsets": kafka.starting_offsets,
        "failOnDataLoss": str(kafka.fail_on_data_loss).lower(),
        "includeHeaders": "true",
    }
    if kafka.topic_pattern is not None:
        options["subscribePattern"] = kafka.topic_pattern
    else:
        options["subscribe"] = ",".join(kafka.topics)
    if kafka.max_records_per_trigger is not None:
        options["maxOffsetsPerTrigger"] = str(kafka.max_records_per_trigger)
    return options | dict(kafka.options)


def lake_options(lake: DuckLakeInput, job: Job) -> dict[str, str]:
    """Return the options of our own source; the lake is the job's unless another is named."""
    options = {"catalog": lake.catalog or job.catalog.url}
    options["catalogTimeout"] = f"{job.catalog.timeout.total_seconds()}s"
    if lake.catalog is None and job.catalog.metadata_schema is not None:
        options["metadataSchema"] = job.catalog.metadata_schema
    return options | lake.source_options()


def _files(reader: DataStreamReader, files: FilesInput) -> DataStreamReader:
    reader = reader.format(files.format).options(**files.options)
    if files.max_files_per_trigger is not None:
        reader = reader.option("maxFilesPerTrigger", str(files.max_files_per_trigger))
    if files.schema_text is not None:
        reader = reader.schema(files.schema_text)
    return reader.option("path", files.path)
