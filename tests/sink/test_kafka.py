"""A topic of a real broker into a lake: each record once, though drivers die, and each snapshot tells its offsets."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from ducklake_core import Lake
from tests.fixtures.driver_jobs import Fault
from tests.fixtures.ingests import Ingest
from tests.fixtures.kafka import Kafka, Record
from tests.fixtures.oracle import Oracle

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

PARTITIONS = 3
RECORDS = 300
BATCH_RECORDS = 60
LAST_BATCH = RECORDS // BATCH_RECORDS - 1
# The text is there as it came: one that is no UTF-8 makes its row a dead letter.
COLUMNS = [
    "from_json(CAST(value AS STRING), 'id bigint').id AS id",
    "CAST(value AS STRING) AS text",
    "partition AS kafka_partition",
    "offset AS kafka_offset",
]
PLACES = "SELECT kafka_partition, kafka_offset FROM events"
DEAD_PLACES = "SELECT (row->>'kafka_partition')::INTEGER, (row->>'kafka_offset')::BIGINT FROM events_dead_letters"


@pytest.mark.parametrize("make_catalog", ["postgres"], indirect=True)
def test_each_record_is_in_the_lake_once_though_drivers_die(ingest: Ingest, kafka: Kafka, oracle: Oracle) -> None:
    topic = kafka.create_topic(PARTITIONS)
    kafka.produce(topic, list(_records()))
    job: dict[str, Any] = {  # Any: fields of a job, and arguments of its sink
        "client": "kafka",
        "source": "kafka",
        "source_options": _source_options(kafka, topic),
        "expressions": COLUMNS,
        "on_bad_row": "quarantine",
    }

    ingest.run_until_killed(Fault("before_commit", "kill", 1), **job)
    ingest.run_until_killed(Fault("after_commit", "kill", 2), **job)
    last = ingest.start(**job)

    assert last.end() is None
    assert "batch_replayed stream=s batch=2" in last.log
    ingest.ids = [number for number in range(RECORDS) if not _is_broken(number)]
    ingest.check(oracle, LAST_BATCH, orphans=PARTITIONS)
    _check_values(ingest, oracle)
    _check_offsets(ingest, oracle, kafka.ends(topic))


def _source_options(kafka: Kafka, topic: str) -> dict[str, str]:
    return {
        "kafka.bootstrap.servers": kafka.servers,
        "subscribe": topic,
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": str(BATCH_RECORDS),
    }


def _records() -> Iterator[Record]:
    for number in range(RECORDS):
        yield Record(number % PARTITIONS, _value(number))


def _value(number: int) -> bytes:
    name = b"\xff\xfe" if _is_broken(number) else f"näme {number}".encode()
    return b'{"id": %d, "name": "%s"}' % (number, name)


def _is_broken(number: int) -> bool:
    """Tell whether a record's value is no UTF-8: some of each batch."""
    return number % 10 == 7


def _check_values(ingest: Ingest, oracle: Oracle) -> None:
    """See that DuckDB finds the bytes of each record, in the table or among the dead letters, and each record once."""
    oracle.attach(ingest.catalog.attach)
    texts = [text.encode() for (text,) in oracle.query("SELECT text FROM events")]
    dead = [json.loads(row)["text"] for (row,) in oracle.query("SELECT row FROM events_dead_letters")]
    oracle.detach()
    broken = [bytes.fromhex(text.removeprefix("0x")) for text in dead]
    assert sorted(texts) == sorted(_value(number) for number in range(RECORDS) if not _is_broken(number))
    assert sorted(broken) == sorted(_value(number) for number in range(RECORDS) if _is_broken(number))


def _check_offsets(ingest: Ingest, oracle: Oracle, ends: dict[int, int]) -> None:
    """See that each epoch's snapshot holds exactly the offsets before those that it names as its ends."""
    with Lake.open(ingest.catalog.url) as lake:
        extras = [(snapshot.snapshot_id, json.loads(snapshot.extra_info or "{}")) for snapshot in lake.snapshots()]
    epochs = [(snapshot, extra["batch_id"], _told(extra)) for snapshot, extra in extras if "offsets" in extra]
    assert [batch_id for _, batch_id, _ in epochs] == list(range(LAST_BATCH + 1))
    oracle.attach(ingest.catalog.attach)
    for snapshot, _, told in epochs:
        at = f" AT (VERSION => {snapshot})"
        found = oracle.query(f"{PLACES}{at} UNION ALL {DEAD_PLACES}{at} ORDER BY ALL")
        assert found == [(partition, offset) for partition in range(PARTITIONS) for offset in range(told[partition])]
    oracle.detach()
    assert epochs[-1][2] == ends


def _told(extra: dict[str, Any]) -> dict[int, int]:  # Any: JSON
    """Return the ends that a snapshot names: of one source with one topic."""
    [topics] = extra["offsets"]
    [partitions] = topics.values()
    return {int(partition): end for partition, end in partitions.items()}
