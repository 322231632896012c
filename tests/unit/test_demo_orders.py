"""Orders of the demonstration: what is wrong with each is known, and what became of all of them is checked."""

import json
from collections import Counter

import pytest

from ducklake_streaming.demo.kafka_job import Sums
from ducklake_streaming.demo.orders import BROKEN, BROKEN_EVERY, PARTITIONS, TOPICS, Place, make_order, place_orders

COUNT = BROKEN_EVERY * len(BROKEN)


def test_each_way_to_be_broken_is_among_the_orders() -> None:
    broken = {order.broken: order.record.value for order in map(make_order, range(COUNT)) if order.broken}

    assert set(broken) == set(BROKEN)
    assert broken["tombstone"] is None
    assert json.loads(broken["wrong type"] or b"")["id"].startswith("number")
    with pytest.raises(json.JSONDecodeError):
        json.loads(broken["broken JSON"] or b"")
    with pytest.raises(UnicodeDecodeError):
        (broken["no UTF-8"] or b"").decode()


def test_good_orders_are_json_with_their_number() -> None:
    good = [order.record.value for order in map(make_order, range(COUNT)) if order.broken is None]

    assert len(good) == COUNT - len(BROKEN)
    assert len({json.loads(value or b"")["id"] for value in good}) == len(good)


def test_places_count_from_zero_in_each_partition() -> None:
    places = place_orders(map(make_order, range(COUNT)))

    assert {topic for topic, _, _ in places} == set(TOPICS)
    assert {partition for _, partition, _ in places} == set(range(PARTITIONS))
    sizes = Counter((topic, partition) for topic, partition, _ in places)
    assert sorted(places) == sorted((*where, offset) for where, size in sizes.items() for offset in range(size))
    assert sum(order.broken is None for order in places.values()) == COUNT - len(BROKEN)


GOOD, OTHER, BAD = (("orders", 0, offset) for offset in range(3))


@pytest.mark.parametrize(
    ("stored", "dead", "problems"),
    [
        ([GOOD, OTHER], [BAD], []),
        ([GOOD], [BAD], ["1 records are not in the table, such as ('orders', 0, 1)"]),
        ([GOOD, OTHER, OTHER], [BAD], ["1 records are in the table too often, such as ('orders', 0, 1)"]),
        ([GOOD, OTHER, BAD], [BAD], ["1 records are in the table too often, such as ('orders', 0, 2)"]),
        ([GOOD, OTHER], [], ["1 records are not in dead letters, such as ('orders', 0, 2)"]),
        ([GOOD, OTHER], [BAD, BAD], ["1 records are in dead letters too often, such as ('orders', 0, 2)"]),
    ],
    ids=["right", "lost", "doubled", "broken one stored", "dead letter lost", "dead letter doubled"],
)
def test_sums_tell_what_is_wrong(stored: list[Place], dead: list[Place], problems: list[str]) -> None:
    sums = Sums({GOOD: None, OTHER: None, BAD: "tombstone"}, stored, dead, {})

    assert list(sums.problems()) == problems
