"""What an offset belongs to, and offsets as Spark says them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

Place: TypeAlias = tuple[str, int]  # a topic and one of its partitions
Offsets: TypeAlias = Mapping[Place, int]


def offsets_of_source(told: object) -> dict[tuple[str, int], int]:
    """Return the offsets of one source as Spark says them, `{"topic": {"0": 23}}`; nothing of one that is no Kafka."""
    if not isinstance(told, Mapping) or not all(isinstance(one, Mapping) for one in told.values()):
        return {}
    places = ((topic, partition, end) for topic, partitions in told.items() for partition, end in partitions.items())
    return {
        (str(topic), int(partition)): end
        for topic, partition, end in places
        if str(partition).isdecimal() and isinstance(end, int)
    }
