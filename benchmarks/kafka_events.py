"""Events of 20 columns for the benchmark of Kafka: JSON of some 300 bytes, and Avro with the id of its schema."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import date, datetime
from io import BytesIO
from typing import Any

from fastavro import parse_schema, schemaless_writer

from ducklake_streaming.demo.local_kafka import Record

PARTITIONS = 2
BROKEN_EVERY = 50
COLUMNS = {
    "id": "bigint",
    "customer": "bigint",
    "kind": "string",
    "country": "string",
    "city": "string",
    "street": "string",
    "amount": "double",
    "tax": "double",
    "discount": "double",
    "quantity": "int",
    "sku": "string",
    "paid": "boolean",
    "gift": "boolean",
    "weight": "double",
    "note": "string",
    "channel": "string",
    "session": "string",
    "score": "float",
    "day": "date",
    "ts": "timestamp",
}
SCHEMA = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
_AVRO_TYPES: dict[str, object] = {
    "bigint": "long",
    "date": {"type": "int", "logicalType": "date"},
    "timestamp": {"type": "long", "logicalType": "timestamp-micros"},
}
AVRO_SCHEMA = {
    "type": "record",
    "name": "event",
    "fields": [{"name": name, "type": ["null", _AVRO_TYPES.get(kind, kind)]} for name, kind in COLUMNS.items()],
}


def json_records(first: int, count: int) -> Iterator[Record]:
    for number in range(first, first + count):
        value = json.dumps(_event(number), ensure_ascii=False, separators=(",", ":"))
        yield Record(number % PARTITIONS, value.encode())


def some_broken(records: Iterator[Record]) -> Iterator[Record]:
    """Yield the records; one of fifty ends in the middle of its JSON."""
    for number, record in enumerate(records):
        is_broken = number % BROKEN_EVERY == BROKEN_EVERY - 1
        yield replace(record, value=(record.value or b"")[:100]) if is_broken else record


def avro_records(first: int, count: int, schema_id: int) -> Iterator[Record]:
    """Yield the same events as Confluent's serializers write them: a zero, the schema's id, and Avro."""
    head = b"\0" + schema_id.to_bytes(4, "big")
    schema = parse_schema(AVRO_SCHEMA)
    for number in range(first, first + count):
        event = _event(number)
        event["day"] = date.fromisoformat(event["day"])
        event["ts"] = datetime.fromisoformat(event["ts"])
        value = BytesIO()
        schemaless_writer(value, schema, event)
        yield Record(number % PARTITIONS, head + value.getvalue())


def _event(number: int) -> dict[str, Any]:  # Any: one type for each column
    return {
        "id": number,
        "customer": number * 7919 % 100_003,
        "kind": ("order", "return", "offer")[number % 3],
        "country": ("DE", "FR", "PL", "TR")[number % 4],
        "city": ("Berlin", "Lyon", "Kraków", "İzmir")[number % 4],
        "street": f"Road {number % 977}",
        "amount": number % 10_000 / 100,
        "tax": number % 1_900 / 100,
        "discount": 0.5,
        "quantity": number % 9,
        "sku": f"A{number % 5003:06}",
        "paid": number % 2 == 0,
        "gift": number % 11 == 0,
        "weight": number % 500 / 10,
        "note": None if number % 5 else "fragile",
        "channel": ("web", "shop")[number % 2],
        "session": f"{number * 2654435761 % 2**32:08x}",
        "score": number % 100 / 8,
        "day": f"2026-03-{1 + number % 28:02}",
        "ts": f"2026-03-{1 + number % 28:02}T12:{number % 60:02}:00Z",
    }
