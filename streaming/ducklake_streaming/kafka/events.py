"""What happens between us and a Kafka cluster, as values for the recorder. Made on the driver."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass

from ducklake_core.observe import Event

STREAMING_LOG = logging.getLogger("ducklake_streaming")


class StreamingEvent(Event):
    """An event of what runs."""

    __slots__ = ()
    logger = STREAMING_LOG


@dataclass(frozen=True, slots=True)
class BrokerAway(StreamingEvent):
    """No broker answers, and they are waited for: told when that begins, and then ever less often.

    `seconds`: for how long so far, of `timeout_seconds` at most.

    To do: see that the brokers run and can be reached from the driver; nothing is lost meanwhile.
    """

    line = "broker_unavailable"
    level = logging.WARNING
    repeats_by = ("stream", "servers")
    stream: str
    servers: str
    seconds: float
    timeout_seconds: float
    reason: BaseException

    def facts(self) -> Mapping[str, object]:
        return {
            "stream": self.stream,
            "servers": self.servers,
            "seconds": round(self.seconds, 1),
            "timeout": self.timeout_seconds,
            "reason": self.reason,
        }


@dataclass(frozen=True, slots=True)
class BrokerBack(StreamingEvent):
    """A broker answers again, after so many seconds: told to those who heard that it was away.

    To do: nothing; it was waited for.
    """

    line = "broker_available"
    level = logging.WARNING
    ends = BrokerAway
    stream: str
    servers: str
    seconds: float

    def facts(self) -> Mapping[str, object]:
        return {"stream": self.stream, "servers": self.servers, "seconds": round(self.seconds, 1)}


@dataclass(frozen=True, slots=True)
class RecordsMissing(StreamingEvent):
    """Records of a partition are gone that the stream had to read next, and it goes on without them.

    `records`: how many, as far as offsets tell; None where nobody can know. `wanted`: the offset to read next;
    `earliest` and `latest`: the first one that is there, and the end of the partition.

    To do: find why they are gone: see [when records are gone](run-a-job.md#when-records-are-gone).
    """

    line = "records_missing"
    level = logging.WARNING
    repeats_by = ("stream", "topic", "partition")
    summed = ("records",)
    stream: str
    topic: str
    partition: int
    records: int | None
    wanted: int
    earliest: int | None
    latest: int | None
    reason: str

    def facts(self) -> Mapping[str, object]:
        facts = {name: getattr(self, name) for name in self.__slots__}
        return {name: value for name, value in facts.items() if value is not None}


@dataclass(frozen=True, slots=True)
class ClusterNotWatched(StreamingEvent):
    """Spark can log in to the cluster and we cannot: nobody waits for a broker or counts what is missing.

    To do: nothing, or log in another way: see [a secured cluster](run-a-job.md#a-secured-cluster).
    """

    line = "cluster_not_watched"
    level = logging.WARNING
    stream: str
    reason: BaseException
