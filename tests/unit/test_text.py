"""The text of values: what is written is read back, and what is no value is refused."""

from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ducklake_core.errors import CorruptCatalog, InvalidInput, UnsupportedType
from ducklake_core.spec.text import from_text, literal_text, parse_literal, to_text
from ducklake_core.spec.types import arrow_type
from tests.fixtures.values import SCALAR_TYPES, arrays, column_of, columns, raw_array, sample_array


def texts(*values: str | None) -> pa.Array:
    return pa.array(values, pa.string())


@pytest.mark.parametrize("type_", SCALAR_TYPES)
def test_samples_of_a_scalar_type_come_back(type_: str) -> None:
    column = column_of(type_)
    array = sample_array(type_)

    assert to_text(array, column).null_count == 1
    assert raw_of(from_text(to_text(array, column), column)) == raw_of(array)


def raw_of(array: pa.Array) -> list[str]:
    """Return what an array holds, also moments that Python has no value for."""
    storage = array.storage if isinstance(array, pa.ExtensionArray) else array
    if pa.types.is_temporal(storage.type) and not pa.types.is_interval(storage.type):
        storage = storage.view(pa.int32() if pa.types.is_date(storage.type) else pa.int64())
    return [repr(value) for value in storage.to_pylist()]


@given(st.data())
def test_any_nested_value_comes_back(data: st.DataObject) -> None:
    column = data.draw(columns())
    array = data.draw(arrays(column, 3))

    text = to_text(array, column)
    back = from_text(text, column)

    assert text.null_count == array.null_count
    assert back.type == arrow_type(column)
    assert to_text(back, column).equals(text)
    assert back.equals(array) or has_float(column)


def has_float(column: object) -> bool:
    return "float" in repr(column)  # NaN equals nothing; the texts were compared


@given(st.data())
def test_a_slice_and_chunks_give_the_same_texts(data: st.DataObject) -> None:
    column = data.draw(columns())
    array = data.draw(arrays(column, 4))

    whole = to_text(array, column)

    assert to_text(array.slice(1, 2), column).equals(whole.slice(1, 2))
    assert to_text(pa.chunked_array([array.slice(0, 1), array.slice(1)]), column).equals(whole)
    assert to_text(pa.chunked_array([], arrow_type(column)), column).equals(whole.slice(0, 0))


@pytest.mark.parametrize(
    ("type_", "text", "canonical"),
    [
        ("timestamp", "2024-01-01T02:00:00", "2024-01-01 02:00:00"),
        ("timestamp", "2024-01-01", "2024-01-01 00:00:00"),
        ("timestamp", "2024-01-01 02:00:00+02", "2024-01-01 00:00:00"),
        ("timestamptz", "2024-01-01T02:00:00+02:00", "2024-01-01 00:00:00+00"),
        ("timestamptz", "2024-01-01 02:00:00.5Z", "2024-01-01 02:00:00.5+00"),
        ("timestamptz", "2024-01-01 02:00:00", "2024-01-01 02:00:00+00"),
        ("timestamptz", "0044-03-15 (BC) 01:02:03-01", "0044-03-15 (BC) 02:02:03+00"),
        ("date", "2024-02-29 00:00:00", "2024-02-29"),
        ("date", " 2024-02-29 ", "2024-02-29"),
        ("time", "1:02", "01:02:00"),
        ("boolean", "t", "true"),
        ("boolean", "1", "true"),
        ("boolean", "F", "false"),
        ("boolean", "0", "false"),
        ("int32", " 5 ", "5"),
        ("float64", "1", "1.0"),
        ("float64", "Infinity", "inf"),
        ("decimal(9,2)", "1.5", "1.50"),
        ("uuid", "6BA7B8109DAD11D180B400C04FD430C8", "6ba7b810-9dad-11d1-80b4-00c04fd430c8"),
        ("interval", "14 months 3 days 14706789000 microseconds", "1 year 2 months 3 days 04:05:06.789"),
        ("interval", "1 year 2 mons -3 days +04:05:06.789", "1 year 2 months -3 days 04:05:06.789"),
        ("interval", "2 weeks 3 hours", "14 days 03:00:00"),
    ],
)
def test_texts_that_duckdb_would_cast_are_read(type_: str, text: str, canonical: str) -> None:
    column = column_of(type_)

    assert to_text(from_text(texts(text, None), column), column).to_pylist() == [canonical, None]


@pytest.mark.parametrize(
    ("type_", "text", "value"),
    [
        ("struct(a varchar)", "{'a': 'it''s'}", {"a": "it's"}),
        ("struct(a varchar)", "{'a': 'back\\slash'}", {"a": "back\\slash"}),
        ("struct(a varchar)", "{'a': 'a\\''b'}", {"a": "a\\'b"}),
        ("struct(a varchar)", "{'a': 'a\\\\b'}", {"a": "a\\\\b"}),
        ("struct(a varchar)", "{'a':'a\\\\b'}", {"a": "a\\b"}),
        ("struct(a varchar)", "{'a': 'it\\'s'}", {"a": "it's"}),
        ("struct(a varchar)", "{'a': plain word}", {"a": "plain word"}),
        ("struct(a varchar)", "{'a': CONCAT('x', chr(0), 'y')}", {"a": "x\0y"}),
        ("struct(a varchar, b int32)", "{'b': 1}", {"a": None, "b": 1}),
        ("struct(a decimal(9,2))", "{'a': CAST('1.5' AS DECIMAL(9,2))}", {"a": Decimal("1.50")}),
        ("struct(a varchar[])", "{'a': [back\\slash, 'it\\'s', NULL]}", {"a": ["back\\slash", "it's", None]}),
        ("struct(a struct(b varchar))", "{'a': {'b': 'it''s'}}", {"a": {"b": "it's"}}),
        ("struct(a int32)[]", "[{'a': 1}, NULL]", [{"a": 1}, None]),
        ("int32[][]", "['[1, 2]', NULL, []]", [[1, 2], None, []]),
        ("map(varchar, varchar)", "{k=v, 'k\\'2'=NULL}", [("k", "v"), ("k'2", None)]),
        ("blob[]", "[\\x00\\xFFa, '\\\\x00', '']", [b"\x00\xffa", b"\x00", b""]),
        ("varchar[]", "[\"x, y\", 'NULL', null]", ["x, y", "NULL", None]),
    ],
)
def test_both_syntaxes_of_nested_values_are_read(type_: str, text: str, value: object) -> None:
    column = column_of(type_)

    assert from_text(texts(text), column).equals(pa.array([value], arrow_type(column)))


@pytest.mark.parametrize(
    ("type_", "text"),
    [
        ("int32", "x"),
        ("int32", "3000000000"),
        ("boolean", "maybe"),
        ("date", "2024-02-30"),
        ("timestamp", "yesterday"),
        ("time", "25:00:00"),
        ("time", "12:60:00"),
        ("interval", "1 fortnight"),
        ("interval", ""),
        ("uuid", "6ba7b810"),
        ("uuid", "zba7b810-9dad-11d1-80b4-00c04fd430c8"),
        ("decimal(4,1)", "12345.6"),
        ("uint8", "256"),
        ("int32[]", "[1, x]"),
        ("int32[]", "[1"),
        ("int32[]", "[1] 2"),
        ("int32[]", "[1,,2]"),
        ("struct(a int32)", "{'b': 1}"),
        ("struct(a int32)", "{'a': }"),
        ("struct(a varchar)", "{'a': 'x}"),
        ("map(int32, int32)", "{1: 2}"),
    ],
)
def test_a_text_that_is_no_value_is_corruption_and_named(type_: str, text: str) -> None:
    column = column_of(type_, "price")

    with pytest.raises(CorruptCatalog, match="price") as caught:
        from_text(texts(None, text), column)

    assert caught.value.text in text


def test_an_interval_finer_than_a_microsecond_is_refused() -> None:
    with pytest.raises(UnsupportedType):
        to_text(raw_array([pa.MonthDayNano((0, 0, 1))], "interval"), column_of("interval"))


@pytest.mark.parametrize("type_", ["variant", "geometry", "unknown"])
def test_a_type_without_text_is_refused(type_: str) -> None:
    with pytest.raises(UnsupportedType, match=type_):
        to_text(pa.nulls(1, arrow_type(column_of(type_))), column_of(type_))


def test_a_literal_comes_back() -> None:
    column = column_of("struct(a decimal(9,2), b varchar[])")

    text = literal_text({"a": 1, "b": ["it's"]}, column)

    assert text == "{'a':1.00,'b':['it\\'s']}"
    assert parse_literal(text, column).as_py()["b"] == ["it's"]


def test_a_literal_of_another_type_is_refused() -> None:
    with pytest.raises(InvalidInput, match="price"):
        literal_text("many", column_of("int32", "price"))
