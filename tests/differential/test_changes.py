"""Deletes and updates: rows end in the same way, and live on under the same row ids, by us and by the extension."""

import pyarrow as pa
import pyarrow.compute as pc

from ducklake_core import Lake
from tests.fixtures.pairs import Pair

MANY = "SELECT i, 'x' || i FROM range({}) r(i)"


def create(lake: Lake) -> None:
    lake.create_table("t", {"i": "int32", "s": "varchar"})


def with_rows(pair: Pair, *counts: int) -> None:
    pair.step(create, "CREATE TABLE t (i INTEGER, s VARCHAR)")
    for count in counts:
        pair.insert("t", MANY.format(count))


def test_inlined_rows_are_deleted(pair: Pair) -> None:
    with_rows(pair, 8, 3)
    pair.delete("t", "i = 2")
    pair.delete("t", "i = 77")
    pair.delete("t", "i > 4")
    pair.delete("t", None)
    pair.insert("t", "VALUES (1, 'again')")


def test_more_inlined_rows_than_the_limit_are_deleted(pair: Pair) -> None:
    with_rows(pair, 10, 10, 10)
    pair.delete("t", "i <> 3")


def test_few_rows_of_files_are_deleted_by_catalog_rows(pair: Pair) -> None:
    with_rows(pair, 40, 20)
    pair.delete("t", "i = 3")
    pair.delete("t", "i IN (4, 5, 39)")
    pair.insert("t", "VALUES (3, 'again')")
    pair.delete("t", "i = 3")


def test_many_rows_of_a_file_are_deleted_by_a_delete_file_that_grows(pair: Pair) -> None:
    with_rows(pair, 60)
    pair.delete("t", "i < 20")
    pair.delete("t", "i < 40")
    pair.delete("t", "i < 55")


def test_a_delete_file_beside_catalog_rows(pair: Pair) -> None:
    with_rows(pair, 60)
    pair.delete("t", "i = 50")
    pair.delete("t", "i < 20")
    pair.delete("t", "i = 30")
    pair.delete("t", "i < 45")
    pair.delete("t", "i = 59")


def test_the_last_rows_of_a_file_with_a_delete_file_end_it(pair: Pair) -> None:
    pair.unordered_deletes = True
    with_rows(pair, 60, 30)
    pair.delete("t", "i < 30 AND i > 10")
    pair.delete("t", "i >= 0")


def test_a_whole_file_is_deleted(pair: Pair) -> None:
    with_rows(pair, 40, 5, 20)
    pair.delete("t", None)
    pair.insert("t", MANY.format(20))
    pair.delete("t", "i >= 0")


def test_a_small_file_is_deleted_row_by_row(pair: Pair) -> None:
    pair.set_option("data_inlining_row_limit", 0)
    with_rows(pair, 5)
    pair.set_option("data_inlining_row_limit", 10)
    pair.delete("t", "i < 2")
    pair.delete("t", None)


def test_without_inlining_every_delete_is_a_file(pair: Pair) -> None:
    pair.unordered_deletes = True
    pair.set_option("data_inlining_row_limit", 0)
    with_rows(pair, 20, 5)
    pair.delete("t", "i = 3")
    pair.delete("t", "i = 4")
    pair.update("t", {"s": "new"}, "s = 'new'", "i = 5")
    pair.update("t", {"s": "newer"}, "s = 'newer'", "i = 5")


def test_inlined_rows_are_updated_again_and_again(pair: Pair) -> None:
    with_rows(pair, 6)
    pair.update("t", {"s": "one"}, "s = 'one'", "i = 2")
    pair.update("t", {"s": "two"}, "s = 'two'", "i < 4")
    pair.update("t", {"s": None}, "s = NULL", "i = 2")
    pair.update("t", {"i": pc.add(pc.field("i"), 100)}, "i = i + 100")
    pair.delete("t", "i = 102")


def test_rows_of_files_are_updated(pair: Pair) -> None:
    with_rows(pair, 40)
    pair.update("t", {"s": "one"}, "s = 'one'", "i = 2")
    pair.update("t", {"s": "two"}, "s = 'two'", "i = 2")
    pair.update("t", {"i": pc.add(pc.field("i"), 1000)}, "i = i + 1000", "i >= 20")
    pair.update("t", {"s": "all"}, "s = 'all'")
    pair.delete("t", "i > 1010")
    pair.delete("t", None)


def test_deletes_and_updates_meet_columns_that_changed(pair: Pair) -> None:
    with_rows(pair, 6, 30)
    pair.step(lambda lake: lake.add_column("t", "n", "int64", 5), "ALTER TABLE t ADD COLUMN n BIGINT DEFAULT 5")
    pair.step(lambda lake: lake.rename_column("t", "s", "text"), "ALTER TABLE t RENAME COLUMN s TO text")
    pair.promote("t", "i", "int64", "BIGINT")
    pair.update("t", {"n": 6}, "n = 6", "i = 3")
    pair.delete("t", "n = 5 AND i < 5")
    pair.step(lambda lake: lake.drop_column("t", "text"), "ALTER TABLE t DROP COLUMN text")
    pair.update("t", {"i": 7_000_000_000}, "i = 7000000000", "i > 20")
    pair.delete("t", "n = 6")


def test_several_changes_in_one_transaction(pair: Pair) -> None:
    def insert_and_delete(lake: Lake) -> None:
        with lake.transaction() as tx:
            # Values between those there are: we forget the bounds of a row that never was, the extension does not.
            tx.append("t", {"i": pa.array([5, 6], pa.int32()), "s": ["x5 2", "x6 2"]})
            tx.delete("t", "s IN ('x1', 'x5 2')")

    def update_and_delete(lake: Lake) -> None:
        with lake.transaction() as tx:
            tx.update("t", {"s": "u"}, "i IN (2, 3)")
            tx.delete("t", "i = 3")

    def two_tables(lake: Lake) -> None:
        with lake.transaction() as tx:
            tx.delete("t", "i = 4")
            tx.append("u", {"j": [1]})

    pair.unordered_deletes = True
    with_rows(pair, 8, 30)
    pair.step(lambda lake: lake.create_table("u", {"j": "int64"}), "CREATE TABLE u (j BIGINT)")
    pair.step(
        insert_and_delete,
        "BEGIN; INSERT INTO t VALUES (5, 'x5 2'), (6, 'x6 2'); DELETE FROM t WHERE s IN ('x1', 'x5 2'); COMMIT",
    )
    pair.step(update_and_delete, "BEGIN; UPDATE t SET s = 'u' WHERE i IN (2, 3); DELETE FROM t WHERE i = 3; COMMIT")
    pair.step(two_tables, "BEGIN; DELETE FROM t WHERE i = 4; INSERT INTO u VALUES (1); COMMIT")


def test_delete_from_partitions(pair: Pair) -> None:
    pair.partitioned = True
    pair.step(create, "CREATE TABLE t (i INTEGER, s VARCHAR)")
    pair.step(lambda lake: lake.set_partitioning("t", ["s"]), "ALTER TABLE t SET PARTITIONED BY (s)")
    pair.insert("t", "SELECT i, 'p' || (i % 3) FROM range(90) r(i)")
    pair.delete("t", "s = 'p1'")
    pair.delete("t", "i < 50")


def test_both_go_on_after_flush_and_merge(pair: Pair) -> None:
    """Maintenance is the extension's; it is done to both lakes, and both sides read and change what it leaves."""
    pair.unordered_deletes = True
    with_rows(pair, 8, 30, 30)
    pair.update("t", {"s": "new"}, "s = 'new'", "i = 2")
    pair.delete("t", "i = 3")
    for lake in ("lake_a", "lake_b"):
        pair.oracle.execute(f"CALL ducklake_flush_inlined_data('{lake}')")
    pair.compare_catalogs()
    pair.insert("t", "VALUES (70, 'after')")
    pair.delete("t", "i = 4")
    pair.update("t", {"s": "newest"}, "s = 'newest'", "i = 2")
    for lake in ("lake_a", "lake_b"):
        pair.oracle.execute(f"CALL ducklake_flush_inlined_data('{lake}'); CALL ducklake_merge_adjacent_files('{lake}')")
    pair.compare_catalogs()
    pair.delete("t", "i < 5")
    pair.update("t", {"s": "last"}, "s = 'last'", "i > 25")
