"""How far the pipelines of a job are behind their topics, for `status --job`. It asks Kafka, and needs no Spark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ducklake_core.errors import DuckLakeError
from ducklake_streaming.jobs.input_settings import KafkaInput
from ducklake_streaming.kafka.cluster import Cluster
from ducklake_streaming.kafka.lag import PartitionLag, lag_of_input
from ducklake_streaming.kafka.places import offsets_of_source
from ducklake_streaming.overview.fields import Row
from ducklake_streaming.overview.streams import StreamFacts

if TYPE_CHECKING:
    from ducklake_streaming.jobs.job_file import LoadedJob


def lag_rows(loaded: LoadedJob, streams: Sequence[StreamFacts], ask_seconds: float) -> Iterator[Row]:
    """Yield the lag of each partition that a pipeline reads; one row that says why where it cannot be known."""
    offsets = {stream.entry.stream: stream.offsets for stream in streams}
    for name, pipeline in loaded.job.pipeline.items():
        stream = pipeline.stream or name
        if not isinstance(pipeline.input, KafkaInput):
            continue
        try:
            for one in _lags(pipeline.input, offsets.get(stream), ask_seconds):
                yield {"stream": stream, "topic": one.topic, "partition": one.partition, "lag_records": one.lag_records}
        except DuckLakeError as error:
            yield {"stream": stream, "problem": loaded.redactor.redact(str(error))}


def _lags(kafka: KafkaInput, told: object, ask_seconds: float) -> list[PartitionLag]:
    cluster = Cluster(kafka.servers, kafka.options, ask_seconds)
    sources = told if isinstance(told, list) else []
    offsets = {place: end for source in sources for place, end in offsets_of_source(source).items()}
    return lag_of_input(cluster, offsets, kafka.topics, kafka.topic_pattern)
