"""Arrow data as core reads it becomes exactly what Spark demands, without loss, or is refused by name."""

from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ducklake_core.errors import UnsupportedType
from ducklake_core.spec.text import to_text
from ducklake_core.spec.types import SCALARS, build_columns
from ducklake_sources.spark_schema import SparkBatches, demanded_schema, spark_schema
from tests.fixtures import values
from tests.fixtures.spark_reads import read_as
from tests.fixtures.values import INFINITY, column_of, raw_array


@given(st.data())
def test_every_value_is_kept_or_refused(data: st.DataObject) -> None:
    column = data.draw(values.columns())
    assume(not any(n.type == "map" and any(k.type == "map" for k in n.children[0].walk()) for n in column.walk()))
    array = data.draw(values.arrays(column, 4))
    start = data.draw(st.integers(0, 4))
    record_batch = pa.record_batch([array.slice(start)], names=["c"])
    batches = SparkBatches.of([column])

    try:
        converted = batches.convert(record_batch)
    except UnsupportedType:
        assert any(n.type in ("int128", "uint128", "time", "time_ns", "timestamp_ns") for n in column.walk())
        return

    converted.validate(full=True)
    assert converted.schema.equals(demanded_schema(spark_schema([column])))
    assert to_text(converted.column(0), read_as(column)) == to_text(array.slice(start), column)


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        ("int128", Decimal(10**38)),
        ("uint128", Decimal(2**128 - 1)),
        ("int128", Decimal(-(10**38))),
        ("time", 86_400 * 10**6),
        ("time_ns", 1),
        ("timestamp_ns", 1709210096789012345),
        ("timestamp_s", INFINITY // 10**6 + 1),
        ("timestamp_ms", -(INFINITY // 10**3) - 1),
    ],
)
@pytest.mark.parametrize("nested", [False, True])
def test_value_beyond_spark_is_refused_by_name(type_: str, value: object, *, nested: bool) -> None:
    array = raw_array([None, value], type_)
    column = column_of(f'struct("odd one" {type_})' if nested else type_)
    if nested:
        array = pa.StructArray.from_arrays([array], names=["odd one"])
    path = "c.odd one" if nested else "c"

    with pytest.raises(UnsupportedType, match=f"column '{path}' of type '{type_}' has a value .* option 'columns'"):
        SparkBatches.of([column]).convert(pa.record_batch([array], names=["c"]))


@pytest.mark.parametrize("unit", ["_s", "_ms", "_ns", ""])
def test_infinities_are_the_ends_of_time(unit: str) -> None:
    array = raw_array([INFINITY, -INFINITY, None], f"timestamp{unit}")

    converted = SparkBatches.of([column_of(f"timestamp{unit}")]).convert(pa.record_batch([array], names=["c"]))

    assert converted.column(0).view(pa.int64()).to_pylist() == [INFINITY, -INFINITY, None]


def test_every_type_has_one_or_is_refused() -> None:
    refused = []
    for type_ in SCALARS:
        try:
            spark_schema([column_of(type_)])
        except UnsupportedType:
            refused.append(type_)

    assert refused == ["variant", "unknown"]


def test_all_columns_that_spark_cannot_have_are_named() -> None:
    columns = build_columns(
        {"id": "int64", "v": "variant", "s": "struct(x variant[])", "m": "map(map(int8, int8), int8)"}
    )

    with pytest.raises(UnsupportedType) as caught:
        spark_schema(columns)

    assert len(caught.value.problems) == 3
    for part in ("'v' has type 'variant'", "'s.x.element'", "'m' is a 'map(map(", "the option 'columns'"):
        assert part in str(caught.value)


def test_nothing_is_copied_when_types_agree() -> None:
    columns = build_columns({"id": "int64", "name": "varchar", "l": "struct(a int32)[]", "at": "timestamptz"})
    rows = pa.record_batch(
        [pa.nulls(3, f.type) for f in demanded_schema(spark_schema(columns))],
        names=["id", "name", "l", "at"],
    )

    assert SparkBatches.of(columns).convert(rows) is rows


def test_odd_names_stay() -> None:
    columns = build_columns({"a.b": "uint8", "`": "varchar", 'q"q': 'struct("x y" int8)', "ä": "date", "": "int8"})

    assert spark_schema(columns).fieldNames() == ["a.b", "`", 'q"q', "ä", ""]
