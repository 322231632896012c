"""Debezium's envelope becomes columns, with and without the schema beside it."""

import json
from typing import Any

import pytest
from pyspark.sql import SparkSession

from ducklake_streaming.formats.debezium_records import DebeziumDecoder
from ducklake_streaming.jobs.spark_ddl import parse_ddl
from tests.fixtures.records import record_frame

pytestmark = pytest.mark.slow

ENVELOPE = {"before": None, "after": {"id": 1}, "source": {"db": "d", "lsn": 5}, "op": "c", "ts_ms": 7}
DELETE = {"before": {"id": 1}, "after": None, "op": "d", "ts_ms": 8}
BAD: list[tuple[Any, str]] = [  # Any: JSON
    ({"id": 1}, "no envelope of Debezium: it has no op"),
    ({"schema": {}, "payload": None}, "it has no op"),
    ({"op": "u", "after": None}, "no after, though its op is u"),
    ({"op": "c", "after": {"id": "x"}}, "field 'after.id' is no bigint, but \"x\""),
    ({"payload": {"op": "c", "after": {}}}, "field 'payload.after.id' is missing"),
    ([], "no JSON object"),
]


def decode(spark: SparkSession, decoder: DebeziumDecoder, documents: list[Any]) -> list[Any]:  # Any: JSON, and rows
    values = [None if one is None else json.dumps(one).encode() for one in documents]
    decoded = decoder.decode(record_frame(spark, values)).select("partition", "offset", "value", "_error", "_decoded")
    return sorted(decoded.collect(), key=lambda row: (row.offset, row.partition))


def test_envelope_is_unwrapped_and_tombstones_are_passed_over(spark: SparkSession) -> None:
    wrapped = {"schema": {"type": "struct"}, "payload": ENVELOPE}

    rows = decode(spark, DebeziumDecoder(parse_ddl("id bigint NOT NULL")), [ENVELOPE, wrapped, DELETE, None])

    assert [row._error for row in rows] == [None] * 3
    created, again, deleted = (row._decoded.asDict(recursive=True) for row in rows)
    source = {"db": "d", "lsn": "5"}
    assert created == again == {"before": None, "after": {"id": 1}, "op": "c", "source": source, "ts_ms": 7}
    assert deleted == {"before": {"id": 1}, "after": None, "op": "d", "source": None, "ts_ms": 8}


def test_rows_without_a_schema_are_texts(spark: SparkSession) -> None:
    [row] = decode(spark, DebeziumDecoder(None), [ENVELOPE])

    assert (row._error, row._decoded.after) == (None, '{"id":1}')


def test_what_is_no_envelope_says_why(spark: SparkSession) -> None:
    decoder = DebeziumDecoder(parse_ddl("id bigint NOT NULL"))

    rows = decode(spark, decoder, [document for document, _ in BAD])

    reasons = [decoder.explainer()(bytes(row.value), row._error or "") for row in rows]
    missed = [(why, told) for why, (_, told) in zip(reasons, BAD, strict=True) if told not in why]
    assert missed == []
