"""Statistics of rows, and how they widen those of a table: never narrower than the data."""

import math
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ducklake_core.model import Column, ColumnId, ColumnStats, TableColumnStats, TableStats
from ducklake_core.plan.inlined_rows import inlined_stats
from ducklake_core.plan.order import key_of_text
from ducklake_core.plan.statistics import changed_stats, merge_table_stats
from ducklake_core.spec.text import from_text, to_text
from ducklake_core.spec.types import arrow_schema, build_columns
from tests.fixtures.values import SCALAR_TYPES, arrays, column_of, raw_array, sample_array

ID = ColumnId(1)
# Types whose bounds are those of the texts, as in the extension.
BY_TEXT = ("blob", "interval", "timetz", "varchar", "json", "uuid")


def stats_of(array: pa.Array, column: Column) -> ColumnStats:
    (stats,) = inlined_stats(pa.table({"c": array}), [column])
    return stats


def entry(**known: bool | str | None) -> TableStats:
    """Return the statistics of a table of five rows and one column, of which only this is known."""
    facts = {"contains_null": None, "contains_nan": None, "min_value": None, "max_value": None} | known
    return TableStats(5, 5, 0, {ID: TableColumnStats(ID, **facts)})  # type: ignore[arg-type]  # names and values match


def merged(old: TableStats | None, added: ColumnStats, type_: str = "int32") -> TableColumnStats:
    return merge_table_stats(old, [added], [column_of(type_)])[ID]


@pytest.mark.parametrize("type_", SCALAR_TYPES)
def test_bounds_are_texts_of_the_smallest_and_largest_value(type_: str) -> None:
    array = sample_array(type_)
    texts = [text for text in to_text(array, column_of(type_)).to_pylist() if text is not None]

    stats = stats_of(array, column_of(type_))

    assert (stats.value_count, stats.null_count) == (len(texts), 1)
    assert stats.min_value in texts
    assert stats.max_value in texts
    key = key_of_text(type_)
    assert key(str(stats.min_value)) == min(map(key, texts))
    assert key(str(stats.max_value)) == max(map(key, texts))


@pytest.mark.parametrize("type_", [t for t in SCALAR_TYPES if t not in BY_TEXT and not t.startswith("float")])
def test_texts_are_ordered_as_their_values(type_: str) -> None:
    array = sample_array(type_).drop_null()
    texts = to_text(array, column_of(type_))

    ordered = sorted(texts.to_pylist(), key=key_of_text(type_))

    assert from_text(pa.array(ordered), column_of(type_)).equals(array.take(pc.sort_indices(array)))


def test_infinity_is_beyond_every_moment() -> None:
    for type_ in ("timestamp", "timestamp_ns", "timestamptz", "date"):
        key = key_of_text(type_)
        assert key("-infinity") < key("290309-12-22 (BC)") < key("294247-01-10") < key("infinity")


@pytest.mark.parametrize(
    ("values", "low", "high"),
    [
        ([1.0, math.nan], "1.0", "nan"),
        ([math.nan, math.nan], "nan", "nan"),
        ([math.inf, -math.inf], "-inf", "inf"),
        ([0.0, -0.0], "0.0", "0.0"),
        ([-0.0, 0.0, 1.0], "-0.0", "1.0"),
    ],
)
def test_nan_is_the_largest_number_and_the_first_zero_counts(values: list[float], low: str, high: str) -> None:
    for type_ in ("float32", "float64"):
        stats = stats_of(raw_array(values, type_), column_of(type_))

        assert (stats.min_value, stats.max_value, stats.contains_nan) == (low, high, None)


@pytest.mark.parametrize(
    ("values", "low", "high"),
    [
        (["b\0", "a"], "a", None),
        (["a\0", "b"], None, "b"),
        (["b\0x", "b\0y"], "b", None),  # never both unknown: that would look like nulls only
        (["\0"], "", None),
        (["z", "ü", "𝄞"], "z", "𝄞"),
    ],
)
def test_a_string_with_nul_is_no_bound(values: list[str], low: str | None, high: str | None) -> None:
    stats = stats_of(pa.array(values), column_of("varchar"))

    assert (stats.min_value, stats.max_value) == (low, high)


def test_leaves_count_their_own_values() -> None:
    columns = build_columns({"l": "int32[]", "s": "struct(a int32, b varchar[])", "m": "map(varchar, int32)"})
    rows = [
        {"l": [1, None], "s": {"a": 1, "b": ["x"]}, "m": [("k", 1)]},
        {"l": [], "s": None, "m": None},
        {"l": None, "s": {"a": None, "b": None}, "m": []},
    ]
    table = pa.Table.from_pylist(rows, arrow_schema(columns))

    found = {s.column_id: (s.value_count, s.null_count, s.min_value) for s in inlined_stats(table, columns)}

    # 2: elements of l; 4 and 6: s.a and the elements of s.b; 8 and 9: keys and values of m
    assert found == {2: (1, 1, "1"), 4: (1, 2, "1"), 6: (1, 0, "x"), 8: (1, 0, "k"), 9: (1, 0, "1")}


def test_no_rows_have_no_bounds() -> None:
    assert stats_of(pa.array([], pa.int32()), column_of("int32")) == ColumnStats(ID, 0, 0)
    assert stats_of(pa.nulls(2, pa.int32()), column_of("int32")) == ColumnStats(ID, 0, 2)


# -------------------------------------------------------------------------------------------- merging


def test_the_first_rows_make_an_entry_for_every_leaf() -> None:
    columns = build_columns({"a": "int32", "s": "struct(x varchar)"})

    new = merge_table_stats(None, [ColumnStats(ColumnId(1), 2, 1, "1", "5")], columns)

    assert new == {
        1: TableColumnStats(ColumnId(1), contains_null=True, contains_nan=None, min_value="1", max_value="5"),
        3: TableColumnStats(ColumnId(3), contains_null=None, contains_nan=None, min_value=None, max_value=None),
    }


def test_a_column_added_later_gets_no_entry_and_a_dropped_one_keeps_its_own() -> None:
    old = TableStats(1, 1, 0, {ColumnId(9): TableColumnStats(ColumnId(9), None, None, "1", "1")})

    assert merge_table_stats(old, [ColumnStats(ID, 1, 0, "5", "5")], [column_of("int32")]) == old.columns


@pytest.mark.parametrize(
    ("type_", "old", "added", "expected"),
    [
        ("int32", ("9", "9"), ("10", "10"), ("9", "10")),
        ("int128", ("-9", "9"), ("-10", "10"), ("-10", "10")),
        ("decimal(9,2)", ("9.00", "9.00"), ("10.00", "10.00"), ("9.00", "10.00")),
        ("float64", ("-1.0", "1e+20"), ("-2.0", "nan"), ("-2.0", "nan")),
        ("float64", ("nan", "nan"), ("1.0", "1.0"), ("1.0", "nan")),
        ("float64", ("0.0", "0.0"), ("-0.0", "-0.0"), ("0.0", "0.0")),
        ("date", ("9999-01-01", "9999-01-01"), ("10000-01-01", "0044-03-15 (BC)"), ("9999-01-01", "9999-01-01")),
        ("date", ("2024-01-01", "2024-01-01"), ("0044-03-15 (BC)", "10000-01-01"), ("0044-03-15 (BC)", "10000-01-01")),
        (
            "timestamp",
            ("2024-01-01 00:00:00", "2024-01-01 00:00:00.5"),
            ("-infinity", "infinity"),
            ("-infinity", "infinity"),
        ),
        ("boolean", ("0", "0"), ("false", "true"), ("0", "true")),
        ("varchar", ("b", "b"), ("a", "ü"), ("a", "ü")),
        ("varchar", ("b", None), ("a", "c"), ("a", None)),
        ("varchar", ("b", "c"), (None, "d"), (None, "d")),
        ("int32", ("1", "what"), ("0", "2"), (None, None)),
        # By text, as the extension does: these bounds are used by nobody.
        ("interval", ("1 month", "1 month"), ("20 days", "20 days"), ("1 month", "20 days")),
    ],
)
def test_bounds_widen_by_value(
    type_: str, old: tuple[str, str], added: tuple[str, str], expected: tuple[str | None, str | None]
) -> None:
    new = merged(entry(contains_null=False, min_value=old[0], max_value=old[1]), ColumnStats(ID, 1, 0, *added), type_)

    assert (new.min_value, new.max_value) == expected


@pytest.mark.parametrize(
    ("type_", "contains_null", "rows", "adopted"),
    [
        ("int32", True, 5, True),  # only nulls so far
        ("int32", False, 5, False),  # values, and nobody knows which
        ("int32", None, 5, False),
        ("varchar", True, 5, False),  # perhaps strings with NUL
        ("varchar", None, 0, True),  # no rows at all
        ("int32", False, 0, True),
        ("float64", True, 5, True),
        ("int32[]", False, 5, True),  # only empty lists so far
        ("varchar[]", False, 5, False),
    ],
)
def test_missing_bounds_are_taken_for_no_value_only_when_that_is_certain(
    type_: str, rows: int, *, contains_null: bool | None, adopted: bool
) -> None:
    column = column_of(type_)
    leaf = next(column.leaves()).column_id
    old = TableStats(rows, rows, 0, {leaf: TableColumnStats(leaf, contains_null, None, None, None)})

    new = merge_table_stats(old, [ColumnStats(leaf, 1, 0, "1", "2")], [column])[leaf]

    assert (new.min_value, new.max_value) == (("1", "2") if adopted else (None, None))


def test_a_column_that_had_nan_in_a_file_has_unknown_bounds() -> None:
    old = TableStats(
        5, 5, 0, {ID: TableColumnStats(ID, contains_null=True, contains_nan=True, min_value=None, max_value=None)}
    )

    assert merged(old, ColumnStats(ID, 1, 0, "1.0", "1.0"), "float64").min_value is None


def test_unknown_swallows_what_was_known() -> None:
    old = TableStats(
        5, 5, 0, {ID: TableColumnStats(ID, contains_null=False, contains_nan=False, min_value="1", max_value="2")}
    )

    new = merged(old, ColumnStats(ID))

    assert new == TableColumnStats(ID, contains_null=None, contains_nan=None, min_value=None, max_value=None)


def test_nulls_leave_the_bounds_and_are_remembered() -> None:
    new = merged(entry(contains_null=False, min_value="1", max_value="2"), ColumnStats(ID, 0, 3))

    assert (new.contains_null, new.min_value, new.max_value) == (True, "1", "2")


def test_only_entries_that_differ_are_written() -> None:
    old = entry(contains_null=False, min_value="1", max_value="5")

    assert changed_stats(old, merge_table_stats(old, [ColumnStats(ID, 1, 0, "2", "3")], [column_of("int32")])) == []
    wider = merge_table_stats(old, [ColumnStats(ID, 1, 0, "0", "3")], [column_of("int32")])
    assert changed_stats(old, wider) == [wider[ID]]
    assert changed_stats(None, wider) == [wider[ID]]


@given(st.data())
def test_no_value_is_outside_the_bounds_after_any_batches(data: st.DataObject) -> None:
    type_ = data.draw(st.sampled_from(SCALAR_TYPES))
    column = column_of(type_)
    batches = data.draw(st.lists(arrays(column, 2), min_size=1, max_size=4))
    stats: TableStats | None = None

    for batch in batches:
        new = merge_table_stats(stats, [stats_of(batch, column)], [column])
        stats = TableStats((stats.record_count if stats else 0) + len(batch), 0, 0, new)

    assert stats is not None
    bounds, key = stats.columns[ID], key_of_text(type_)
    texts = [text for batch in batches for text in to_text(batch, column).to_pylist()]
    assert bounds.contains_null is (None in texts)
    for text in texts:
        if text is not None and bounds.min_value is not None:
            assert key(bounds.min_value) <= key(text)
        if text is not None and bounds.max_value is not None:
            assert key(text) <= key(bounds.max_value)


@pytest.mark.parametrize(
    ("type_", "low", "high"),
    [
        ("decimal(9,2)", "-0.50", "0.01"),
        ("decimal(2,2)", "-.50", ".01"),
        ("decimal(38,9)", "-0.500000000", "0.010000000"),
    ],
)
def test_bounds_of_decimals_have_fixed_scale(type_: str, low: str, high: str) -> None:
    stats = stats_of(raw_array([Decimal("-0.5"), Decimal("0.01")], type_), column_of(type_))

    assert (stats.min_value, stats.max_value) == (low, high)
