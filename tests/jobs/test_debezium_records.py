"""Debezium's envelope becomes columns, with and without the schema beside it."""

import json
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import types as T  # noqa: N812 # Spark's own convention

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


# A row of PostgreSQL as Debezium tells it, with the schema of each column, by `time.precision.mode` and
# `decimal.handling.mode`.
MOMENT = datetime(2024, 1, 1, 12, 30, 45, 123456)  # noqa: DTZ001 # of a column without a zone
CONNECT, TIME = "org.apache.kafka.connect.data.", "io.debezium.time."
PRECISE = {
    "type": "bytes",
    "name": f"{CONNECT}Decimal",
    "parameters": {"scale": "2", "connect.decimal.precision": "12"},
}
VARIABLE = {"type": "struct", "name": "io.debezium.data.VariableScaleDecimal"}
MODES: dict[str, dict[str, tuple[dict[str, Any], Any]]] = {  # Any: JSON
    "adaptive, precise": {
        "d": ({"type": "int32", "name": f"{TIME}Date"}, 19_723),
        "t": ({"type": "int64", "name": f"{TIME}MicroTimestamp"}, 1_704_112_245_123_456),
        "z": ({"type": "string", "name": f"{TIME}ZonedTimestamp"}, "2024-01-01T12:30:45.123456Z"),
        "n": (PRECISE, "MDk="),
        "v": (VARIABLE, {"scale": 3, "value": "+w=="}),
    },
    "connect, string": {
        "d": ({"type": "int32", "name": f"{CONNECT}Date"}, 19_723),
        "t": ({"type": "int64", "name": f"{CONNECT}Timestamp"}, 1_704_112_245_123),
        "z": ({"type": "string", "name": f"{TIME}ZonedTimestamp"}, "2024-01-01T12:30:45.123456Z"),
        "n": ({"type": "string"}, "123.45"),
        "v": ({"type": "string"}, "-0.005"),
    },
}
TYPES = "d date, t timestamp_ntz, z timestamp, n decimal(12,2), v decimal(20,4)"


def wrapped(mode: str, *, with_schema: bool = True, **others: Any) -> dict[str, Any]:  # Any: JSON
    columns = MODES[mode]
    payload = {"op": "c", "before": None, "after": {name: value for name, (_, value) in columns.items()} | others}
    row = [{"field": name, "optional": True, **schema} for name, (schema, _) in columns.items()]
    fields = [{"type": "struct", "fields": row, "field": name} for name in ("before", "after")]
    schema = {"type": "struct", "fields": fields, "name": "shop.public.t.Envelope"}
    return {"schema": schema, "payload": payload} if with_schema else payload


def test_schema_beside_the_envelope_tells_what_numbers_and_bytes_mean(spark: SparkSession) -> None:
    decoder = DebeziumDecoder(parse_ddl(TYPES))
    documents = [wrapped("adaptive, precise"), wrapped("connect, string"), wrapped("adaptive, precise", n=None, t=-1)]

    adaptive, connect, other = decode(spark, decoder, documents)

    assert [adaptive._error, connect._error, other._error] == [None] * 3
    row = adaptive._decoded.after
    assert (row.d, row.t, row.n, row.v) == (date(2024, 1, 1), MOMENT, Decimal("123.45"), Decimal("-0.005"))
    assert connect._decoded.after == row.__class__(**row.asDict() | {"t": MOMENT.replace(microsecond=123_000)})
    assert (other._decoded.after.n, other._decoded.after.t) == (None, datetime(1969, 12, 31, 23, 59, 59, 999_999))  # noqa: DTZ001 # likewise


def test_times_of_day_are_told_and_others_refused(spark: SparkSession) -> None:
    micro_time = {"type": "int64", "name": f"{TIME}MicroTime"}
    decoder = DebeziumDecoder(T.StructType([T.StructField("c", T.TimeType(6)), T.StructField("s", T.StringType())]))
    row = [{"field": name, **micro_time} for name in "cs"]
    schema = {"fields": [{"field": "after", "fields": row}]}
    broken = {
        "fields": [{"field": "after", "fields": [{**row[0], "name": ["x"]}, {"field": ["s"], "name": f"{TIME}Date"}]}]
    }
    documents = [
        {"schema": schema, "payload": {"op": "c", "after": {"c": 1_000_001, "s": -1}}},
        {"schema": schema, "payload": {"op": "c", "after": {"c": 86_400_000_000, "s": None}}},
        {"schema": broken, "payload": {"op": "c", "after": {"c": 1, "s": "x"}}},
    ]

    told, late, malformed = decode(spark, decoder, documents)

    assert (told._error, told._decoded.after.c, told._decoded.after.s) == (None, time(0, 0, 1, 1), "-00:00:00.000001")
    reasons = [decoder.explainer()(bytes(row.value), row._error or "nothing") for row in (late, malformed)]
    assert "24:00:00 is no time of day" in reasons[0]
    assert "field 'c' has a schema in its envelope whose 'name' is no text" in reasons[1]


def test_values_that_nobody_can_tell_are_refused(spark: SparkSession) -> None:
    decoder = DebeziumDecoder(parse_ddl(TYPES))
    cases: list[tuple[Any, str]] = [  # Any: JSON
        (wrapped("adaptive, precise", with_schema=False), "field 'after.d' is no date, but 19723"),
        (
            wrapped("connect, string", with_schema=False, d=None),
            "field 'after.t' is no timestamp_ntz, but 1704112245123",
        ),
        (wrapped("adaptive, precise", with_schema=False, d=None, t=None), "field 'after.n' is no decimal(12,2), but"),
        (wrapped("adaptive, precise", n="123.45"), "field 'n' is a decimal of scale 2 in the schema of its envelope"),
        (wrapped("adaptive, precise", t=2**63 - 1), "9223372036854775807 is none that we know"),
    ]

    cases += [("io.debezium.time.Date \xff", "the value is no UTF-8")]
    decoded = decoder.decode(
        record_frame(spark, [json.dumps(one, ensure_ascii=False).encode("latin1") for one, _ in cases])
    )
    rows = decoded.select("partition", "offset", "value", "_error").orderBy("offset", "partition").collect()

    reasons = [decoder.explainer()(bytes(row.value), row._error or "nothing") for row in rows]
    assert [(why, told) for why, (_, told) in zip(reasons, cases, strict=True) if told not in why] == []
