"""Few rows are encoded by Python's loops, many by kernels: both ways give the same, whatever the values."""

from collections.abc import Callable
from types import ModuleType

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ducklake_core.catalog import postgres_values
from ducklake_core.errors import UnsupportedType
from ducklake_core.model import Column
from ducklake_core.plan import bounds
from ducklake_core.plan.statistics import column_stats
from ducklake_core.spec import arrays as spec_arrays
from ducklake_core.spec import nested_text, scalar_text, temporal_text
from ducklake_core.spec.inlined import inlined_type
from ducklake_core.spec.text import to_text
from tests.fixtures.values import SCALAR_TYPES, arrays, column_of, columns, sample_array

MODULES: tuple[ModuleType, ...] = (
    bounds, nested_text, postgres_values, scalar_text, spec_arrays, temporal_text,
)  # fmt: skip
Act = Callable[[pa.Array, Column], object]


def cells(array: pa.Array, column: Column) -> object:
    found = postgres_values.encode_column(array, column)
    return found.count, found.data.tobytes(), postgres_values.copy_buffer([found])


def texts(array: pa.Array, column: Column) -> object:
    return to_text(array, column).to_pylist()


def statistics(array: pa.Array, column: Column) -> object:
    return column_stats(pa.table([array], names=["c"]), [column])


ACTS = pytest.mark.parametrize("act", [cells, texts, statistics])


@ACTS
@pytest.mark.parametrize("type_text", SCALAR_TYPES)
def test_samples_are_the_same_both_ways(act: Act, type_text: str) -> None:
    column, array = column_of(type_text), sample_array(type_text)
    if act is cells and _is_missing_in_postgresql(column):
        pytest.skip(f"PostgreSQL has no {type_text}")

    assert_same(act, array, column)
    assert_same(act, array.slice(1, 2), column)


@ACTS
@given(data=st.data())
def test_nested_values_are_the_same_both_ways(act: Act, data: st.DataObject) -> None:
    column = data.draw(columns())
    array = data.draw(arrays(column, data.draw(st.integers(1, 6))))

    if not (act is cells and _is_missing_in_postgresql(column)):
        assert_same(act, array, column)


def assert_same(act: Act, array: pa.Array, column: Column) -> None:
    assert outcome(act, array, column, few_rows=1000) == outcome(act, array, column, few_rows=-1)


def outcome(act: Act, array: pa.Array, column: Column, *, few_rows: int) -> object:
    with pytest.MonkeyPatch.context() as patch:
        for module in MODULES:
            patch.setattr(module, "FEW_ROWS", few_rows)
        try:
            return act(array, column)
        except UnsupportedType as error:
            return str(error)


def _is_missing_in_postgresql(column: Column) -> bool:
    return inlined_type(column, "postgresql") == "VARCHAR" and column.type == "time_ns"
