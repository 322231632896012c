"""Waiting for a broker: visible at once and every ten seconds, bounded, and over when nobody needs it."""

import pytest

from ducklake_core.observe import Event
from ducklake_core.retries import Patience
from ducklake_streaming.kafka.errors import BrokerUnavailable
from ducklake_streaming.kafka.events import BrokerAway, BrokerBack
from ducklake_streaming.kafka.lag import PartitionLag, compute_lag
from ducklake_streaming.kafka.places import offsets_of_source
from ducklake_streaming.kafka.waiting import BrokerOutage


class Time:
    """A clock that sleeps by going on, and a recorder."""

    def __init__(self) -> None:
        self.now = 0.0
        self.events: list[Event] = []
        self.stops_at = float("inf")

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def record(self, event: Event) -> None:
        self.events.append(event)

    def outage(self, timeout_seconds: float) -> BrokerOutage:
        patience = Patience(timeout_seconds, lambda: self.now >= self.stops_at, self.sleep, lambda: self.now, self)
        return BrokerOutage("s", "b:9092", patience)

    def away_until(self, back: float) -> str:
        if self.now < back:
            raise BrokerUnavailable("no broker of b:9092 answers")
        return "here"


def test_a_broker_that_comes_back_is_waited_for_and_told_of() -> None:
    time = Time()

    outage = time.outage(120)
    assert outage.wait(lambda: time.away_until(25)) == "here"
    outage.end()

    assert [type(event) for event in time.events] == [BrokerAway, BrokerAway, BrokerAway, BrokerBack]
    assert [round(event.seconds) for event in time.events if isinstance(event, (BrokerAway, BrokerBack))] == [
        0,
        10,
        20,
        25,
    ]


def test_a_broker_that_stays_away_ends_the_wait_at_its_deadline() -> None:
    time = Time()

    with pytest.raises(BrokerUnavailable, match="gave up after 30 s, as the input's timeout says"):
        time.outage(30).wait(lambda: time.away_until(1e9))

    assert time.now == pytest.approx(30)


def test_a_stop_ends_the_wait_within_a_second() -> None:
    time = Time()
    time.stops_at = 7

    with pytest.raises(BrokerUnavailable, match="the job was stopped"):
        time.outage(120).wait(lambda: time.away_until(1e9))

    assert time.now < 8


def test_waits_of_one_outage_share_its_deadline() -> None:
    time = Time()
    outage = time.outage(30)
    outage.wait(lambda: time.away_until(20))

    with pytest.raises(BrokerUnavailable):
        outage.wait(lambda: time.away_until(1e9))

    assert time.now == pytest.approx(30)


def test_lag_is_what_is_there_and_not_read() -> None:
    latest = {("a", 0): 10, ("a", 1): 10, ("a", 2): 4, ("b", 0): 3}
    earliest = {("a", 0): 0, ("a", 1): 8, ("a", 2): 0, ("b", 0): 1}

    found = compute_lag({("a", 0): 7, ("a", 1): 2, ("a", 2): 9}, earliest, latest)

    assert found == [
        PartitionLag("a", 0, 3),
        PartitionLag("a", 1, 2),
        PartitionLag("a", 2, 0),
        PartitionLag("b", 0, 2),
    ]


@pytest.mark.parametrize(
    ("told", "offsets"),
    [
        ({"a": {"0": 3, "12": 0}, "b": {"0": 1}}, {("a", 0): 3, ("a", 12): 0, ("b", 0): 1}),
        ({"logOffset": 3}, {}),
        ({"v": 1, "snapshot_id": 3}, {}),
        ("text", {}),
        (None, {}),
    ],
)
def test_offsets_are_those_of_kafka_alone(told: object, offsets: dict[tuple[str, int], int]) -> None:
    assert offsets_of_source(told) == offsets
