"""A JSON record is decoded whole, or it has an error: what Spark's parser reads by guess or as null is an error."""

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 # Spark's own convention
from pyspark.sql import types as T  # noqa: N812 # Spark's own convention

from ducklake_streaming.formats.decoder import DECODED, ERROR, STALE
from ducklake_streaming.formats.json_reasons import json_reason
from ducklake_streaming.formats.json_records import JsonDecoder
from ducklake_streaming.jobs.spark_ddl import parse_ddl
from tests.fixtures.records import record_frame

pytestmark = pytest.mark.slow

SCHEMA = parse_ddl(
    "id bigint, i int, small smallint, tiny tinyint, s string, d double, f float, n decimal(9,2), wide decimal(38,2), "
    "b boolean, day date, at timestamp, local timestamp_ntz, bin binary, one struct<x: int, y: string NOT NULL>, "
    "list array<int>, many array<struct<x: int, n: decimal(9,2)>>, map map<string, int>, `odd ``name` int"
)
GOOD: list[tuple[bytes, dict[str, Any]]] = [  # Any: values of fields
    (b"{}", {}),
    (b' \n{"id": 1}\t ', {"id": 1}),
    (b'{"id": null, "n": null, "s": "null"}', {"s": "null"}),
    (b'{"id": -9223372036854775808, "tiny": -128, "small": 32767}', {"id": -(2**63), "tiny": -128, "small": 32767}),
    (b'{"n": 1.230, "wide": 123456789012345678901234567890123456.78}',
     {"n": "1.23", "wide": "123456789012345678901234567890123456.78"}),
    (b'{"n": "1.5"}', {"n": "1.50"}),
    (b'{"n": 1e3}', {"n": "1000.00"}),
    (b'{"d": 5, "f": -0.5}', {"d": 5.0, "f": -0.5}),
    (b'{"day": "2026-02-28", "at": "2026-01-01T01:00:00+01:00"}',
     {"day": "2026-02-28", "at": "2026-01-01T00:00:00.000Z"}),
    (b'{"at": "2026-01-01 00:00:00.123456789 Europe/Berlin"}', {"at": "2025-12-31T23:00:00.123Z"}),
    (b'{"s": "\\ud83d\\ude00 \\\\ud800"}', {"s": "\N{GRINNING FACE} \\ud800"}),
    (b'{"s": {"a": [1]}}', {"s": '{"a":[1]}'}),
    (b'{"bin": "AP8="}', {"bin": "AP8="}),
    (b'{"one": {"y": "z"}, "list": [1, null], "many": [null, {"n": 1.5}]}',
     {"one": {"y": "z"}, "list": [1, None], "many": [None, {"n": "1.50"}]}),
    (b'{"map": {"a": 1, "b": null}}', {"map": {"a": 1, "b": None}}),
    (b'{"unknown": [[[{}]]], "ID": 7, "odd `name": 3}', {"odd `name": 3}),
    (b'{"id": 1, "id": 2}', {"id": 2}),  # as every other parser has it
]  # fmt: skip
BAD: list[tuple[bytes | None, str]] = [
    (None, "tombstone"),
    (b"", "no JSON: Expecting value"),
    (b"  ", "no JSON: Expecting value"),
    (b"null", "no JSON object, but null"),
    (b'[{"id": 1}]', "no JSON object, but ["),
    (b"1", "no JSON object, but 1"),
    (b'{"id": 1} x', "Extra data: line 1 column 11"),
    (b'{"id": 1}{"id": 2}', "Extra data"),
    (b'{"id": 1},{"id": 2}', "Extra data"),
    (b'{"id": 1}]', "Extra data"),
    (b'{"id": 1}], [{"id": 2}', "Extra data"),
    (b'{"id": 1', "no JSON: Expecting"),
    (b'{"id": 1, "unknown": tru}', "no JSON"),
    (b"{'id': 1}", "no JSON"),
    (b'{"id": 01}', "no JSON"),
    (b'{"d": NaN}', "NaN is no number"),
    (b'{"s": "a\tb"}', "control character"),
    (b'\xef\xbb\xbf{"id": 1}', "BOM"),
    (b'{"s": "\xff"}', "no UTF-8"),
    (b'{"s": "\\ud800"}', "surrogate"),
    (b'{"s": "\\\\\\ude00"}', "surrogate"),
    (b'{"x": ' + b"[" * 2000 + b"]" * 2000 + b"}", "no JSON"),
    (b'{"id": "1"}', "field 'id' is no bigint, but \"1\""),
    (b'{"id": ""}', "field 'id' is no bigint"),
    (b'{"id": 1.0}', "field 'id' is no bigint, but 1.0"),
    (b'{"id": true}', "field 'id' is no bigint, but true"),
    (b'{"id": 9223372036854775808}', "field 'id' is no bigint"),
    (b'{"i": 2147483648}', "field 'i' is no int"),
    (b'{"small": 32768}', "field 'small' is no smallint"),
    (b'{"tiny": 200}', "field 'tiny' is no tinyint, but 200"),
    (b'{"d": 1e999}', "field 'd' is no double"),
    (b'{"f": 1e40}', "field 'f' is no float"),
    (b'{"d": "NaN"}', "field 'd' is no double"),
    (b'{"n": 1.239}', "field 'n' is no decimal(9,2), but 1.239"),
    (b'{"n": 12345678.9}', "field 'n' is no decimal(9,2)"),
    (b'{"n": 1e-3}', "field 'n' is no decimal(9,2)"),
    (b'{"n": "1,5"}', "field 'n' is no decimal(9,2), but \"1,5\""),
    (b'{"n": true}', "field 'n' is no decimal(9,2), but true"),
    (b'{"wide": 1.001}', "field 'wide' is no decimal(38,2)"),
    (b'{"b": "true"}', "field 'b' is no boolean"),
    (b'{"day": "2026-02-30"}', "field 'day' is no date"),
    (b'{"day": "2026-01-01T10:00:00"}', "field 'day' is no date"),
    (b'{"day": "2026"}', "field 'day' is no date"),
    (b'{"at": 1700000000}', "field 'at' is no timestamp, but 1700000000"),
    (b'{"at": "12:30"}', "field 'at' is no timestamp, but \"12:30\""),
    (b'{"local": "2026-01-01T99:00:00"}', "field 'local' is no timestamp_ntz"),
    (b'{"bin": "!"}', "field 'bin' is no binary"),
    (b'{"one": 5}', "field 'one' is no struct"),
    (b'{"one": []}', "field 'one' is no struct"),
    (b'{"one": {}}', "field 'one.y' is missing, and the schema says NOT NULL"),
    (b'{"one": {"x": "1", "y": "z"}}', "field 'one.x' is no int, but \"1\""),
    (b'{"list": [1, "2"]}', "field 'list[1]' is no int, but \"2\""),
    (b'{"list": {"x": 1}}', "field 'list' is no array<int>"),
    (b'{"many": [{"x": 1}, {"x": "b"}]}', "field 'many[1].x' is no int"),
    (b'{"many": [{"n": 1.239}]}', "field 'many[0].n' is no decimal(9,2)"),
    (b'{"map": {"a": 1, "a": 2}}', "field 'map' has the key \"a\" more than once"),
    (b'{"map": {"a": "x"}}', "field 'map[\"a\"]' is no int"),
    (b'{"id": "a", "id": 2}', "no JSON object of the schema"),
    (b'{"odd `name": "x"}', "field 'odd `name' is no int"),
]  # fmt: skip


def decode(
    spark: SparkSession, values: list[bytes | None], schema: T.StructType = SCHEMA
) -> list[tuple[str | None, Any]]:  # Any: JSON
    """Return the reason of each record, explained, or what it was decoded to, in the order of the values."""
    decoder = JsonDecoder(schema)
    explain = F.udf(decoder.explainer(), "string", useArrow=False)
    decoded = decoder.decode(record_frame(spark, values))
    reason = F.when(F.col(ERROR).isNotNull(), explain("value", F.col(ERROR)))
    rows = decoded.select("partition", "offset", STALE, reason.alias("why"), F.to_json(DECODED).alias("got")).collect()
    assert not any(row[STALE] for row in rows)
    ordered = sorted(rows, key=lambda row: (row.offset, row.partition))
    return [(row.why, None if row.why else json.loads(row.got, parse_float=_exact)) for row in ordered]


def _exact(text: str) -> Any:  # Any: decimals as their text, other numbers as floats
    return text if len(text.partition(".")[2]) == 2 else float(text)


def test_good_records_are_decoded_whole(spark: SparkSession) -> None:
    found = decode(spark, [value for value, _ in GOOD])

    assert [why for why, _ in found] == [None] * len(GOOD)
    assert [_without_nulls(value) for _, value in found] == [expected for _, expected in GOOD]


def test_bad_records_say_where_and_what(spark: SparkSession) -> None:
    found = decode(spark, [value for value, _ in BAD])

    missed = [
        (value, why) for (value, told), (why, _) in zip(BAD, found, strict=True) if why is None or told not in why
    ]
    assert missed == []


def test_a_field_that_must_not_be_null_makes_a_record_bad(spark: SparkSession) -> None:
    schema = parse_ddl("id bigint NOT NULL, n decimal(9,2) NOT NULL, many array<struct<x: int NOT NULL>>")
    values: list[bytes | None] = [
        b'{"id": 1, "n": 1}',
        b'{"n": 1}',
        b'{"id": 1, "n": null}',
        b'{"id": 1, "n": 1, "many": [{"x": 1}, {}]}',
    ]

    assert [why for why, _ in decode(spark, values, schema)] == [
        None,
        "field 'id' is missing, and the schema says NOT NULL",
        "field 'n' is null, and the schema says NOT NULL",
        "field 'many[1].x' is missing, and the schema says NOT NULL",
    ]


# ---- any JSON: Spark and Python agree on which of it is good


def _json_values() -> st.SearchStrategy[Any]:
    numbers = (
        st.integers(-(2**70), 2**70)
        | st.sampled_from([0, 127, 128, 2**31, 2**63])
        | st.floats(allow_nan=False, allow_infinity=False)
    )
    texts = st.text(max_size=4) | st.sampled_from(["1", "1.5", "2026-01-01", "2026-01-01T00:00:00Z", "AP8="])
    leaves = st.none() | st.booleans() | numbers | texts
    return st.recursive(
        leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_names(), inner, max_size=3)
    )


def _names() -> st.SearchStrategy[str]:
    return st.sampled_from([*SCHEMA.names, "x", "y", "other"])


@settings(max_examples=4)
@given(st.lists(st.dictionaries(_names(), _json_values(), max_size=3) | _json_values(), min_size=60, max_size=60))
def test_spark_refuses_what_python_refuses(spark: SparkSession, documents: list[Any]) -> None:
    texts = [json.dumps(one, ensure_ascii=False, allow_nan=False) for one in documents]

    found = decode(spark, [_as_bytes(text) for text in texts])

    differing = [
        (text, why, told)
        for text, (why, _) in zip(texts, found, strict=True)
        if (why is None) != ((told := _model(text)) is None)
    ]
    assert differing == []


def _as_bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _model(text: str) -> str | None:
    try:
        text.encode()
    except UnicodeEncodeError:
        return "no UTF-8"
    return json_reason(text, SCHEMA)


def _without_nulls(value: dict[str, Any]) -> dict[str, Any]:  # Any: JSON
    found = {name: one for name, one in value.items() if one is not None}
    return {name: _without_nulls(one) if name == "one" else _plain(one) for name, one in found.items()}


def _plain(value: Any) -> Any:  # Any: JSON
    if isinstance(value, list):
        return [_plain(one) for one in value]
    if isinstance(value, dict):
        return dict(value)
    return str(value) if isinstance(value, Decimal) else value
