"""Simulated orders and payments as Kafka records, some of them broken. Pure but for the thread that produces them.

What order number n is follows from n alone, so that who reads the lake knows what must be there.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TypeAlias

from ducklake_core.clock import SYSTEM_CLOCK, Clock
from ducklake_streaming.demo.local_kafka import Kafka, Record

TOPICS = ("orders", "payments")
PARTITIONS = 3
SCHEMA = "id bigint, customer string, kind string, amount double, ts timestamp"
BROKEN_EVERY = 50
STEP_SECONDS = 0.25
Place: TypeAlias = tuple[str, int, int]  # topic, partition, offset
_START = datetime(2026, 3, 1, tzinfo=UTC)
_CUSTOMERS = ("Ann", "Björn", "Chloé", "Dürer", "Ewa", "Fatma", "Goro")
_KINDS = ("book", "lamp", "chair", "table")
BROKEN = ("broken JSON", "wrong type", "no UTF-8", "tombstone")


@dataclass(frozen=True, slots=True)
class Order:
    """One record, where it goes, and what is wrong with it."""

    topic: str
    record: Record
    broken: str | None


def make_order(number: int, topics: Sequence[str] = TOPICS) -> Order:
    """Return order `number`; one of fifty is broken, in one of four ways. Those of a customer are in one partition."""
    topic = topics[number % len(topics)]
    customer = number // len(topics) % len(_CUSTOMERS)
    broken = BROKEN[number // BROKEN_EVERY % len(BROKEN)] if number % BROKEN_EVERY == BROKEN_EVERY - 1 else None
    name = _CUSTOMERS[customer]
    value = _break(_value(number, name), broken)
    return Order(topic, Record(customer % PARTITIONS, value, key=name.encode()), broken)


def place_orders(orders: Iterable[Order]) -> dict[Place, Order]:
    """Return where in Kafka each of the orders is, which were produced in this order."""
    offsets: Counter[tuple[str, int]] = Counter()
    places: dict[Place, Order] = {}
    for order in orders:
        partition = (order.topic, order.record.partition)
        places[*partition, offsets[partition]] = order
        offsets[partition] += 1
    return places


class OrderProducer:
    """Gives a broker so many orders at once, or so many a second in a thread until it is stopped."""

    def __init__(self, kafka: Kafka, clock: Clock = SYSTEM_CLOCK) -> None:
        self.produced = 0
        self._kafka = kafka
        self._clock = clock
        self._ended = threading.Event()
        self._thread = ThreadPoolExecutor(1, "orders")
        self._run: Future[None] | None = None

    def produce(self, count: int) -> None:
        """Return when the broker has the next orders."""
        orders = [make_order(number) for number in range(self.produced, self.produced + count)]
        for topic in TOPICS:
            self._kafka.produce(topic, (order.record for order in orders if order.topic == topic))
        self.produced += count

    def start(self, per_second: int, count: int) -> None:
        """Produce at most `count` more, so that a slow machine has an end in sight, too."""
        self._run = self._thread.submit(self._produce_until_stopped, per_second, self.produced + count)

    def stop(self) -> None:
        """Return when all that was produced is in the broker; raise what made the thread fail."""
        self._ended.set()
        if self._run is not None:
            self._run.result()

    def _produce_until_stopped(self, per_second: int, end: int) -> None:
        first, start = self.produced, self._clock.seconds()
        while self.produced < end and not self._ended.wait(STEP_SECONDS):
            due = first + int(per_second * (self._clock.seconds() - start))
            self.produce(min(due, end) - self.produced)


def _value(number: int, customer: str) -> bytes:
    order = {
        "id": number,
        "customer": customer,
        "kind": _KINDS[number % len(_KINDS)],
        "amount": number % 10_000 / 100,
        "ts": (_START + timedelta(seconds=number)).isoformat(),
    }
    return json.dumps(order, ensure_ascii=False).encode()


def _break(value: bytes, broken: str | None) -> bytes | None:
    match broken:
        case "broken JSON":
            return value[: len(value) // 2]
        case "wrong type":
            return value.replace(b'"id": ', b'"id": "number ').replace(b",", b'",', 1)
        case "no UTF-8":
            return value.replace(b'"customer": "', b'"customer": "\xff\xfe')
        case "tombstone":
            return None
        case _:
            return value
