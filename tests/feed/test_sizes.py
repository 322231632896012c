"""How much each snapshot has changed, as it is estimated for micro-batches and tasks: never less than there is."""

import pytest

from ducklake_core import Lake
from tests.fixtures.feeds import check_law, feed_of, sizes_of, task_of
from tests.fixtures.oracle import Oracle


@pytest.fixture
def table(lake: Lake) -> Lake:
    """Give a lake with a table of one file with 10,000 rows, at snapshot 2."""
    lake.create_table("t", {"i": "int64"})
    lake.append("t", {"i": range(10_000)})
    return lake


@pytest.fixture
def small_table(lake: Lake) -> Lake:
    """Give the same with 1,000 rows, where the law is checked: it reads every range."""
    lake.create_table("t", {"i": "int64"})
    lake.append("t", {"i": range(1000)})
    return lake


def test_deletes_from_a_file_that_had_deletes_before_are_counted_where_they_happened(table: Lake) -> None:
    """The catalog has one delete file of 4,000 rows for it, which begins with snapshot 3."""
    table.delete("t", "i < 100")
    table.delete("t", "i < 4000")
    version = table.table("t").version

    assert feed_of(table, version, 3, 4).total() == 3900
    assert 3900 <= sizes_of(table, version, 3, 4)[4] <= 4000
    assert sum(sizes_of(table, version, 2, 4).values()) == 4000


def test_deletes_are_counted_before_they_may_have_happened_and_not_after(small_table: Lake) -> None:
    """Only the delete file tells how many of its rows are of which snapshot: 390 of 400 are of the first."""
    small_table.delete("t", "i < 390")
    small_table.delete("t", "i < 400")
    version = small_table.table("t").version

    assert sizes_of(small_table, version, 2, 4) == {3: 400}
    assert dict(task_of(small_table, version, 2, 4).weights) == {3: 200, 4: 200}, "tasks get about as much each"
    check_law(small_table)


def test_rows_of_a_file_of_many_snapshots_are_counted_before_they_may_have_come(small_table: Lake) -> None:
    small_table.set_option("data_inlining_row_limit", 4, table="t")
    small_table.append("t", {"i": [1, 2]})
    small_table.append("t", {"i": [3]})
    small_table.flush_inlined("t")
    version = small_table.table("t").version

    assert sizes_of(small_table, version, 2, 5) == {3: 3}
    assert dict(task_of(small_table, version, 2, 5).weights) == {3: 1.5, 4: 1.5}
    check_law(small_table)


def test_snapshots_that_cannot_have_deleted_are_given_no_deletes(table: Lake) -> None:
    table.delete("t", "i < 1000")
    table.append("t", {"i": range(20_000, 20_100)})
    table.delete("t", "i < 3000")
    table.append("t", {"i": [1, 2]})

    sizes = sizes_of(table, table.table("t").version, 2, 6)

    assert sizes == {3: 3000, 4: 100, 6: 2}


def test_a_delete_file_tells_nothing_of_snapshots_after_the_one_that_wrote_it(table: Lake) -> None:
    table.append("t", {"i": range(20_000, 30_000)})
    table.delete("t", "i < 1000")
    table.delete("t", "i >= 20000 AND i < 20100")

    assert sizes_of(table, table.table("t").version, 3, 5) == {4: 1000, 5: 100}


def test_a_flush_that_moves_deletes_of_before_is_no_change(small_table: Lake) -> None:
    small_table.append("t", {"i": [20_000, 20_001]})
    small_table.delete("t", "i = 20000 OR i < 5")
    small_table.flush_inlined("t")
    version = small_table.table("t").version

    assert sizes_of(small_table, version, 2, 4) == {3: 2, 4: 6}
    check_law(small_table)


def test_a_rewrite_changes_no_row(table: Lake, duckdb: Oracle) -> None:
    table.delete("t", "i < 6000")
    duckdb.execute("CALL ducklake_rewrite_data_files('lake', delete_threshold => 0)")
    table.append("t", {"i": [1, 2]})
    version = table.table("t").version

    assert sizes_of(table, version, 3, 5) == {5: 2}
    assert sizes_of(table, version, 2, 5) == {3: 6000, 5: 2}


def test_updates_are_counted_by_both_their_halves(table: Lake) -> None:
    table.update("t", {"i": -1}, "i < 500")

    assert sizes_of(table, table.table("t").version, 2, 3) == {3: 1000}
