"""A job file that keeps all versions of a database's rows: events of Debezium, with a restart in between."""

import json
from base64 import b64encode
from decimal import Decimal
from typing import Any

import pytest

from tests.fixtures.jobs import JobFolder
from tests.fixtures.kafka import Kafka, Record

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]  # it starts Spark twice

DECIMAL = {"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "2"}}
COLUMNS = [{"field": "id", "type": "int64"}, {"field": "price", **DECIMAL}]
SCHEMA = {"type": "struct", "fields": [{"field": name, "fields": COLUMNS} for name in ("before", "after")]}
SQL = "SELECT coalesce(after.id, before.id) AS id, after.price, op, CAST(source['lsn'] AS bigint) AS lsn FROM input"


def image(id_: int, cents: int) -> dict[str, Any]:  # Any: JSON
    return {"id": id_, "price": b64encode(cents.to_bytes(2, "big", signed=True)).decode()}


def records(*events: tuple[int, str, int, int]) -> list[Record]:
    return [Record(0, event(*one)) for one in events]


def event(lsn: int, op: str, id_: int, cents: int) -> bytes:
    before, after = (image(id_, cents), None) if op == "d" else (None, image(id_, cents))
    payload = {"op": op, "before": before, "after": after, "source": {"lsn": lsn}, "ts_ms": lsn}
    return json.dumps({"schema": SCHEMA, "payload": payload}).encode()


def test_versions_of_rows_follow_the_events_through_a_restart(kafka: Kafka, job_folder: JobFolder) -> None:
    topic = kafka.create_topic(1)
    source = job_folder.kafka(kafka, topic, format="debezium", schema="id bigint, price decimal(12,2)")
    rules: dict[str, Any] = {  # Any: each argument is of its own type
        "mode": "upsert",
        "keys": ["id"],
        "sequence_by": ["lsn"],
        "apply_as_deletes": "op = 'd'",
        "except_columns": ["op", "lsn"],
        "stored_as_scd_type": 2,
    }
    pipeline = job_folder.pipeline("prices", source, **rules) | {"transform": {"sql": SQL}}
    job_folder.write({"prices": pipeline})

    kafka.produce(topic, records((10, "c", 1, 1000), (30, "u", 1, 3000), (11, "r", 2, 500)))
    first = job_folder.run()
    begun = job_folder.rows("prices", "id", "price", "__START_AT")
    late = [(20, "u", 1, 2000), (40, "d", 1, 0), (30, "u", 1, 3000), (50, "u", 2, 500), (60, "u", 2, -1)]
    kafka.produce(topic, records(*late))
    second = job_folder.run()

    assert [process.process.returncode for process in (first, second)] == [0, 0], second.log[-5000:]
    assert begun == [(1, Decimal("10.00"), 10), (1, Decimal("30.00"), 30), (2, Decimal("5.00"), 11)]
    found = {row[:3]: row[3] for row in job_folder.rows("prices", "id", "price", "__START_AT", "__END_AT")}
    assert found == {
        (1, Decimal("10.00"), 10): 20,
        (1, Decimal("20.00"), 20): 30,
        (1, Decimal("30.00"), 30): 40,
        (2, Decimal("5.00"), 11): 60,
        (2, Decimal("-0.01"), 60): None,
    }
