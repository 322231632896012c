"""What the schema beside an envelope says of values: decimals as bytes, and times as numbers, in each mode."""

import json
from base64 import b64encode
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import types as T  # noqa: N812 # Spark's own convention

from ducklake_streaming.formats.debezium_values import NoSuchValueError, ToldValues
from ducklake_streaming.jobs.spark_ddl import parse_ddl

CONNECT, TIME = "org.apache.kafka.connect.data.", "io.debezium.time."
DAY = 19_723  # 2024-01-01
AT = 1_704_112_245_123_456  # 2024-01-01 12:30:45.123456, in microseconds
TEXT_AT = "2024-01-01T12:30:45.123456"
CLOCK = AT - DAY * 86_400_000_000
HOUR = 3_600_000_000
MICRO_TIME = {"type": "int64", "name": f"{TIME}MicroTime"}


def unscaled(number: int) -> str:
    """Return a number as Java's BigInteger tells its bytes."""
    size = (number if number >= 0 else ~number).bit_length() // 8 + 1
    return b64encode(number.to_bytes(size, "big", signed=True)).decode()


def decimal(scale: int) -> dict[str, Any]:  # Any: JSON
    return {"type": "bytes", "name": f"{CONNECT}Decimal", "parameters": {"scale": str(scale)}}


def named(kind: str, name: str) -> dict[str, str]:
    return {"type": kind, "name": name}


VARIABLE = {"type": "struct", "name": "io.debezium.data.VariableScaleDecimal"}
# The type in the lake, what the envelope's schema says, what comes, what it is.
TOLD: list[tuple[str, Any, Any, Any]] = [  # Any: JSON
    ("decimal(12,2)", decimal(2), unscaled(12_345), "123.45"),
    ("decimal(12,2)", decimal(2), unscaled(-1), "-0.01"),
    ("decimal(12,2)", decimal(2), "1234", "-26588.24"),  # which looks like a number itself
    ("decimal(38,10)", decimal(10), unscaled(-(10**38) + 1), "-9999999999999999999999999999.9999999999"),
    ("decimal(12,0)", decimal(-3), unscaled(7), "7000"),
    ("string", decimal(2), unscaled(12_300), "123.00"),
    ("double", decimal(2), unscaled(12_345), 123.45),
    ("decimal(20,4)", VARIABLE, {"scale": 3, "value": unscaled(-5)}, "-0.005"),
    ("array<decimal(12,2)>", {"type": "array", "items": decimal(2)}, [unscaled(5), None], ["0.05", None]),
    ("decimal(12,2)", {"type": "string"}, "123.45", "123.45"),  # decimal.handling.mode = string
    ("decimal(12,2)", {"type": "double"}, 123.45, 123.45),
    ("date", named("int32", f"{TIME}Date"), DAY, "2024-01-01"),
    ("date", named("int32", f"{CONNECT}Date"), -1, "1969-12-31"),
    ("date", named("string", f"{TIME}IsoDate"), "2024-01-01Z", "2024-01-01"),
    ("timestamp_ntz", named("int64", f"{TIME}Timestamp"), AT // 1000, TEXT_AT[:-3] + "000"),
    ("timestamp_ntz", named("int64", f"{CONNECT}Timestamp"), AT // 1000, TEXT_AT[:-3] + "000"),
    ("timestamp_ntz", named("int64", f"{TIME}MicroTimestamp"), AT, TEXT_AT),
    ("timestamp_ntz", named("int64", f"{TIME}NanoTimestamp"), AT * 1000, TEXT_AT),
    ("timestamp", named("int64", f"{TIME}MicroTimestamp"), AT, TEXT_AT + "Z"),
    ("timestamp", named("string", f"{TIME}ZonedTimestamp"), "2024-01-01T00:00:00Z", "2024-01-01T00:00:00Z"),
    ("string", named("int32", f"{TIME}Time"), CLOCK // 1000, "12:30:45.123000"),
    ("string", named("int32", f"{CONNECT}Time"), CLOCK // 1000, "12:30:45.123000"),
    ("string", named("int64", f"{TIME}MicroTime"), CLOCK, "12:30:45.123456"),
    ("string", named("int64", f"{TIME}NanoTime"), CLOCK * 1000, "12:30:45.123456"),
    ("string", MICRO_TIME, 0, "00:00:00"),
    ("string", MICRO_TIME, 24 * HOUR, "24:00:00"),  # which PostgreSQL has
    ("string", MICRO_TIME, 25 * HOUR, "25:00:00"),
    ("string", MICRO_TIME, -HOUR - 1, "-01:00:00.000001"),
    ("string", MICRO_TIME, 839 * HOUR - 1_000_000, "838:59:59"),  # MySQL's last
    ("string", MICRO_TIME, 1_000_000 - 839 * HOUR, "-838:59:59"),
    ("array<string>", {"type": "array", "items": MICRO_TIME}, [-1, None], ["-00:00:00.000001", None]),
    ("bigint", named("int64", f"{TIME}MicroTimestamp"), AT, AT),  # as it comes: whoever asks for a number gets it
    ("date", named("int64", f"{TIME}MicroTimestamp"), AT, AT),  # which no date is, and so it is refused
    ("timestamp_ntz", {"type": "int64"}, AT, AT),
]
WRONG: list[tuple[str, Any, Any, str]] = [  # Any: JSON
    ("decimal(12,2)", decimal(2), "12.5", "is a decimal of scale 2 in the schema of its envelope, and not"),
    ("decimal(12,2)", {"type": "bytes"}, "1234", "is bytes in the schema of its envelope"),
    ("timestamp_ntz", named("int64", f"{TIME}MicroTimestamp"), 2**63 - 1, "is none that we know"),
    ("timestamp_ntz", named("int64", f"{TIME}NanoTimestamp"), 1, "is none that we know"),
    ("string", MICRO_TIME, 839 * HOUR, "3020400000000 is none that we know"),
    ("string", {"type": "int64", "name": ["x"]}, "x", "has a schema in its envelope whose 'name' is no text"),
    ("timestamp", {"type": "int64", "name": {"x": 1}}, 1, "has a schema in its envelope whose 'name' is no text"),
    ("decimal(9,2)", {**decimal(2), "parameters": "scale"}, "1234", "whose 'parameters' is no object"),
    ("array<decimal(9,2)>", {"type": "array", "items": 1}, ["1234"], "whose 'items' is no object"),
    ("decimal(9,2)", decimal(10**20), "AQ==", f'is a decimal of scale "{10**20}" in its envelope, and no scale but'),
    ("string", decimal(-(10**8)), "AQ==", 'is a decimal of scale "-100000000" in its envelope'),
    ("string", VARIABLE, {"scale": 16_384, "value": "AQ=="}, "is a decimal of scale 16384 in its envelope"),
    ("string", VARIABLE, {"scale": True, "value": "AQ=="}, "is a decimal of scale true in its envelope"),
    ("string", VARIABLE, {"scale": 2.5, "value": "AQ=="}, "is a decimal of scale 2.5 in its envelope"),
    (
        "string",
        VARIABLE,
        {"scale": 2, "value": 2.5},
        "is a decimal of scale 2 in the schema of its envelope, and not 2.5",
    ),
]
# What may stand where a schema, a part of one, or a value should be.
ODD = st.recursive(
    st.sampled_from([None, True, 1, -7, 2.5, float("inf"), 10**20, "", "v", "\ud800", "99999999999", "AQ==", "array"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["scale", "value"]), inner),
    max_leaves=4,
)
SCALAR = st.builds(
    lambda schema, part, odd: {**schema, part: odd},
    st.sampled_from([decimal(2), VARIABLE, MICRO_TIME, named("int32", f"{TIME}Date")]),
    st.sampled_from(["type", "name", "parameters", "field", "fields"]),
    ODD | st.builds(lambda odd: {"scale": odd}, ODD),
)
SCHEMA = SCALAR | st.builds(lambda items: {"type": "array", "items": items}, SCALAR | ODD)
VALUE = st.sampled_from([1, "AQ==", [1], ["AQ=="], {"scale": 2, "value": "AQ=="}]) | ODD


def envelope(schema: Any, value: Any, *others: Any) -> str:  # Any: JSON
    fields = [
        *others,
        {"field": "before", "fields": []},
        {"field": "after", "fields": [{"field": "v"} | schema, *others]},
    ]
    payload = {"op": "c", "before": None, "after": {"v": value}}
    return json.dumps({"schema": {"type": "struct", "fields": fields}, "payload": payload})


def rewritten(ddl: str, schema: Any, value: Any) -> Any:  # Any: JSON
    return ToldValues(parse_ddl(f"v {ddl}")).rewrite(envelope(schema, value))


@pytest.mark.parametrize(("ddl", "schema", "value", "expected"), TOLD)
def test_value_is_what_its_schema_says(ddl: str, schema: Any, value: Any, expected: Any) -> None:  # Any: JSON
    assert json.loads(rewritten(ddl, schema, value))["payload"]["after"]["v"] == expected


@pytest.mark.parametrize(("ddl", "schema", "value", "why"), WRONG)
def test_value_that_is_not_what_its_schema_says_is_refused(ddl: str, schema: Any, value: Any, why: str) -> None:
    with pytest.raises(NoSuchValueError, match=f"field 'v' {why}" if why.startswith("is a") else why):
        rewritten(ddl, schema, value)


@pytest.mark.parametrize(("micros", "shown"), [(24 * HOUR, "24:00:00"), (-1, "-00:00:00.000001")])
def test_time_that_is_no_time_of_day_is_refused_by_a_time(micros: int, shown: str) -> None:
    values = ToldValues(T.StructType([T.StructField("v", T.TimeType(6))]))

    assert json.loads(values.rewrite(envelope(MICRO_TIME, CLOCK)) or "")["payload"]["after"]["v"] == "12:30:45.123456"
    with pytest.raises(NoSuchValueError, match=f"field 'v' is a .*MicroTime .*, and {shown} is no time of day"):
        values.rewrite(envelope(MICRO_TIME, micros))


@settings(max_examples=1000, deadline=None)
@given(
    st.sampled_from(["string", "decimal(9,2)", "double", "date", "timestamp", "array<string>", "array<decimal(9,2)>"]),
    SCHEMA,
    SCHEMA | ODD,
    VALUE,
)
def test_malformed_schema_raises_nothing_but_what_makes_a_dead_letter(
    ddl: str, schema: Any, other: Any, value: Any
) -> None:
    try:
        found = ToldValues(parse_ddl(f"v {ddl}")).rewrite(envelope(schema, value, other))
    except NoSuchValueError as error:
        found = str(error)

    assert found is not None
    assert len(found.encode()) < 50_000


def test_envelope_that_is_nested_too_deep_is_refused_and_not_read_without_its_schema() -> None:
    text = envelope(decimal(2), "1234").replace('"op": "c"', f'"op": "c", "deep": {"[" * 5_000}{"]" * 5_000}')

    with pytest.raises(NoSuchValueError, match="nested too deep"):
        ToldValues(parse_ddl("v decimal(9,2)")).rewrite(text)


def test_other_values_keep_all_their_digits() -> None:
    fields = [{"field": "after", "fields": [{"field": "v", **decimal(1)}]}]
    after = '{"v": "Dw==", "x": 0.100000000000000000000001e5, "n": 1234567890123456789012345, "t": "a\\u0000b"}'
    text = f'{{"schema": {json.dumps({"fields": fields})}, "payload": {{"op": "c", "after": {after}}}}}'

    found = ToldValues(parse_ddl("v decimal(3,1)")).rewrite(text)

    assert found == f'{{"payload": {{"op": "c", "after": {after.replace("Dw==", "1.5")}}}}}'


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"op": "c"}', '{"payload": {"op": "c"}}', '{"schema": null, "payload": {}}']
)
def test_texts_without_a_schema_are_left_as_they_are(text: str) -> None:
    assert ToldValues(parse_ddl("v decimal(3,1)")).rewrite(text) is None
