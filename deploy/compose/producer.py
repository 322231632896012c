"""Sends simulated orders and payments to Kafka, ten a second, one of fifty broken, until it is told to end."""

import sys
import time
from itertools import count

from confluent_kafka import Producer

from ducklake_streaming.demo.orders import make_order

PER_SECOND = 10


def main(servers: str) -> None:
    """Send orders for ever; those of a restart begin at the first again."""
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 50})
    for number in count():
        order = make_order(number)
        record = order.record
        producer.produce(order.topic, record.value, key=record.key, partition=record.partition)
        producer.poll(0)
        time.sleep(1 / PER_SECOND)  # noqa: TID251 # a program of its own, that nobody tests with another clock


if __name__ == "__main__":
    main(sys.argv[1])
