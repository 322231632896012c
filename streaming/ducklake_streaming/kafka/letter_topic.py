"""Dead letters as records of a Kafka topic, beside their table. Runs on the driver; no Spark.

A letter is sent after the commit that keeps it. A batch that Spark repeats because the process died in between sends
its letters again: each comes at least once. The table is the truth, and has each once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from ducklake_streaming.kafka.client_options import client_options
from ducklake_streaming.kafka.errors import BrokerUnavailable

DeliveryCallback: TypeAlias = Callable[[KafkaError | None, Message], None]

_POLL_SECONDS = 0.05
_HEADERS = ("reason", "topic", "partition", "offset", "stream", "batch_id", "table_name")


class LetterTopic:
    """Sends letters to a topic. `options`: Spark's, of which those for security are translated."""

    def __init__(self, topic: str, servers: str, options: Mapping[str, str], timeout_seconds: float) -> None:
        self.topic = topic
        self._servers = servers
        self._timeout_seconds = timeout_seconds
        self._settings = {
            **client_options(servers, options),
            "enable.idempotence": True,
            "message.timeout.ms": round(timeout_seconds * 1000),
            "log_level": 0,
        }
        self._producer: Producer | None = None

    def send(self, letters: pa.Table) -> None:
        """Send letters, and return when the broker has them. Raises BrokerUnavailable when it does not take them."""
        producer = self._producer = self._producer or Producer(self._settings)
        failed: list[object] = []

        def note(error: KafkaError | None, _: Message) -> None:
            if error is not None:
                failed.append(error)

        try:
            for letter in letters.to_pylist():
                self._produce(producer, letter, note)
            waiting = producer.flush(self._timeout_seconds)
        except KafkaException as error:
            failed.append(error)
            waiting = 0
        if failed or waiting:
            reason = failed[0] if failed else f"{waiting} were not taken in time"
            raise BrokerUnavailable(f"dead letters cannot be sent to topic '{self.topic}' of {self._servers}: {reason}")

    def _produce(self, producer: Producer, letter: Mapping[str, Any], note: DeliveryCallback) -> None:  # Any: see below
        headers = letter_headers(letter)
        while True:
            try:
                producer.produce(self.topic, letter["value"], letter["key"], headers=headers, on_delivery=note)
            except BufferError:  # its queue is full of what the broker has not taken yet, each for `timeout` at most
                producer.poll(_POLL_SECONDS)
            else:
                producer.poll(0)
                return


def letter_headers(letter: Mapping[str, Any]) -> list[tuple[str, str | bytes | None]]:  # Any: columns of a letter
    """Return what a letter says of its record; the record's own key and value are the letter's."""
    known = ((name, letter.get(name)) for name in _HEADERS)
    return [(name, str(value).encode()) for name, value in known if value is not None]
