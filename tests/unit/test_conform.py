"""Arrow data made to fit a table, or refused by name."""

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest

from ducklake_core.errors import NotNullViolation, SchemaMismatch, UnsupportedType
from ducklake_core.plan.conform import conform
from ducklake_core.plan.definition import with_default
from ducklake_core.spec.types import build_columns

NAME = "main.t"


def columns(**types: str) -> Any:
    return build_columns(types)


def test_data_of_the_table_s_own_types_is_taken_as_it_is() -> None:
    data = pa.table({"a": pa.array([1, 2], pa.int32()), "b": pa.array(["x", None])})

    fitted = conform(data, columns(a="int32", b="varchar"), NAME)

    assert fitted == data
    assert fitted.column("a").chunk(0).buffers()[1].address == data.column("a").chunk(0).buffers()[1].address


def test_columns_are_matched_by_name_in_any_order_and_case() -> None:
    fitted = conform(pa.table({"B": ["x"], "a": pa.array([1], pa.int32())}), columns(a="int32", b="varchar"), NAME)

    assert fitted.column_names == ["a", "b"]
    assert fitted.to_pylist() == [{"a": 1, "b": "x"}]


@pytest.mark.parametrize(
    ("type_", "values", "expected"),
    [
        ("int32", pa.array([1, 2], pa.int64()), [1, 2]),
        ("int64", pa.array([1], pa.uint32()), [1]),
        ("float64", pa.array([1.5], pa.float32()), [1.5]),
        ("float64", pa.array([3], pa.int32()), [3.0]),
        ("float32", pa.array([0.5, None], pa.float64()), [0.5, None]),
        ("decimal(9,2)", pa.array([Decimal("1.5")], pa.decimal128(4, 1)), [Decimal("1.50")]),
        ("decimal(9,2)", pa.array([7], pa.int8()), [Decimal("7.00")]),
        ("int128", pa.array([2**63], pa.uint64()), [Decimal(2**63)]),
        ("varchar", pa.array(["a", None], pa.large_string()), ["a", None]),
        ("varchar", pa.array(["a", "b", "a"]).dictionary_encode(), ["a", "b", "a"]),
        ("blob", pa.array([b"ab"], pa.binary(2)), [b"ab"]),
        ("uuid", pa.array(["00000000-0000-0000-0000-000000000001"]), [UUID(int=1)]),
        ("uuid", pa.array([UUID(int=2).bytes], pa.binary(16)), [UUID(int=2)]),
        ("timestamp", pa.array([1], pa.timestamp("s")), [datetime(1970, 1, 1, 0, 0, 1)]),  # noqa: DTZ001 # has no zone
        ("timestamptz", pa.array([0], pa.timestamp("ms", "Europe/Berlin")), [datetime(1970, 1, 1, tzinfo=UTC)]),
        ("date", pa.array([86_400_000], pa.date64()), [datetime(1970, 1, 2, tzinfo=UTC).date()]),
        ("int32[]", pa.array([[1], None, []], pa.large_list(pa.int64())), [[1], None, []]),
        ("struct(a int32, b date)[]", pa.array([[{"a": 1, "b": None}, None]]), [[{"a": 1, "b": None}, None]]),
        ("struct(a int64, b varchar)", pa.array([{"B": "x", "a": 1}, None]), [{"a": 1, "b": "x"}, None]),
        ("map(varchar, int64)", pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int8())), [[("k", 1)]]),
        ("int32", pa.nulls(2), [None, None]),
    ],
    ids=str,
)
def test_values_that_lose_nothing_are_converted(type_: str, values: pa.Array, expected: list[Any]) -> None:
    fitted = conform(pa.table({"v": values}), columns(v=type_), NAME)

    assert fitted.column("v").to_pylist() == expected


@pytest.mark.parametrize(
    ("type_", "values"),
    [
        ("int8", pa.array([300])),
        ("int32", pa.array(["1"])),
        ("int32", pa.array([1.0])),
        ("float32", pa.array([1.5, 1.1], pa.float64())),
        ("float64", pa.array([2**53 + 1])),
        ("varchar", pa.array([1])),
        ("boolean", pa.array([1])),
        ("decimal(4,1)", pa.array([Decimal("1.25")])),
        ("timestamp", pa.array([1], pa.timestamp("ns"))),
        ("timestamp", pa.array([1], pa.timestamp("us", "UTC"))),
        ("timestamptz", pa.array([1], pa.timestamp("us"))),
        ("int32[]", pa.array([1])),
        ("struct(a int32)", pa.array([{"b": 1}])),
        ("struct(a int32)", pa.array([{"a": 1, "b": 1}])),
        ("struct(a int32)", pa.array([{"a": "x"}])),
    ],
    ids=str,
)
def test_what_does_not_fit_is_refused_by_the_column_s_name(type_: str, values: pa.Array) -> None:
    with pytest.raises(SchemaMismatch, match=r"main\.t\.v|'a'|'b'"):
        conform(pa.table({"v": values}), columns(v=type_), NAME)


def test_slices_of_nested_data_keep_their_rows() -> None:
    data = pa.table({"v": pa.array([[1], [2, 3], None, [4]], pa.list_(pa.int64()))}).slice(1, 2)

    assert conform(data, columns(v="int32[]"), NAME).column("v").to_pylist() == [[2, 3], None]


def test_missing_and_unknown_columns_are_named() -> None:
    with pytest.raises(SchemaMismatch, match=r"'b'.*fill_missing"):
        conform(pa.table({"a": [1]}), columns(a="int64", b="int32"), NAME)
    with pytest.raises(SchemaMismatch, match="'aa'; did you mean 'a'"):
        conform(pa.table({"aa": [1]}), columns(a="int64"), NAME)


def test_missing_columns_are_filled_with_their_defaults_on_request() -> None:
    a, b, c = columns(a="int64", b="decimal(5,2)", c="varchar")

    fitted = conform(
        pa.table({"a": [1]}), (a, with_default(b, Decimal("1.5"), is_new=True), c), NAME, fill_missing=True
    )

    assert fitted.to_pylist() == [{"a": 1, "b": Decimal("1.50"), "c": None}]


def test_a_null_where_nulls_are_forbidden_is_refused_with_its_row() -> None:
    (column,) = build_columns(pa.schema([pa.field("a", pa.int64(), nullable=False)]))

    with pytest.raises(NotNullViolation, match=r"'a'.*row 1"):
        conform(pa.table({"a": [1, None]}), (column,), NAME)


def test_types_that_only_duckdb_writes_are_refused() -> None:
    with pytest.raises(UnsupportedType, match="variant"):
        conform(pa.table({"v": [1]}), columns(v="variant"), NAME)
