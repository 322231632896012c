"""A Kafka cluster as confluent-kafka sees it: topics, partitions, the first and last offsets. No Spark, no Java.

Questions have a short deadline; who wants to wait longer says so: `kafka/waiting.py`. No topic is created by asking.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, TypeVar

from confluent_kafka import KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined] # exported without saying so
    AdminClient,
    ConfigResource,
    OffsetSpec,
    ResourceType,
    TopicDescription,
)

from ducklake_core.errors import DuckLakeError
from ducklake_streaming.kafka.client_options import client_options
from ducklake_streaming.kafka.errors import BrokerRefused, BrokerUnavailable, TopicNotFound
from ducklake_streaming.kafka.places import Place

Answer = TypeVar("Answer")
ASK_SECONDS = 5.0
_MISSING = {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC}  # noqa: SLF001 # its public name of a local error
_REFUSED = {
    KafkaError._AUTHENTICATION,  # noqa: SLF001 # its public name of a local error
    KafkaError._SSL,  # noqa: SLF001 # see above
    KafkaError.SASL_AUTHENTICATION_FAILED,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.UNSUPPORTED_SASL_MECHANISM,
}


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic as it is now. `topic_id` is another one after the topic was deleted and made again."""

    name: str
    topic_id: str
    partitions: tuple[int, ...]

    @property
    def places(self) -> list[Place]:
        return [(self.name, partition) for partition in self.partitions]


class Cluster:
    """Asks a cluster. Raises BrokerUnavailable, BrokerRefused and TopicNotFound, each with the cluster's name.

    `options`: Spark's, of which those for security are translated; InvalidInput names those that cannot be.
    """

    def __init__(self, servers: str, options: Mapping[str, str], ask_seconds: float = ASK_SECONDS) -> None:
        self.servers = servers
        self._ask_seconds = ask_seconds
        self._last_error: KafkaError | None = None  # of a connection: an answer that does not come has no reason
        told: dict[str, Any] = {"log_level": 0, "error_cb": self._note}  # Any: its types forget that this is a callback
        self._admin = AdminClient({**told, **client_options(servers, options)})

    def check_reachable(self, ask_seconds: float | None = None) -> None:
        """See that a broker answers; a connection that is slower than this attempt is there for the next."""
        self._ask(lambda: self._admin.list_topics(timeout=ask_seconds or self._ask_seconds))

    def topic_names(self, pattern: str) -> list[str]:
        """Return the topics whose whole name matches, as Java's `subscribePattern` would; internal ones never."""
        names = self._ask(lambda: self._admin.list_topics(timeout=self._ask_seconds)).topics
        return sorted(name for name in names if re.fullmatch(pattern, name) and not name.startswith("__"))

    def topics(self, names: Iterable[str]) -> list[Topic]:
        """Return facts of topics; raise TopicNotFound that names all that are not there."""
        wanted = list(names)
        found = self.topics_that_exist(wanted)
        self.require_topics(wanted, {topic.name for topic in found})
        return found

    def topics_that_exist(self, names: Iterable[str]) -> list[Topic]:
        """Return facts of those topics that are there."""
        wanted = sorted(names)
        if not wanted:
            return []
        asked = self._ask(
            lambda: self._admin.describe_topics(TopicCollection(wanted), request_timeout=self._ask_seconds)
        )
        found = (self._described(name, future) for name, future in asked.items())
        return [topic for topic in found if topic is not None]

    def require_topics(self, wanted: Iterable[str], found: Container[str]) -> None:
        """Raise TopicNotFound that names all that are wanted and not there."""
        missing = [name for name in wanted if name not in found]
        if missing:
            named = ", ".join(f"'{name}'" for name in missing)
            raise TopicNotFound(
                f"there is no topic {named} at {self.servers}: create it, or mend 'topics'", topics=tuple(missing)
            )

    def earliest(self, places: Iterable[Place]) -> dict[Place, int]:
        """Return the first offset of each partition that is there still."""
        return self._offsets(places, OffsetSpec.earliest())  # type: ignore[no-untyped-call] # not ours

    def latest(self, places: Iterable[Place]) -> dict[Place, int]:
        """Return the offset after the last record of each partition."""
        return self._offsets(places, OffsetSpec.latest())  # type: ignore[no-untyped-call] # not ours

    def topic_setting(self, topic: str, name: str) -> str | None:
        """Return one setting of a topic, such as `cleanup.policy`."""
        resource = ConfigResource(ResourceType.TOPIC, topic)
        [asked] = self._ask(
            lambda: self._admin.describe_configs([resource], request_timeout=self._ask_seconds)
        ).values()
        found = self._wait_for(asked).get(name)
        return None if found is None else str(found.value)

    def _offsets(self, places: Iterable[Place], spec: OffsetSpec) -> dict[Place, int]:
        asked = {TopicPartition(topic, partition): spec for topic, partition in places}
        if not asked:
            return {}
        answers = self._ask(lambda: self._admin.list_offsets(asked, request_timeout=self._ask_seconds))
        return {(place.topic, place.partition): self._wait_for(answer).offset for place, answer in answers.items()}

    def _described(self, name: str, asked: Future[TopicDescription]) -> Topic | None:
        try:
            found = asked.result(2 * self._ask_seconds)
        except (KafkaException, TimeoutError) as error:
            if isinstance(error, KafkaException) and error.args[0].code() in _MISSING:
                return None
            raise self._error_of(error) from error
        return Topic(name, str(found.topic_id), tuple(sorted(one.id for one in found.partitions)))

    def _wait_for(self, asked: Future[Answer]) -> Answer:
        return self._ask(lambda: asked.result(2 * self._ask_seconds))

    def _ask(self, act: Callable[[], Answer]) -> Answer:
        self._last_error = None
        try:
            return act()
        except (KafkaException, TimeoutError) as error:
            raise self._error_of(error) from error

    def _error_of(self, error: BaseException) -> DuckLakeError:
        """Return what an error means: the reason is that of the connection where the answer has none."""
        self._admin.poll(0)  # connections tell their errors only when they are asked
        told = error.args[0] if isinstance(error, KafkaException) else None
        if told is not None and told.code() in _MISSING:
            return TopicNotFound(f"there is no such topic or partition at {self.servers}: {told.str()}", topics=())
        reason = next((one for one in (self._last_error, told) if one is not None and one.code() in _REFUSED), None)
        if reason is not None:
            return BrokerRefused(f"the Kafka cluster {self.servers} refuses us: {reason.str()}")
        shown = self._last_error or told
        return BrokerUnavailable(
            f"no broker of {self.servers} answers: {shown.str() if shown is not None else 'no answer in time'}"
        )

    def _note(self, error: KafkaError) -> None:
        if error.code() != KafkaError._ALL_BROKERS_DOWN:  # noqa: SLF001 # says nothing; the others say why
            self._last_error = error
