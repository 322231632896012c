"""Asks Kafka how far pipelines are behind their topics. Runs on the driver, in a thread of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ducklake_core.errors import DuckLakeError
from ducklake_streaming.jobs.input_settings import KafkaInput
from ducklake_streaming.kafka.cluster import Cluster
from ducklake_streaming.kafka.lag import PartitionLag, lag_of_input
from ducklake_streaming.kafka.places import Offsets
from ducklake_streaming.metrics import declared as m
from ducklake_streaming.metrics.registry import Labels, Numbers

MAX_PARTITIONS = 1000  # of a pipeline; the others are one series
_ASK_SECONDS = 5.0


class KafkaLagPoll:
    """Asks the clusters of some pipelines once for each call. `offsets_of`: what a pipeline reads next."""

    def __init__(
        self,
        inputs: Mapping[str, KafkaInput],
        offsets_of: Callable[[str], Offsets],
        numbers: Numbers,
        make_cluster: Callable[[KafkaInput], Cluster] = lambda one: Cluster(one.servers, one.options, _ASK_SECONDS),
    ) -> None:
        self._inputs = inputs
        self._offsets_of = offsets_of
        self._numbers = numbers
        self._make_cluster = make_cluster
        self._clusters: dict[str, Cluster] = {}
        self._told: dict[str, dict[Labels, float]] = {}

    def __call__(self) -> None:
        """Ask; one cluster that does not answer keeps the others from nothing. Raises the first error."""
        first: DuckLakeError | None = None
        for name, kafka in self._inputs.items():
            try:
                self._told[name] = lag_series(name, self._lags(name, kafka))
            except DuckLakeError as error:
                first = first or error
        series = {labels: lag for of_one in self._told.values() for labels, lag in of_one.items()}
        self._numbers.replace(m.SINK_KAFKA_LAG, series)
        if first is not None:
            raise first

    def _lags(self, name: str, kafka: KafkaInput) -> list[PartitionLag]:
        cluster = self._clusters.get(name) or self._make_cluster(kafka)
        self._clusters[name] = cluster
        return lag_of_input(cluster, self._offsets_of(name), kafka.topics, kafka.topic_pattern)


def lag_series(pipeline: str, lags: list[PartitionLag]) -> dict[Labels, float]:
    """Return the series of a pipeline: a partition each, and those beyond the cap added up."""
    shown, rest = lags[:MAX_PARTITIONS], lags[MAX_PARTITIONS:]
    found: dict[Labels, float] = {(pipeline, one.topic, str(one.partition)): one.lag_records for one in shown}
    if rest:
        found[pipeline, m.OTHER, m.OTHER] = sum(one.lag_records for one in rest)
    return found
