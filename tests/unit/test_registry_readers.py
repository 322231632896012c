"""Columns of several schemas together, JSON Schema and Protobuf into columns, and their reasons."""

import json
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import types as T  # noqa: N812 # Spark's own convention

from ducklake_streaming.formats.registry.client import RegisteredSchema
from ducklake_streaming.formats.registry.columns import Contradiction, arrow_type, covers, merge_columns, struct_of
from ducklake_streaming.formats.registry.errors import UnusableSchema
from ducklake_streaming.formats.registry.json_schema.reader import JsonReader
from ducklake_streaming.formats.registry.protobuf.reader import ProtobufReader
from ducklake_streaming.formats.registry.values import Reasons, fit
from ducklake_streaming.formats.registry.wire import read_schema_ids
from tests.fixtures.registered import header

INT, LONG, FLOAT, DOUBLE = T.IntegerType(), T.LongType(), T.FloatType(), T.DoubleType()
TEXT, DATE, TIME = T.StringType(), T.DateType(), T.TimestampType()
PROTO = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
import "google/protobuf/struct.proto";
import "place.proto";
enum Kind { NEW = 0; PAID = 1; }
message Order {
  int64 id = 1;
  uint64 big = 2;
  google.protobuf.Timestamp at = 3;
  optional string note = 4;
  google.protobuf.Int64Value count = 5;
  Kind kind = 6;
  map<string, int32> numbers = 7;
  repeated Line lines = 8;
  oneof payment { string card = 9; bool cash = 10; }
  google.protobuf.Struct more = 11;
  Place place = 12;
  Nothing nothing = 13;
  message Line { float price = 1; }
}
message Nothing {}
message Other { int64 id = 1; }
"""
PLACE = 'syntax = "proto3"; package shop; message Place { string city = 1; }'


# ------------------------------------------------------------------------------- columns


@pytest.mark.parametrize(
    ("known", "other", "merged"),
    [
        (struct_of({"a": INT}), struct_of({"b": TEXT}), struct_of({"a": INT, "b": TEXT})),
        (struct_of({"a": INT}), struct_of({"a": LONG}), struct_of({"a": LONG})),
        (struct_of({"a": DOUBLE}), struct_of({"a": FLOAT}), struct_of({"a": DOUBLE})),
        (struct_of({"a": INT}), struct_of({"a": DOUBLE}), struct_of({"a": DOUBLE})),
        (
            struct_of({"a": T.DecimalType(5, 2)}),
            struct_of({"a": T.DecimalType(6, 4)}),
            struct_of({"a": T.DecimalType(7, 4)}),
        ),
        (
            struct_of({"a": struct_of({"x": INT})}),
            struct_of({"a": struct_of({"y": INT, "x": LONG})}),
            struct_of({"a": struct_of({"x": LONG, "y": INT})}),
        ),
        (struct_of({"a": T.ArrayType(INT)}), struct_of({"a": T.ArrayType(LONG)}), struct_of({"a": T.ArrayType(LONG)})),
        (
            struct_of({"a": T.MapType(TEXT, struct_of({"x": INT}))}),
            struct_of({"a": T.MapType(TEXT, struct_of({"y": INT}))}),
            struct_of({"a": T.MapType(TEXT, struct_of({"x": INT, "y": INT}))}),
        ),
    ],
)
def test_columns_hold_the_values_of_both(known: T.StructType, other: T.StructType, merged: T.StructType) -> None:
    assert merge_columns(known, other) == merged
    assert covers(merged, other)
    assert covers(known, other) == (known == merged)


@pytest.mark.parametrize(
    ("known", "other", "problem"),
    [
        (struct_of({"a": INT}), struct_of({"a": TEXT}), "field 'a' is string, but int elsewhere"),
        (struct_of({"a": LONG}), struct_of({"a": DOUBLE}), "field 'a' is double, but bigint elsewhere"),
        (
            struct_of({"a": struct_of({"x": DATE})}),
            struct_of({"a": struct_of({"x": TIME})}),
            "field 'a.x' is timestamp, but date elsewhere",
        ),
        (struct_of({"a": T.ArrayType(INT)}), struct_of({"a": T.ArrayType(TEXT)}), r"field 'a\[\]' is string"),
        (struct_of({"a": T.DecimalType(38, 0)}), struct_of({"a": T.DecimalType(3, 2)}), "no column holds both"),
    ],
)
def test_contradiction_names_the_field(known: T.StructType, other: T.StructType, problem: str) -> None:
    with pytest.raises(Contradiction, match=problem):
        merge_columns(known, other)
    assert not covers(known, other)


def test_names_that_differ_by_case_alone_are_refused() -> None:
    with pytest.raises(UnusableSchema, match=r"fields 's.a' and 's.A' differ"):
        merge_columns(struct_of({"s": struct_of({"a": INT})}), struct_of({"s": struct_of({"A": INT})}))


def test_values_fit_into_wider_columns() -> None:
    narrow = struct_of({"a": INT, "s": struct_of({"x": FLOAT}), "l": T.ArrayType(INT), "m": T.MapType(TEXT, INT)})
    wide = struct_of(
        {
            "b": TEXT,
            "m": T.MapType(TEXT, LONG),
            "l": T.ArrayType(LONG),
            "s": struct_of({"y": INT, "x": DOUBLE}),
            "a": DOUBLE,
        }
    )
    rows = [
        {"a": 1, "s": {"x": 0.5}, "l": [1, None], "m": {"k": 1}},
        None,
        {"a": None, "s": None, "l": None, "m": None},
    ]

    found = fit(pa.array(rows, arrow_type(narrow)), arrow_type(wide)).to_pylist(maps_as_pydicts="strict")

    nothing = {"b": None, "m": None, "l": None, "s": None, "a": None}
    assert found == [{**nothing, "m": {"k": 1}, "l": [1, None], "s": {"y": None, "x": 0.5}, "a": 1.0}, None, nothing]


def test_header_tells_the_schema_of_each_record_in_any_slice() -> None:
    values = pa.array([b"?", header(7), b"\0\0", None, header(2**31), header(7) + b"x", b"12345"], pa.binary())
    reasons = Reasons()

    found = read_schema_ids(values.slice(1), reasons)

    assert {schema_id: rows.tolist() for schema_id, rows in found.items()} == {7: [0, 4], 2**31: [3]}
    assert sorted(reasons.by_row) == [1, 2, 5]


# ------------------------------------------------------------------------------- JSON Schema


@pytest.mark.parametrize(
    ("schema", "column"),
    [
        ({"type": "integer"}, "bigint"),
        ({"type": ["null", "number"]}, "double"),
        ({"type": ["integer", "number"]}, "double"),
        ({"oneOf": [{"type": "null"}, {"type": "boolean"}]}, "boolean"),
        ({"type": "string", "format": "date-time"}, "timestamp"),
        ({"type": "string", "format": "date"}, "date"),
        ({"enum": ["a", "b"]}, "string"),
        ({"type": "array", "items": {"type": "integer"}}, "array<bigint>"),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, "map<string,bigint>"),
        ({"$ref": "#/definitions/Place"}, "struct<city:string>"),
        ({"$ref": "other.json#/definitions/Far"}, "struct<far:double>"),
        (
            {"allOf": [{"$ref": "#/definitions/Place"}, {"properties": {"zip": {"type": "string"}}}]},
            "struct<city:string,zip:string>",
        ),
        ({"type": ["integer", "string"]}, "string"),
        ({}, "string"),
        (True, "string"),
        ({"type": "object"}, "string"),
    ],
    ids=str,
)
def test_json_schema_has_columns(schema: Any, column: str) -> None:  # Any: JSON
    assert _json_reader(schema).columns["v"].dataType.simpleString() == column


@pytest.mark.parametrize(
    ("schema", "value", "reason"),
    [
        ({"type": "integer"}, b'{"v": 1.5}', "field 'v': 1.5 is not of type"),
        ({"type": "integer"}, b'{"v": 1e30}', "a value is out of range"),
        ({"type": "integer"}, b'{"v": 1, "w": 2}', "field 'w': its schema has no such field"),
        (
            {"$ref": "#/definitions/Place"},
            b'{"v": {"city": "Bonn", "zip": 1}}',
            "field 'v.zip': its schema has no such",
        ),
        ({"type": "string", "format": "date"}, b'{"v": "2026-02-30"}', "field 'v'"),
        ({"type": "number"}, b'{"v": NaN}', "'NaN' is no number of JSON"),
        ({"type": "string"}, b'{"v": "\\ud800"}', "surrogates not allowed"),
        ({"type": "string"}, b'{"v": "\xff"}', "'utf-8' codec can't decode byte 0xff"),
        ({}, b"[" * 100_000, "the value is no JSON of its schema"),
        ({}, b"[]", "is not of type"),
    ],
    ids=lambda value: "" if isinstance(value, bytes) else str(value),
)
def test_json_that_does_not_fit_has_its_reason(schema: Any, value: bytes, reason: str) -> None:  # Any: JSON
    decoded = _json_reader(schema).read(pa.array([header(1) + value, header(1) + b"{}"], pa.binary()))
    assert reason in decoded.reasons.by_row[0]
    assert decoded.values.to_pylist() == [None, {"v": None}]


def test_json_without_a_type_is_text() -> None:
    decoded = _json_reader({}).read(pa.array([header(1) + '{"v": {"a": [1, "ä"]}}'.encode()], pa.binary()))
    assert decoded.values.to_pylist() == [{"v": '{"a":[1,"ä"]}'}]


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ({"$ref": "http://127.0.0.1:1/far.json"}, "neither in it nor among its references"),
        ({"$ref": "#/definitions/Self"}, "'#/definitions/Self' holds itself"),
        ({"type": "nothing"}, "it is no JSON Schema"),
    ],
    ids=str,
)
def test_json_schema_that_cannot_be_used_is_refused(schema: Any, reason: str) -> None:  # Any: JSON
    with pytest.raises(UnusableSchema, match=reason):
        _json_reader(schema)


# ------------------------------------------------------------------------------- Protobuf


def test_protobuf_message_has_columns_and_values() -> None:
    reader = ProtobufReader(RegisteredSchema("PROTOBUF", PROTO, (("place.proto", PLACE),)), None)
    message = b"\x08\x07\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"
    message += b"\x1a\x05\x08\x01\x10\xdc\x0b\x22\x01n\x2a\x02\x08\x05\x30\x01"
    message += b"\x3a\x05\x0a\x01k\x10\x02\x42\x05\x0d\0\0\xc0\x3f\x50\x00\x62\x06\x0a\x04Bonn\x6a\x00"
    message += b"\x5a\x0b\x0a\x09\x0a\x01a\x12\x04\x1a\x02hi"

    full, empty = reader.read(
        pa.array([header(1) + b"\0" + message, header(1) + b"\2\0"], pa.binary())
    ).values.to_pylist()

    kinds = "id:bigint,big:decimal(20,0),at:timestamp,note:string,count:bigint,kind:string,numbers:map<string,int>"
    rest = "lines:array<struct<price:float>>,card:string,cash:boolean,more:string"
    rest += ",place:struct<city:string>,nothing:boolean"
    assert reader.columns.simpleString() == f"struct<{kinds},{rest}>"
    assert (full["id"], int(full["big"]), full["at"].timestamp(), full["note"]) == (7, 2**64 - 1, 1.000001, "n")
    assert (full["count"], full["kind"], full["numbers"], full["lines"]) == (5, "PAID", [("k", 2)], [{"price": 1.5}])
    assert (full["card"], full["cash"], full["place"], full["nothing"]) == (None, False, {"city": "Bonn"}, True)
    assert json.loads(full["more"]) == {"a": "hi"}
    assert (empty["id"], empty["kind"], empty["numbers"], empty["lines"]) == (0, "NEW", [], [])
    assert {empty[name] for name in ("at", "note", "count", "card", "cash", "more", "place", "nothing")} == {None}


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"\0\x08", "does not fit its Protobuf schema"),
        (b"", "it ends within the list of message indexes"),
        (b"\2\4\x08\1", "the record is a message 'shop.Other', and the input reads 'shop.Order'"),
        (b"\2\x12", r"no message of index \[9\]"),
        (b"\0\xa0\x06\x01", "field number 100 is not in message 'shop.Order'"),
        (b"\0\x62\x03\xa0\x06\x01", "field number 100 is not in message 'shop.Place'"),
    ],
    ids=str,
)
def test_protobuf_that_does_not_fit_has_its_reason(body: bytes, reason: str) -> None:
    reader = ProtobufReader(RegisteredSchema("PROTOBUF", PROTO, (("place.proto", PLACE),)), "shop.Order")
    decoded = reader.read(pa.array([header(1) + body], pa.binary()))
    with pytest.raises(ValueError, match=reason):
        raise ValueError(decoded.reasons.by_row[0])


@pytest.mark.parametrize(
    ("text", "message", "reason"),
    [
        ("message M { M m = 1; }", None, "message 'M' holds itself"),
        ("message M { int32 a = 1; ", None, "it does not compile: "),
        ('import "missing.proto"; message M {}', None, "missing.proto"),
        ("message M { int32 a = 1; }", "N", "it has no message 'N'"),
        ("enum E { A = 0; }", None, "it has no message"),
    ],
    ids=["recursion", "syntax", "import", "name", "none"],
)
def test_protobuf_schema_that_cannot_be_used_is_refused(text: str, message: str | None, reason: str) -> None:
    with pytest.raises(UnusableSchema, match=reason):
        ProtobufReader(RegisteredSchema("PROTOBUF", f'syntax = "proto3"; {text}'), message)


def test_reference_of_protobuf_stays_in_its_folder() -> None:
    with pytest.raises(UnusableSchema, match="no name of a file to import"):
        ProtobufReader(RegisteredSchema("PROTOBUF", PROTO, (("../place.proto", PLACE),)), None)


def _json_reader(schema: Any) -> JsonReader:  # Any: JSON
    place = {"type": "object", "properties": {"city": {"type": "string"}}}
    itself = {"type": "object", "properties": {"s": {"$ref": "#/definitions/Self"}}}
    definitions = {"Place": place, "Self": itself}
    far = {"definitions": {"Far": {"type": "object", "properties": {"far": {"type": "number"}}}}}
    text = {"type": "object", "properties": {"v": schema}, "definitions": definitions}
    return JsonReader(RegisteredSchema("JSON", json.dumps(text), (("other.json", json.dumps(far)),)))
