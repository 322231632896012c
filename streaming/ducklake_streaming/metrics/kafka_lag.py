"""Asks Kafka how far a pipeline is behind its topics. Runs on the driver, in a thread of its own."""

from __future__ import annotations

from collections.abc import Callable

from ducklake_streaming.jobs.input_settings import KafkaInput
from ducklake_streaming.kafka.cluster import Cluster
from ducklake_streaming.kafka.lag import PartitionLag, lag_of_input
from ducklake_streaming.kafka.places import Offsets
from ducklake_streaming.metrics import declared as m
from ducklake_streaming.metrics.registry import Labels, Numbers

MAX_PARTITIONS = 1000  # of a pipeline; the others are one series
_ASK_SECONDS = 5.0


class KafkaLagPoll:
    """Asks the cluster of a pipeline once for each call. `offsets_of`: what the pipeline reads next."""

    def __init__(
        self,
        pipeline: str,
        kafka: KafkaInput,
        offsets_of: Callable[[str], Offsets],
        numbers: Numbers,
        make_cluster: Callable[[KafkaInput], Cluster] = lambda one: Cluster(one.servers, one.options, _ASK_SECONDS),
    ) -> None:
        self._pipeline = pipeline
        self._kafka = kafka
        self._offsets_of = offsets_of
        self._numbers = numbers
        self._make_cluster = make_cluster
        self._cluster: Cluster | None = None

    def __call__(self) -> None:
        """Ask. Raises what asking raises: the last numbers stand."""
        kafka, name = self._kafka, self._pipeline
        cluster = self._cluster = self._cluster or self._make_cluster(kafka)
        lags = lag_of_input(cluster, self._offsets_of(name), kafka.topics, kafka.topic_pattern)
        self._numbers.replace_of(m.SINK_KAFKA_LAG, name, lag_series(name, lags))


def lag_series(pipeline: str, lags: list[PartitionLag]) -> dict[Labels, float]:
    """Return the series of a pipeline: a partition each, and those beyond the cap added up."""
    shown, rest = lags[:MAX_PARTITIONS], lags[MAX_PARTITIONS:]
    found: dict[Labels, float] = {(pipeline, one.topic, str(one.partition)): one.lag_records for one in shown}
    if rest:
        found[pipeline, m.OTHER, m.OTHER] = sum(one.lag_records for one in rest)
    return found
