"""Dead letters as records of a topic, by a real broker."""

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, Message, TopicPartition

from ducklake_sinks.dead_letters import DEAD_LETTER_SCHEMA
from ducklake_streaming.kafka.errors import BrokerUnavailable
from ducklake_streaming.kafka.letter_topic import LetterTopic
from tests.fixtures.kafka import Kafka

SECONDS = 60.0


def letters(number: int) -> pa.Table:
    rows = [{"offset": n, "value": b"\xff%d" % n, "key": None, "reason": "why ä", "topic": "t"} for n in range(number)]
    return pa.Table.from_pylist(rows, DEAD_LETTER_SCHEMA)


def received(kafka: Kafka, topic: str, number: int) -> list[Message]:
    consumer = Consumer({"bootstrap.servers": kafka.servers, "group.id": topic, "auto.offset.reset": "earliest"})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        return consumer.consume(number, SECONDS)
    finally:
        consumer.close()


def test_letters_are_sent_with_their_bytes_and_what_was_wrong(kafka: Kafka) -> None:
    topic = kafka.create_topic()

    LetterTopic(topic, kafka.servers, {}, SECONDS).send(letters(1))

    [found] = received(kafka, topic, 1)
    assert (found.value(), found.key()) == (b"\xff0", None)
    assert dict(found.headers() or []) == {"reason": "why ä".encode(), "topic": b"t", "offset": b"0"}


def test_more_letters_than_the_queue_of_the_client_holds_are_sent(kafka: Kafka) -> None:
    topic = kafka.create_topic()
    sender = LetterTopic(topic, kafka.servers, {}, SECONDS)
    sender._settings["queue.buffering.max.messages"] = 1

    sender.send(letters(5))

    assert [found.value() for found in received(kafka, topic, 5)] == [b"\xff%d" % n for n in range(5)]


def test_a_broker_that_does_not_take_letters_is_told(kafka: Kafka) -> None:
    with pytest.raises(BrokerUnavailable, match=r"dead letters cannot be sent to topic 'no-such-topic' of .*"):
        LetterTopic("no-such-topic", kafka.servers, {}, 1.0).send(letters(1))
