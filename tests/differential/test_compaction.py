"""Merges and rewrites: the same catalog rows as the extension's, and the same rows at every snapshot as before."""

from itertools import combinations_with_replacement

import pyarrow as pa
import pytest

from tests.differential.test_flush import history
from tests.fixtures.pairs import Pair

MERGE = "CALL ducklake_merge_adjacent_files('{lake}')"
REWRITE = "CALL ducklake_rewrite_data_files('{lake}', delete_threshold => 0.2)"


def merge(pair: Pair) -> None:
    """Merge in both lakes; each must look as before, at every snapshot and between any two."""
    compact(pair, merges=True)


def rewrite(pair: Pair) -> None:
    compact(pair, merges=False)


def compact(pair: Pair, *, merges: bool) -> None:
    head = pair.lakes["lake_a"].snapshots()[-1].snapshot_id
    ranges = list(combinations_with_replacement(range(2, head + 1, max(1, head // 4)), 2))
    # The extension's own feed tells of rewritten files wrongly (format §9.2): ours is looked at elsewhere.
    before = {name: history(pair, name, ranges if merges else []) for name in pair.lakes}
    if merges:
        pair.step(lambda lake: lake.merge_adjacent_files(), MERGE)
    else:
        pair.step(lambda lake: lake.rewrite_data_files(delete_threshold=0.2), REWRITE)
    for name, seen in before.items():
        now = history(pair, name, ranges if merges else [])
        assert {key: now[key] for key in seen} == seen


@pytest.fixture
def files(pair: Pair) -> Pair:
    """Give lakes in which every row goes to a file."""
    pair.set_option("data_inlining_row_limit", 0)
    return pair


def create(pair: Pair) -> None:
    pair.step(
        lambda lake: lake.create_table("t", {"i": "int32", "s": "varchar"}), "CREATE TABLE t (i INTEGER, s VARCHAR)"
    )


def insert(pair: Pair, first: int, end: int, text: str = "x") -> None:
    pair.insert("t", f"SELECT i, '{text}' FROM range({first}, {end}) r(i)")


def test_small_files_become_one_and_those_merged_again(files: Pair) -> None:
    create(files)
    for turn in range(4):
        insert(files, 10 * turn, 10 * turn + 10)

    merge(files)

    catalog = files.catalogs["lake_a"]
    [merged] = catalog.query("SELECT begin_snapshot, record_count, row_id_start, partial_max FROM ducklake_data_file")
    assert merged == (2, 40, 0, 5)
    insert(files, 50, 60)
    merge(files)
    merge(files)  # nothing is left to do
    assert len(catalog.query("SELECT * FROM ducklake_data_file")) == 1


def test_files_with_deletes_are_left_to_rewrites(files: Pair) -> None:
    create(files)
    for turn in range(4):
        insert(files, 10 * turn, 10 * turn + 10)
    files.delete("t", "i < 5")
    files.delete("t", "i = 12")
    files.delete("t", "i = 5")

    merge(files)
    rewrite(files)
    merge(files)

    rows = files.catalogs["lake_a"].query(
        "SELECT begin_snapshot, end_snapshot, record_count FROM ducklake_data_file ORDER BY 1, 2"
    )
    assert (2, 10, 10) in rows


def test_rewrite_that_leaves_no_deletes_makes_statistics_exact(files: Pair) -> None:
    create(files)
    insert(files, 0, 10)
    insert(files, 10, 20, "zz")
    files.delete("t", "i >= 15")
    files.delete("t", "i < 3")

    rewrite(files)

    catalog = files.catalogs["lake_a"]
    [stats] = catalog.query("SELECT record_count, next_row_id FROM ducklake_table_stats")
    bounds = catalog.query("SELECT min_value, max_value FROM ducklake_table_column_stats ORDER BY column_id")
    assert (stats, bounds) == ((12, 20), [("3", "14"), ("x", "zz")])


def test_partitions_are_merged_each_by_itself(files: Pair) -> None:
    files.partitioned = True
    create(files)
    files.step(lambda lake: lake.set_partitioning("t", ["s"]), "ALTER TABLE t SET PARTITIONED BY (s)")
    for turn in range(3):
        files.insert(
            "t", f"SELECT i, CASE WHEN i % 2 = 0 THEN 'a/b' ELSE 'c' END FROM range({turn * 6}, {turn * 6 + 6}) r(i)"
        )

    merge(files)

    files.delete("t", "i < 9")
    rewrite(files)


def test_files_of_other_columns_are_not_merged_together(files: Pair) -> None:
    files.unordered_files = True
    create(files)
    insert(files, 0, 5)
    insert(files, 5, 10)
    files.step(lambda lake: lake.add_column("t", "x", "int32", 7), "ALTER TABLE t ADD COLUMN x INTEGER DEFAULT 7")
    files.insert("t", "SELECT i, 'y', i FROM range(20, 25) r(i)")
    files.insert("t", "SELECT i, 'y', i FROM range(25, 30) r(i)")
    files.step(lambda lake: lake.drop_column("t", "s"), "ALTER TABLE t DROP COLUMN s")
    files.insert("t", "SELECT i, i FROM range(40, 45) r(i)")

    merge(files)

    assert len(files.catalogs["lake_a"].query("SELECT * FROM ducklake_data_file")) == 3


@pytest.mark.parametrize("kind", ["rows of several snapshots", "an update"])
def test_row_ids_that_do_not_follow_each_other(pair: Pair, kind: str) -> None:
    """The extension loses those of files that carry their own, so only what it would keep is compared with it."""
    create(pair)
    insert(pair, 0, 20)
    pair.insert("t", "VALUES (100, 'in'), (101, 'in')")
    if kind == "an update":
        pair.update("t", {"s": "u"}, "s = 'u'", "i = 101")
    insert(pair, 200, 220)
    pair.step(lambda lake: lake.flush_inlined(keep_superseded=0), "CALL ducklake_flush_inlined_data('{lake}')")
    merge(pair)


def test_tables_with_all_kinds_of_values(files: Pair) -> None:
    files.step(
        lambda lake: lake.create_table(
            "v",
            pa.schema(
                [
                    ("d", pa.decimal128(12, 3)),
                    ("l", pa.list_(pa.int32())),
                    ("m", pa.timestamp("us", "UTC")),
                    ("u", pa.uuid()),
                    ("f", pa.float64()),
                ]
            ),
        ),
        "CREATE TABLE v (d DECIMAL(12,3), l INTEGER[], m TIMESTAMPTZ, u UUID, f DOUBLE)",
    )
    for turn in range(3):
        files.insert(
            "v",
            f"SELECT i::DECIMAL(12,3) / 8, [i, NULL], TIMESTAMPTZ '2024-01-01 00:00:00+00' + INTERVAL (i) HOUR,"
            f" '00000000-0000-0000-0000-00000000000{turn}'::UUID, i FROM range({turn * 20}, {turn * 20 + 20}) r(i)",
        )
    merge(files)
    files.delete("v", "f < 30")
    rewrite(files)
