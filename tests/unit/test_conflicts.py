"""Which changes of others make ours invalid."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ducklake_core.model import SnapshotId
from ducklake_core.plan.conflicts import Conflict, find_conflict, mark_renames
from ducklake_core.spec.changes import ChangeKind, TableChange, parse_changes

NAMES = {0: "main", 3: "main.orders", 4: "main.events", 8: "archive"}
AT = SnapshotId(977)


def conflict(mine: str | TableChange, other: str | TableChange) -> Conflict | None:
    own, theirs = (parse_changes(c) if isinstance(c, str) else (c,) for c in (mine, other))
    return find_conflict(own, [(SnapshotId(976), ()), (AT, theirs)], NAMES)


OTHERS = [
    "dropped_table",
    "altered_table",
    "inserted_into_table",
    "inlined_insert",
    "deleted_from_table",
    "inlined_delete",
    "inline_flush",
    "merge_adjacent",
    "rewrite_delete",
    "compacted_table",
]
# Rows: ours. Columns: OTHERS, in that order. X: conflict.
MATRIX = {
    "inserted_into_table": "XX........",
    "inlined_insert": "XX........",
    "deleted_from_table": "XX..XXXXXX",
    "inlined_delete": "XX..XXXXXX",
    "inline_flush": "XX..XXX...",
    "merge_adjacent": "XX..XX.XXX",
    "rewrite_delete": "XX..XX.XXX",
    "altered_table": "XX........",
    "dropped_table": "X.........",
}
CELLS = [
    pytest.param(mine, other, cell == "X", id=f"{mine}-after-{other}")
    for mine, cells in MATRIX.items()
    for other, cell in zip(OTHERS, cells, strict=True)
]


@pytest.mark.parametrize(("mine", "other", "expected"), CELLS)
def test_changes_of_one_table_conflict_as_the_matrix_says(mine: str, other: str, expected: bool) -> None:  # noqa: FBT001 # a parameter
    found = conflict(f"{mine}:3", f"{other}:3")

    assert (found is not None) == expected
    assert conflict(f"{mine}:3", f"{other}:4") is None


# An alter or a drop after an append is in order; an append after them is not. All other pairs have no order.
SYMMETRIC = sorted(MATRIX.keys() - {"altered_table", "dropped_table"})


@pytest.mark.parametrize("one", SYMMETRIC)
@pytest.mark.parametrize("two", SYMMETRIC)
def test_data_changes_conflict_in_either_order(one: str, two: str) -> None:
    assert (conflict(f"{one}:3", f"{two}:3") is None) == (conflict(f"{two}:3", f"{one}:3") is None)


NAME_CONFLICTS = [
    ('created_schema:"s"', 'created_schema:"S"'),
    ('created_table:"main"."t"', 'created_table:"main"."T"'),
    ('created_table:"main"."t"', 'created_view:"main"."t"'),
    ('created_view:"main"."t"', 'created_table:"main"."t"'),
    ('created_scalar_macro:"main"."m"', 'created_scalar_macro:"main"."m"'),
    ('created_table_macro:"main"."m"', 'created_table_macro:"main"."m"'),
    ('created_table:"archive"."t"', "dropped_schema:8"),
    ('created_table:"Archive"."t"', "dropped_schema:8"),
    ('created_view:"archive"."t"', "dropped_schema:8"),
    ('created_scalar_macro:"archive"."t"', "dropped_schema:8"),
    ("dropped_schema:8", "dropped_schema:8"),
    ("dropped_view:5", "dropped_view:5"),
    ("altered_view:5", "altered_view:5"),
    ("dropped_scalar_macro:5", "dropped_scalar_macro:5"),
    ("dropped_table_macro:5", "dropped_table_macro:5"),
]


@pytest.mark.parametrize(("one", "two"), NAME_CONFLICTS)
def test_changes_of_names_conflict_in_either_order(one: str, two: str) -> None:
    assert conflict(one, two) is not None
    assert conflict(two, one) is not None


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ('created_table:"main"."t"', 'created_table:"archive"."t"'),
        ('created_table:"a.b"."c"', 'created_table:"a"."b.c"'),
        ('created_table:"main"."m"', 'created_scalar_macro:"main"."m"'),
        ('created_scalar_macro:"main"."m"', 'created_table_macro:"main"."m"'),
        ('created_schema:"s"', 'created_table:"main"."s"'),
        ('created_table:"main"."t"', "dropped_schema:8"),
        ('created_table:"main"."t"', "dropped_table:3"),
        ("dropped_schema:8", "dropped_table:3"),
        ("dropped_schema:8", "inserted_into_table:3"),
    ],
)
def test_unrelated_names_do_not_conflict(one: str, two: str) -> None:
    assert conflict(one, two) is None
    assert conflict(two, one) is None


def test_an_altered_view_that_was_dropped_conflicts() -> None:
    assert conflict("altered_view:5", "dropped_view:5") is not None


RENAME = TableChange(ChangeKind.CREATED_TABLE, object_id=3, schema_name="main", name="sales")


@pytest.mark.parametrize("mine", sorted(MATRIX.keys() - {"dropped_table"}))
def test_a_rename_by_another_counts_as_an_alter(mine: str) -> None:
    found = conflict(f"{mine}:3", RENAME)

    assert found is not None
    assert found.describe() == "table 'main.orders' was renamed to 'main.sales' in snapshot 977"
    assert conflict(f"{mine}:4", RENAME) is None


@pytest.mark.parametrize("other", ["dropped_table:3", "altered_table:3", 'created_table:"main"."sales"'])
def test_our_rename_conflicts_with_a_drop_an_alter_and_the_name(other: str) -> None:
    assert conflict(RENAME, other) is not None


def test_two_renames_of_one_table_conflict() -> None:
    other = TableChange(ChangeKind.CREATED_TABLE, object_id=3, schema_name="main", name="elsewhere")

    assert conflict(RENAME, other) is not None


def test_our_rename_may_follow_data_changes() -> None:
    assert conflict(RENAME, "inserted_into_table:3,inlined_delete:3,inline_flush:3,merge_adjacent:3") is None


def test_renames_are_marked_by_their_new_name() -> None:
    changes = parse_changes('created_table:"main"."sales",created_table:"main"."new",dropped_table:4')

    marked = mark_renames(changes, {("main", "sales"): 3})

    assert marked == (RENAME, *changes[1:])


@pytest.mark.parametrize(
    ("mine", "other", "message"),
    [
        ("inlined_insert:3", "dropped_table:3", "table 'main.orders' was dropped in snapshot 977"),
        ("inlined_insert:9", "altered_table:9", "table 9 was altered in snapshot 977"),
        ("inlined_delete:3", "inline_flush:3", "table 'main.orders' had its inlined rows flushed in snapshot 977"),
        ("inlined_delete:3", "merge_adjacent:3", "table 'main.orders' had its files merged in snapshot 977"),
        ('created_table:"main"."t"', 'created_view:"main"."t"', "view 'main.t' was created in snapshot 977"),
        ('created_table:"archive"."t"', "dropped_schema:8", "schema 'archive' was dropped in snapshot 977"),
        ("dropped_schema:8", 'created_scalar_macro:"archive"."m"', "macro 'archive.m' was created in snapshot 977"),
    ],
)
def test_a_conflict_says_what_happened_where(mine: str, other: str, message: str) -> None:
    found = conflict(mine, other)

    assert found is not None
    assert found.describe() == message


CHANGES = st.builds(
    TableChange,
    st.sampled_from([kind for kind in ChangeKind if not kind.is_named]),
    object_id=st.integers(min_value=0, max_value=5),
)
SNAPSHOTS = st.lists(st.lists(CHANGES, max_size=3).map(tuple), max_size=5).map(
    lambda snapshots: [(SnapshotId(number), changes) for number, changes in enumerate(snapshots, start=10)]
)


@given(st.lists(CHANGES, max_size=4), SNAPSHOTS)
def test_a_conflict_is_found_in_the_first_snapshot_that_has_one_a_flush_last(
    mine: list[TableChange], others: list[tuple[SnapshotId, tuple[TableChange, ...]]]
) -> None:
    found = find_conflict(mine, others, NAMES)

    alone = [one for pair in others if (one := find_conflict(mine, [pair], NAMES)) is not None]
    first = next((one for one in alone if not one.rows_moved), alone[0] if alone else None)
    assert found == first
    assert found is None or found.describe()


@given(st.lists(CHANGES, max_size=4), SNAPSHOTS)
def test_objects_that_we_create_conflict_with_nothing(
    mine: list[TableChange], others: list[tuple[SnapshotId, tuple[TableChange, ...]]]
) -> None:
    new = [TableChange(change.kind, object_id=-1 - (change.object_id or 0)) for change in mine]

    assert find_conflict(new, others, NAMES) is None


def test_a_flush_that_deletes_from_a_table_that_was_read_has_moved_rows_only() -> None:
    mine, flush = parse_changes("inlined_insert:3"), parse_changes("inline_flush:3,deleted_from_table:3")
    read = frozenset({3})

    moved = find_conflict(mine, [(AT, flush)], NAMES, read_tables=read)
    changed = find_conflict(mine, [(AT, flush), (AT, parse_changes("inlined_delete:3"))], NAMES, read_tables=read)

    assert moved is not None
    assert moved.rows_moved
    assert changed is not None
    assert not changed.rows_moved
