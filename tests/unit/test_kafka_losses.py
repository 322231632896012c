"""What is gone of what a stream has to read next, and how that is told."""

import pytest

from ducklake_streaming.jobs.checkpoint import parse_offset_file
from ducklake_streaming.kafka.cluster import Topic
from ducklake_streaming.kafka.losses import Loss, TopicState, find_losses, losses_error, within_batch

WANTED = {("t", 0): 10, ("t", 1): 4}
KNOWN = {"t": "id-1"}
AGAIN = "the topic was deleted and made again"
RETENTION = "retention, or somebody, has deleted what is before"


def state(earliest: dict[int, int], latest: dict[int, int], topic_id: str = "id-1") -> TopicState:
    topic = Topic("t", topic_id, tuple(latest))
    return TopicState(
        {"t": topic}, {("t", p): o for p, o in earliest.items()}, {("t", p): o for p, o in latest.items()}
    )


@pytest.mark.parametrize(
    ("now", "losses"),
    [
        (state({0: 0, 1: 0}, {0: 20, 1: 4}), []),
        (state({0: 10, 1: 4}, {0: 10, 1: 4}), []),
        (state({0: 13, 1: 0}, {0: 20, 1: 9}), [Loss("t", 0, 10, 13, 20, 3, RETENTION)]),
        (state({0: 0, 1: 0}, {0: 6, 1: 4}), [Loss("t", 0, 10, 0, 6, 6, AGAIN)]),
        (
            state({0: 0, 1: 0}, {0: 30, 1: 0}, "id-2"),
            [Loss("t", 0, 10, 0, 30, 10, AGAIN), Loss("t", 1, 4, 0, 0, 0, AGAIN)],
        ),
        (
            state({0: 0}, {0: 20}),
            [Loss("t", 1, 4, None, None, None, "the topic has fewer partitions: it was deleted and made again")],
        ),
        (
            TopicState({}, {}, {}),
            [Loss("t", p, o, None, None, None, "the topic was deleted") for (_, p), o in WANTED.items()],
        ),
    ],
    ids=["all there", "at the ends", "retention", "set back", "another id", "fewer partitions", "deleted"],
)
def test_losses_are_found_by_offsets_and_by_the_topics_id(now: TopicState, losses: list[Loss]) -> None:
    assert find_losses(WANTED, now, KNOWN) == losses


def test_a_topic_that_was_not_known_is_taken_as_it_is() -> None:
    assert find_losses(WANTED, state({0: 0, 1: 0}, {0: 20, 1: 20}, "id-2"), {}) == []


@pytest.mark.parametrize(("end", "records"), [(11, 1), (13, 3), (99, 3), (10, None)])
def test_a_batch_misses_only_what_is_before_its_end(end: int, records: int | None) -> None:
    found = within_batch(Loss("t", 0, 10, 13, 20, 3, RETENTION), end)

    assert (None if found is None else found.records) == records


def test_the_error_names_topic_partition_offsets_and_the_remedy() -> None:
    losses = [Loss("t", partition, 10, 13, 20, 3, RETENTION) for partition in range(7)]

    text = str(losses_error("orders", losses))

    assert "stream 'orders'" in text
    assert "topic 't' partition 0: offset 10 is wanted, offsets 13 to 20 (exclusive) exist" in text
    assert "and 2 more partitions" in text
    assert "fail_on_data_loss = false" in text


@pytest.mark.parametrize(
    ("lines", "offsets"),
    [
        (['{"t":{"0":10,"1":4}}'], WANTED),
        (["-", '{"t":{"0":10}}'], {("t", 0): 10}),
        (['{"logOffset":3}'], {}),
        ([], {}),
    ],
)
def test_offsets_of_a_checkpoint_are_those_of_its_kafka_sources(
    lines: list[str], offsets: dict[tuple[str, int], int]
) -> None:
    assert parse_offset_file("\n".join(["v1", '{"batchWatermarkMs":0,"conf":{}}', *lines])) == offsets
