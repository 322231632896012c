"""Few rows are encoded and measured by Python's loops, many by kernels: both ways give the same for all values."""

import struct
from collections.abc import Callable, Mapping

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ducklake_core.catalog.dbapi import values as dbapi_values
from ducklake_core.catalog.dbapi.sqlite_rules import SQLITE_RULES
from ducklake_core.catalog.postgres import encode, encode_small
from ducklake_core.catalog.postgres.rules import POSTGRES_RULES
from ducklake_core.errors import UnsupportedType
from ducklake_core.model import Column, ColumnId, TableColumnStats, TableStats
from ducklake_core.plan.inlined_rows import inlined_stats
from ducklake_core.plan.small_stats import is_covered, small_stats
from ducklake_core.plan.statistics import merge_table_stats
from ducklake_core.spec.inlined import inlined_type
from ducklake_core.spec.small_rows import SmallColumn, extract_values, extractor_of
from ducklake_core.spec.small_text import small_texts
from ducklake_core.spec.text import to_text
from tests.fixtures.values import SCALAR_TYPES, arrays, column_of, columns, sample_array

Act = Callable[[pa.Array, Column], object]


def loop_cells(array: pa.Array, column: Column) -> object:
    return encode_small.encode_rows([taken(array, column)], (column,)).rows


def kernel_cells(array: pa.Array, column: Column) -> object:
    """Return what the kernels make of each row, with the type before it."""
    data = encode.encode_column(array, column).data.tobytes()
    type_ = struct.pack(">i", encode.postgres_type(column).oid)
    found = []
    while data:
        size = 4 + max(0, struct.unpack(">i", data[:4])[0])
        found.append(type_ + data[:size])
        data = data[size:]
    return found


def loop_sqlite(array: pa.Array, column: Column) -> object:
    return dbapi_values.encode_few([taken(array, column)], SQLITE_RULES)


def kernel_sqlite(array: pa.Array, column: Column) -> object:
    return dbapi_values.encode_rows(pa.table([array], names=["c"]), [column], SQLITE_RULES)


def loop_texts(array: pa.Array, column: Column) -> object:
    return small_texts(taken(array, column))


def kernel_texts(array: pa.Array, column: Column) -> object:
    return to_text(array, column).to_pylist()


def loop_statistics(array: pa.Array, column: Column) -> object:
    return tuple(stats.to_stats() for stats in small_stats((taken(array, column),)))


def kernel_statistics(array: pa.Array, column: Column) -> object:
    return inlined_stats(pa.table([array], names=["c"]), [column])


def taken(array: pa.Array, column: Column) -> SmallColumn:
    [values] = extract_values(pa.table([array], names=["c"]), [column])
    return values


PAIRS = pytest.mark.parametrize(
    ("loop", "kernel"),
    [
        (loop_cells, kernel_cells),
        (loop_sqlite, kernel_sqlite),
        (loop_texts, kernel_texts),
        (loop_statistics, kernel_statistics),
    ],
    ids=["PostgreSQL", "SQLite", "texts", "statistics"],
)


@PAIRS
@pytest.mark.parametrize("type_text", SCALAR_TYPES)
def test_samples_are_the_same_both_ways(loop: Act, kernel: Act, type_text: str) -> None:
    column, array = column_of(type_text), sample_array(type_text)
    if loop is loop_cells and _is_missing_in_postgresql(column):
        pytest.skip(f"PostgreSQL has no {type_text}")

    for part in (array, array.slice(1, 2), pa.concat_arrays([array] * 30)):
        assert_same(loop, kernel, part, column)


@PAIRS
@given(data=st.data())
def test_nested_values_are_the_same_both_ways(loop: Act, kernel: Act, data: st.DataObject) -> None:
    column = data.draw(columns())
    array = data.draw(arrays(column, data.draw(st.integers(1, 6))))

    if not (loop is loop_cells and _is_missing_in_postgresql(column)):
        assert_same(loop, kernel, array, column)


def test_rows_are_one_array_with_the_columns_of_every_inlined_row() -> None:
    columns_ = (column_of("int32"), column_of("blob"), column_of("boolean"), column_of("int16"))
    arrays_ = [
        pa.array([7, None], "int32"),
        pa.array([b"ab", b"c"]),
        pa.array([True, False]),
        pa.array([1, 2], "int16"),
    ]
    values = extract_values(pa.table(arrays_, names=list("abcd")), columns_)

    parameter = encode_small.rows_parameter(encode_small.encode_rows(values, columns_), [40, 41], 9)

    system = [struct.pack(">iiq iiq ii", 20, 8, row_id, 20, 8, 9, 20, -1) for row_id in (40, 41)]
    first = system[0] + struct.pack(">iii ii2s iiB iih", 23, 4, 7, 17, 2, b"ab", 16, 1, 1, 21, 2, 1)
    second = system[1] + struct.pack(">ii ii1s iiB iih", 23, -1, 17, 1, b"c", 16, 1, 0, 21, 2, 2)
    rows = b"".join(struct.pack(">ii", 4 + len(row), 7) + row for row in (first, second))
    assert parameter == struct.pack(">iiIii", 1, 0, 2249, 2, 1) + rows


@given(data=st.data())
def test_rows_that_are_covered_change_no_statistics(data: st.DataObject) -> None:
    column = data.draw(columns())
    old, new = (data.draw(arrays(column, data.draw(st.integers(1, 6)))) for _ in range(2))
    added = inlined_stats(pa.table([old], names=["c"]), [column])
    known = merge_table_stats(None, added, [column])
    table = TableStats(len(old), len(old), 0, data.draw(st.sampled_from([known, _doubtful(known)])))

    merged = merge_table_stats(table, inlined_stats(pa.table([new], names=["c"]), [column]), [column])

    for stats in small_stats((taken(new, column),)):
        column_id = stats.leaf.column.column_id
        if is_covered(stats, table.columns):
            assert merged[column_id] == table.columns[column_id]


@pytest.mark.parametrize("type_text", SCALAR_TYPES)
def test_the_same_rows_again_are_covered(type_text: str) -> None:
    column, array = column_of(type_text), sample_array(type_text)
    known = merge_table_stats(None, inlined_stats(pa.table([array], names=["c"]), [column]), [column])
    [stats] = small_stats((taken(array, column),))

    has_simple_values = extractor_of(type_text) is not None and type_text not in ("blob", "varchar", "json")

    assert is_covered(stats, known) or not has_simple_values


def _doubtful(known: Mapping[ColumnId, TableColumnStats]) -> dict[ColumnId, TableColumnStats]:
    return {i: TableColumnStats(s.column_id, False, False, s.min_value, s.max_value) for i, s in known.items()}  # noqa: FBT003 # as the catalog has them


def assert_same(loop: Act, kernel: Act, array: pa.Array, column: Column) -> None:
    assert outcome(loop, array, column) == outcome(kernel, array, column)


def outcome(act: Act, array: pa.Array, column: Column) -> object:
    try:
        return act(array, column)
    except UnsupportedType as error:
        return str(error)


def _is_missing_in_postgresql(column: Column) -> bool:
    return inlined_type(column, POSTGRES_RULES) == "VARCHAR" and column.type == "time_ns"
