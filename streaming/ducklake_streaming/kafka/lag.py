"""How far a stream is behind its topics: the ends of the broker minus the offsets that are in the lake. No Spark.

Spark commits no offsets of a group, so that no Kafka tool can tell: the lake's snapshots do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ducklake_streaming.kafka.cluster import Cluster
from ducklake_streaming.kafka.places import Offsets


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """How many records of a partition are not in the lake yet, by offsets: some may be no records, or be compacted."""

    topic: str
    partition: int
    lag_records: int


def lag_of(cluster: Cluster, offsets: Offsets) -> list[PartitionLag]:
    """Return the lag of each partition of the topics that a stream has read, those it has not begun included.

    `offsets`: the next offset of each partition that is to be read. Raises TopicNotFound, BrokerUnavailable.
    """
    topics = sorted({topic for topic, _ in offsets})
    places = [place for topic in cluster.topics(topics) for place in topic.places]
    return compute_lag(offsets, cluster.earliest(places), cluster.latest(places))


def lag_of_input(
    cluster: Cluster, offsets: Offsets, topics: Sequence[str], topic_pattern: str | None
) -> list[PartitionLag]:
    """Return the same for an input; where nothing is known of its offsets, all that its topics hold is lag."""
    if offsets:
        return lag_of(cluster, offsets)
    names = topics or cluster.topic_names(topic_pattern or "")
    places = [place for topic in cluster.topics(names) for place in topic.places]
    return compute_lag({}, cluster.earliest(places), cluster.latest(places))


def compute_lag(offsets: Offsets, earliest: Offsets, latest: Offsets) -> list[PartitionLag]:
    """Compare offsets. Records that are gone are no lag: nobody can catch up with them."""
    return [
        PartitionLag(*place, max(0, end - max(offsets.get(place, 0), earliest.get(place, 0))))
        for place, end in sorted(latest.items())
    ]
