"""What a stream has to read next and is gone: records, partitions, topics. Pure; no Spark.

Spark notices some of it when it reads, and counts nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ducklake_streaming.kafka.cluster import Topic
from ducklake_streaming.kafka.errors import RecordsLost
from ducklake_streaming.kafka.events import RecordsMissing
from ducklake_streaming.kafka.places import Offsets, Place

_SHOWN = 5  # partitions in a message


@dataclass(frozen=True, slots=True)
class Loss:
    """A partition that has not what is to be read next.

    `records`: how many are missing, None where nobody can know. `earliest`, `latest`: None where there is no partition.
    """

    topic: str
    partition: int
    wanted: int
    earliest: int | None
    latest: int | None
    records: int | None
    reason: str

    def event(self, stream: str) -> RecordsMissing:
        return RecordsMissing(
            stream, self.topic, self.partition, self.records, self.wanted, self.earliest, self.latest, self.reason
        )

    def __str__(self) -> str:
        there = "it is gone" if self.earliest is None else f"offsets {self.earliest} to {self.latest} (exclusive) exist"
        return (
            f"topic '{self.topic}' partition {self.partition}: offset {self.wanted} is wanted, {there}: {self.reason}"
        )


@dataclass(frozen=True, slots=True)
class TopicState:
    """What a cluster has of some topics now."""

    topics: Mapping[str, Topic]
    earliest: Offsets
    latest: Offsets


def find_losses(wanted: Offsets, now: TopicState, known_ids: Mapping[str, str]) -> list[Loss]:
    """Return what is gone of the offsets that are wanted next. `known_ids`: topics as they were when last looked at."""
    return [loss for place, offset in sorted(wanted.items()) for loss in _loss_of(place, offset, now, known_ids)]


def _loss_of(place: Place, wanted: int, now: TopicState, known_ids: Mapping[str, str]) -> Iterator[Loss]:
    topic = now.topics.get(place[0])
    if topic is None:
        yield Loss(*place, wanted, None, None, None, "the topic was deleted")
    elif place not in now.latest:
        yield Loss(*place, wanted, None, None, None, "the topic has fewer partitions: it was deleted and made again")
    else:
        earliest, latest = now.earliest[place], now.latest[place]
        is_new = known_ids.get(topic.name, topic.topic_id) != topic.topic_id
        if is_new or latest < wanted:
            passed_over = max(0, min(wanted, latest) - earliest)
            yield Loss(*place, wanted, earliest, latest, passed_over, "the topic was deleted and made again")
        elif earliest > wanted:
            reason = "retention, or somebody, has deleted what is before"
            yield Loss(*place, wanted, earliest, latest, earliest - wanted, reason)


def within_batch(loss: Loss, end: int) -> Loss | None:
    """Return what of a loss is in a batch that ends at this offset; the next batch finds the rest."""
    if loss.records is None or loss.earliest is None or loss.earliest <= loss.wanted:
        return loss
    records = min(loss.earliest, end) - loss.wanted
    if records <= 0:
        return None
    return Loss(loss.topic, loss.partition, loss.wanted, loss.earliest, loss.latest, records, loss.reason)


def losses_error(stream: str, losses: Sequence[Loss]) -> RecordsLost:
    """Return what to raise where nothing may be lost."""
    shown = "; ".join(map(str, losses[:_SHOWN]))
    more = f"; and {len(losses) - _SHOWN} more partitions" if len(losses) > _SHOWN else ""
    return RecordsLost(
        f"records that stream '{stream}' has to read next are gone: {shown}{more}. To go on without them, set "
        "fail_on_data_loss = false in the pipeline's input; to begin anew, give the pipeline a new checkpoint and "
        "a new stream name",
        losses=tuple(losses),
    )


def ids_of(topics: Iterable[Topic]) -> dict[str, str]:
    return {topic.name: topic.topic_id for topic in topics}
