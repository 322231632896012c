"""Avro values into columns: the same as fastavro reads, by columns and by rows, and a reason for what is broken."""

import json
from collections.abc import Callable
from decimal import Decimal
from io import BytesIO
from itertools import count
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from fastavro import parse_schema, schemaless_reader, schemaless_writer
from hypothesis import example, given
from hypothesis import strategies as st

from ducklake_streaming.formats.registry.avro import reader as avro_reader
from ducklake_streaming.formats.registry.avro.reader import AvroReader
from ducklake_streaming.formats.registry.client import RegisteredSchema
from ducklake_streaming.formats.registry.columns import arrow_type
from ducklake_streaming.formats.registry.errors import UnusableSchema
from ducklake_streaming.formats.registry.values import Decoded
from tests.fixtures.registered import avro, header, record

Pair = tuple[Any, st.SearchStrategy[Any]]  # a schema, and values of it. Any: JSON

_LONG = st.integers(-(2**63), 2**63 - 1)
_MICROS = st.integers(-(2**55), 2**55)  # within the years that Python knows
_MILLIS = st.integers(-(2**45), 2**45)
_TEXT = st.text(max_size=20)
_NAMES = count()


def _named(kind: str, **more: Any) -> dict[str, Any]:  # Any: JSON
    return {"type": kind, "name": f"n{next(_NAMES)}", **more}


def _scalars() -> st.SearchStrategy[Pair]:
    decimal = {"logicalType": "decimal", "precision": 9, "scale": 3}
    pairs: list[tuple[Callable[[], Any], st.SearchStrategy[Any]]] = [  # Any: JSON
        (lambda: "boolean", st.booleans()),
        (lambda: "int", st.integers(-(2**31), 2**31 - 1)),
        (lambda: "long", _LONG),
        (lambda: "float", st.floats(width=32, allow_nan=False)),
        (lambda: "double", st.floats(allow_nan=False)),
        (lambda: "bytes", st.binary(max_size=20)),
        (lambda: "string", _TEXT),
        (lambda: _named("enum", symbols=["A", "B", "C"]), st.sampled_from("ABC")),
        (lambda: _named("fixed", size=3), st.binary(min_size=3, max_size=3)),
        (lambda: {"type": "int", "logicalType": "date"}, st.integers(-700_000, 2_000_000)),
        (lambda: {"type": "int", "logicalType": "time-millis"}, st.integers(0, 86_399_999)),
        (lambda: {"type": "long", "logicalType": "time-micros"}, st.integers(0, 86_399_999_999)),
        (lambda: {"type": "long", "logicalType": "timestamp-millis"}, _MILLIS),
        (lambda: {"type": "long", "logicalType": "timestamp-micros"}, _MICROS),
        (lambda: {"type": "long", "logicalType": "local-timestamp-millis"}, _MILLIS),
        (lambda: {"type": "long", "logicalType": "local-timestamp-micros"}, _MICROS),
        (lambda: {"type": "string", "logicalType": "uuid"}, st.uuids().map(str)),
        (lambda: {"type": "bytes", **decimal}, st.decimals(-999_999, 999_999, places=3)),
        (lambda: _named("fixed", size=6, **decimal), st.decimals(-999_999, 999_999, places=3)),
    ]
    return st.sampled_from(pairs).map(lambda pair: (pair[0](), pair[1]))


def _wider(inner: st.SearchStrategy[Pair]) -> st.SearchStrategy[Pair]:
    return st.one_of(
        inner.map(lambda pair: (["null", pair[0]], st.none() | pair[1])),
        inner.map(lambda pair: ([pair[0], "null"], st.none() | pair[1])),
        inner.map(lambda pair: ({"type": "array", "items": pair[0]}, st.lists(pair[1], max_size=4))),
        inner.map(lambda pair: ({"type": "map", "values": pair[0]}, st.dictionaries(_TEXT, pair[1], max_size=4))),
        st.lists(inner, min_size=1, max_size=4).map(_record),
    ).filter(lambda pair: not _is_union_of_unions(pair[0]))


def _record(pairs: list[Pair]) -> Pair:
    fields = [{"name": f"f{number}", "type": schema} for number, (schema, _) in enumerate(pairs)]
    values = st.fixed_dictionaries({f"f{number}": value for number, (_, value) in enumerate(pairs)})
    return _named("record", fields=fields), values


def _is_union_of_unions(schema: Any) -> bool:  # Any: JSON
    return isinstance(schema, list) and any(isinstance(branch, list) for branch in schema)


_PAIRS = st.lists(st.recursive(_scalars(), _wider, max_leaves=8), min_size=1, max_size=6).map(_record)


@given(st.data(), _PAIRS)
def test_values_are_those_that_fastavro_reads(data: st.DataObject, pair: Pair) -> None:
    schema, values = pair
    records = [avro(1, schema, value) for value in data.draw(st.lists(values, max_size=5))]

    decoded = _read(schema, records)

    assert decoded.reasons.by_row == {}
    assert decoded.values.type == arrow_type(_reader(schema).columns)
    assert decoded.values.to_pylist(maps_as_pydicts="strict") == [_by_fastavro(schema, one) for one in records]


@given(st.data(), _PAIRS)
def test_broken_records_are_read_as_fastavro_reads_them_and_leave_their_neighbours_alone(
    data: st.DataObject, pair: Pair
) -> None:
    schema, values = pair
    right = [avro(1, schema, value) for value in data.draw(st.lists(values, min_size=1, max_size=4))]
    broken = [data.draw(_broken(one)) for one in right]
    mixed = [one for both in zip(right, broken, strict=True) for one in both]
    reader = _reader(schema)

    together = reader.read(pa.array(mixed, pa.binary()))

    assert together.values.take(pa.array(range(0, len(mixed), 2))).equals(
        reader.read(pa.array(right, pa.binary())).values
    )
    for number, one in enumerate(mixed):
        alone = _by_rows(schema, one)
        reason = together.reasons.by_row.get(number)
        if reason is None:
            assert not alone.reasons.by_row
            assert repr(together.values[number].as_py()) == repr(alone.values[0].as_py())  # NaN is like itself
        else:  # fastavro takes numbers that are too long, and any byte for True
            assert alone.reasons.by_row.get(0, avro_reader.NO_AVRO) == reason


@st.composite
def _broken(draw: st.DrawFn, right: bytes) -> bytes:
    """Return a record of which some bytes are missing, others, or more."""
    body = bytearray(right[5:])
    match draw(st.sampled_from(["cut", "more", "other"])):
        case "cut":
            body = body[: draw(st.integers(0, max(len(body) - 1, 0)))]
        case "more":
            body += draw(st.binary(min_size=1, max_size=12))
        case _:
            for _ in range(draw(st.integers(1, 3))):
                if body:
                    body[draw(st.integers(0, len(body) - 1))] = draw(st.integers(0, 255))
    return right[:5] + bytes(body)


@given(st.lists(st.one_of(st.none(), st.integers(-5, 5), _TEXT, st.booleans(), st.binary(max_size=3))))
@example([None, 1, "a", True, b"x"])
def test_union_of_several_is_a_struct_of_its_branches(values: list[Any]) -> None:  # Any: one of the branches
    schema = record(("u", ["null", "int", "string", "boolean", "bytes"]))
    names = {int: "int", str: "string", bool: "boolean", bytes: "bytes"}
    records = [avro(1, schema, {"u": value}) for value in values]

    found = [row["u"] for row in _read(schema, records).values.to_pylist()]

    nothing = dict.fromkeys(names.values())
    assert found == [None if value is None else {**nothing, names[type(value)]: value} for value in values]


def test_branches_are_told_apart_though_their_values_look_alike() -> None:
    inner = record(("a", "int"), name="x.One"), record(("a", "int"), name="y.One")
    schema = record(("u", ["int", "long", *inner]))
    body = [b"\0\2", b"\2\2", b"\4\2", b"\6\2"]

    found = [row["u"] for row in _read(schema, [header(1) + one for one in body]).values.to_pylist()]

    assert found == [
        {"int": 1, "long": None, "x_One": None, "y_One": None},
        {"int": None, "long": 1, "x_One": None, "y_One": None},
        {"int": None, "long": None, "x_One": {"a": 1}, "y_One": None},
        {"int": None, "long": None, "x_One": None, "y_One": {"a": 1}},
    ]


def _long(value: int) -> bytes:
    file = BytesIO()
    schemaless_writer(file, "long", value)
    return file.getvalue()


@pytest.mark.parametrize(
    ("schema", "body", "reason"),
    [
        ({"type": "long", "logicalType": "timestamp-millis"}, _long(2**60), f"value {2**60} is no timestamp-millis"),
        ({"type": "int", "logicalType": "time-millis"}, _long(86_400_000), "value 86400000 is no time-millis"),
        ({"type": "long", "logicalType": "time-micros"}, _long(-1), "value -1 is no time-micros"),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 1},
            b"\2\x64",
            "value 100 has more digits than decimal(2,1)",
        ),
        ("int", _long(2**31), "a value is out of range"),
        ("string", b"\2\xff", "does not fit its Avro schema: UnicodeDecodeError"),
        ({"type": "array", "items": {"type": "int", "logicalType": "time-millis"}}, b"\2\1\0", "value -1 is no time"),
        (["null", "int"], b"\4", "does not fit its Avro schema"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, b"\2", "does not fit its Avro schema"),
        ("string", b"\1", "does not fit its Avro schema"),
        ("long", b"\xff" * 10 + b"\1", "a number is too long"),
        ("long", b"\xff" * 9 + b"\2", "a number is too long"),
        ("boolean", b"\2", "a boolean is neither 0 nor 1"),
        ("boolean", b"\1ab", "the Avro value ends 2 bytes before the record does"),
        ("boolean", b"", "it ends too early"),
    ],
    ids=str,
)
def test_value_that_no_column_holds_has_its_reason(schema: Any, body: bytes, reason: str) -> None:  # Any: JSON
    decoded = _read(record(("v", schema)), [header(1) + body])
    assert reason in decoded.reasons.by_row[0]


def test_decimal_of_more_digits_than_columns_have_is_text() -> None:
    schema = record(("d", {"type": "bytes", "logicalType": "decimal", "precision": 50, "scale": 2}))
    [row] = _read(
        schema, [avro(1, schema, {"d": Decimal("12345678901234567890123456789012345678901234567.89")})]
    ).values
    assert row.as_py() == {"d": "12345678901234567890123456789012345678901234567.89"}


def test_uuid_of_bytes_is_text() -> None:
    schema = record(("u", {"type": "fixed", "name": "U", "size": 16, "logicalType": "uuid"}))
    value = UUID("12345678-1234-5678-1234-567812345678")
    [row] = _read(schema, [header(1) + value.bytes]).values
    assert row.as_py() == {"u": str(value)}


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ("{", "it is no Avro schema"),
        (json.dumps("nothing"), "it is no Avro schema"),
        (
            json.dumps(record(("a", "int"), ("A", "int"))),
            "fields 'a' and 'A' differ by nothing but upper and lower case",
        ),
        (json.dumps(record(("a", {"type": "array", "items": "Order"}))), "record 'Order' holds itself"),
    ],
    ids=["no JSON", "no type", "names", "recursion"],
)
def test_schema_that_cannot_be_used_is_refused(schema: str, reason: str) -> None:
    with pytest.raises(UnusableSchema) as caught:
        AvroReader(RegisteredSchema("AVRO", schema))
    assert reason in str(caught.value)


def test_schema_that_is_no_record_has_one_column() -> None:
    reader = AvroReader(RegisteredSchema("AVRO", '"long"'))
    [row] = reader.read(pa.array([header(1) + _long(7)], pa.binary())).values
    assert row.as_py() == {"value": 7}


def test_references_are_read_first() -> None:
    inner, outer = record(("a", "int"), name="x.Inner"), record(("i", "x.Inner"), name="x.Outer")
    reader = AvroReader(RegisteredSchema("AVRO", json.dumps(outer), (("x.Inner", json.dumps(inner)),)))
    assert reader.columns.simpleString() == "struct<i:struct<a:int>>"


def _reader(schema: Any) -> AvroReader:  # Any: JSON
    return AvroReader(RegisteredSchema("AVRO", json.dumps(schema)))


def _read(schema: Any, records: list[bytes]) -> Decoded:  # Any: JSON
    return _reader(schema).read(pa.array(records, pa.binary()))


def _by_rows(schema: Any, one: bytes) -> Decoded:  # Any: JSON
    """Read one record by fastavro, whatever could be read by columns."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(avro_reader, "is_vectorized", lambda _: False)
        return _read(schema, [one])


def _by_fastavro(schema: Any, one: bytes) -> Any:  # Any: JSON in, a value out
    file = BytesIO(one)
    file.seek(5)
    return _without_ids(schemaless_reader(file, parse_schema(json.loads(json.dumps(schema))), None))


def _without_ids(value: Any) -> Any:  # Any: a value
    """Return a value with texts for UUIDs."""
    match value:
        case dict():
            return {name: _without_ids(one) for name, one in value.items()}
        case list():
            return [_without_ids(one) for one in value]
        case UUID():
            return str(value)
        case _:
            return value
