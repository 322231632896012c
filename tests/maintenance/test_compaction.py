"""Merges and rewrites: no row, row id or change is another afterwards, whatever files there are."""

import math
import pickle
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ducklake_core import Lake
from ducklake_core.errors import InvalidInput, ObjectNotFound
from ducklake_core.maintenance.compaction import run_in_process
from ducklake_core.observe import Event, MaintenanceDone, TableNotMaintained
from tests.fixtures.catalogs import Catalog, SqliteCatalog
from tests.fixtures.consistency import check_lake, stored_files
from tests.fixtures.histories import check_history, history_of, rows_with_ids
from tests.fixtures.oracle import Oracle


@pytest.fixture
def local(tmp_path: Path) -> SqliteCatalog:
    return SqliteCatalog(tmp_path / "lake.sqlite", f"{tmp_path}/data/")


@pytest.fixture
def lake(local: SqliteCatalog) -> Iterator[Lake]:
    """Give a lake with an empty table, of which every row goes to a file."""
    with Lake.create(local.url, local.data_path) as made:
        made.set_option("data_inlining_row_limit", 0)
        made.create_table("t", {"i": "int64", "s": "varchar"})
        yield made


def fill(lake: Lake, files: int = 4, rows: int = 10, table: str = "t") -> None:
    for number in range(files):
        ids = list(range(number * rows, number * rows + rows))
        lake.append(table, {"i": ids, "s": [str(i) for i in ids]})


def test_history_stays_the_same_on_every_catalog(catalog: Catalog, oracle: Oracle) -> None:
    with Lake.create(catalog.url, catalog.data_path) as lake:
        lake.create_table("t", {"i": "int64", "s": "varchar"})
        fill(lake, files=3, rows=20)
        lake.append("t", {"i": [1000, 1001], "s": ["in", "in"]})
        lake.update("t", {"s": "changed"}, "i = 7 OR i = 1000")
        lake.flush_inlined()
        fill(lake, files=3, rows=20)
        lake.delete("t", "i < 15")
        before = history_of(lake)

        merge = lake.merge_adjacent_files("t").total
        check_history(lake, before)
        rewrite = lake.rewrite_data_files("t", delete_threshold=0.1).total
        check_history(lake, before)
        again = lake.merge_adjacent_files("t").total
        check_history(lake, before)

        assert (merge.files_before, merge.files_after) == (4, 1)
        assert rewrite.files_before == 3
        assert again.files_after == 1
        check_lake(catalog)
        oracle.attach(catalog.attach)
        assert sorted(oracle.query("SELECT rowid, i, s FROM t")) == rows_with_ids(lake, "t")
        for at in range(2, 12):
            assert sorted(oracle.query(f"SELECT i, s FROM t AT (VERSION => {at})")) == sorted(
                row[1:] for row in rows_with_ids(lake, "t", at)
            )


def test_row_ids_of_an_updated_row_survive_a_merge(lake: Lake) -> None:
    """The extension takes the place of the update's file among row ids for the ids in it."""
    fill(lake, files=2)
    lake.update("t", {"s": "u"}, "i = 3")
    lake.append("t", {"i": [100], "s": ["x"]})
    before = history_of(lake)

    report = lake.merge_adjacent_files("t")

    assert report.total.files_before == 3  # that with the deleted row is left
    check_history(lake, before)


def test_sorted_table_is_sorted_and_keeps_its_row_ids(lake: Lake, local: SqliteCatalog, oracle: Oracle) -> None:
    """The extension gives the sorted rows new row ids."""
    lake.set_sort_order("t", ["s"])
    for text in ("c", "a", "b"):
        lake.append("t", {"i": [1, 2], "s": [text, text + "z"]})
    before = history_of(lake)

    lake.merge_adjacent_files("t")

    [(path, start)] = local.query("SELECT path, row_id_start FROM ducklake_data_file")
    rows = pq.read_table(f"{local.data_path}main/t/{path}")
    assert rows.column("s").to_pylist() == ["a", "az", "b", "bz", "c", "cz"]
    assert rows.column("_ducklake_internal_row_id").to_pylist() == [2, 3, 4, 5, 0, 1]
    assert start is None
    check_history(lake, before)
    oracle.attach(local.attach)
    assert sorted(oracle.query("SELECT rowid, i, s FROM t")) == before[max(k for k in before if isinstance(k, int))]


def test_extension_merges_what_we_have_merged(lake: Lake, local: SqliteCatalog, oracle: Oracle) -> None:
    fill(lake)
    lake.merge_adjacent_files("t")
    fill(lake, files=2)
    before = history_of(lake)
    lake.close()
    oracle.attach(local.attach)

    assert oracle.query("CALL ducklake_merge_adjacent_files('lake')") == [("main", "t", 3, 1)]

    oracle.detach()
    check_history(lake, before)


def test_nans_do_not_split_files(lake: Lake) -> None:
    lake.create_table("f", {"x": "float64"})
    lake.set_option("parquet_row_group_size", 1)  # the first ones that are written have none
    for value in (1.0, math.nan, 2.0, math.nan):
        lake.append("f", {"x": [value]})

    assert lake.merge_adjacent_files("f").total.files_after == 1
    assert lake.merge_adjacent_files("f").total.files_before == 0


def test_output_rolls_at_the_target_size(lake: Lake) -> None:
    fill(lake, files=12, rows=2000)
    size = sum(file.file_size_bytes for file in lake.table("t").files())
    lake.set_option("parquet_row_group_size", 1000)
    lake.set_option("target_file_size", size // 3)
    before = history_of(lake)

    lake.merge_adjacent_files("t")

    assert len(lake.table("t").files()) == 3
    lake.set_option("target_file_size", size)
    lake.merge_adjacent_files("t")
    check_history(lake, before)
    lake.delete("t", "i = 0")
    before = history_of(lake)
    lake.set_option("target_file_size", size // 6)
    lake.rewrite_data_files("t", delete_threshold=0)
    assert len(lake.table("t").files()) > 3
    check_history(lake, before)


def test_exact_statistics_follow_a_rewrite_only_if_nothing_is_inlined(lake: Lake, local: SqliteCatalog) -> None:
    fill(lake, files=1)
    lake.delete("t", "i < 9")
    lake.set_option("data_inlining_row_limit", 10)
    lake.append("t", {"i": [500], "s": ["500"]})

    lake.rewrite_data_files("t", delete_threshold=0.5)

    assert local.query("SELECT min_value, max_value FROM ducklake_table_column_stats WHERE column_id = 1") == [
        ("0", "500")
    ]


def test_files_of_which_all_rows_are_deleted_leave_nothing(lake: Lake) -> None:
    lake.set_option("data_inlining_row_limit", 20)
    lake.append("t", {"i": list(range(30)), "s": ["x"] * 30})
    for first in (0, 15):
        lake.delete("t", f"i >= {first} AND i < {first + 15}")
    before = history_of(lake)

    total = lake.rewrite_data_files("t").total

    assert (total.files_before, total.files_after, total.rows) == (1, 0, 0)
    check_history(lake, before)


def test_added_files_with_a_name_mapping_are_merged(lake: Lake, local: SqliteCatalog, oracle: Oracle) -> None:
    outside = f"{local.data_path}other.parquet"
    Path(local.data_path).mkdir(exist_ok=True)
    pq.write_table(pa.table({"s": ["one", "two"], "i": [1, 2]}), outside)
    fill(lake, files=1)
    lake.close()
    oracle.attach(local.attach)
    oracle.execute(f"CALL ducklake_add_data_files('lake', 't', '{outside}')")
    oracle.detach()
    before = history_of(lake)

    assert lake.merge_adjacent_files("t").total.files_before == 2
    check_history(lake, before)
    scheduled = local.query("SELECT path, path_is_relative FROM ducklake_files_scheduled_for_deletion ORDER BY 1")
    assert ("other.parquet", 1) in scheduled


def test_files_that_duckdb_encrypted_are_left_with_the_reason(local: SqliteCatalog, oracle: Oracle) -> None:
    oracle.attach(local.attach, data_path=local.data_path, encrypted=True)
    oracle.execute("CALL lake.set_option('data_inlining_row_limit', 0)")
    oracle.execute("CREATE TABLE t (i BIGINT); INSERT INTO t VALUES (1); INSERT INTO t VALUES (2)")
    oracle.detach()
    with Lake.open(local.url) as lake:
        [work] = lake.merge_adjacent_files().work

    assert work.error is None
    assert "cannot be decrypted" in (work.skipped or "")
    assert len(stored_files(local)) == 2


def test_one_bad_table_does_not_stop_the_others(local: SqliteCatalog) -> None:
    events: list[Event] = []
    recorder = type("Kept", (), {"record": lambda _, event: events.append(event)})()
    with Lake.create(local.url, local.data_path, recorder=recorder) as lake:
        lake.set_option("data_inlining_row_limit", 0)
        for name in ("bad", "good", "left"):
            lake.create_table(name, {"i": "int64", "s": "varchar"})
            fill(lake, files=2, table=name)
        Path(lake.table("bad").files()[0].path).unlink()
        lake.set_option("auto_compact", "false", table="left")

        report = lake.merge_adjacent_files()

        works = {work.table: work for work in report.work}
        assert works.keys() == {"main.bad", "main.good"}
        assert "cannot open file" in (works["main.bad"].error or "")
        assert (works["main.good"].files_before, works["main.good"].files_after) == (2, 1)
        assert report.has_failed
        assert [e.table for e in events if isinstance(e, TableNotMaintained)] == ["main.bad"]
        assert [e.table for e in events if isinstance(e, MaintenanceDone)] == ["main.good"]
        assert lake.merge_adjacent_files("left").total.files_before == 2  # asked for by name


def test_catalog_that_counts_other_rows_than_a_file_has_stops_the_merge(lake: Lake, local: SqliteCatalog) -> None:
    fill(lake, files=2)
    lake.close()
    with closing(sqlite3.connect(local.path)) as connection, connection:
        connection.execute("UPDATE ducklake_data_file SET record_count = 11 WHERE data_file_id = 0")

    [work] = lake.merge_adjacent_files("t").work

    assert "have 21 rows, but 20 were read" in (work.error or "")
    assert len(lake.table("t").files()) == 2


def test_tasks_and_results_travel(lake: Lake) -> None:
    fill(lake)

    def elsewhere(function: Any, tasks: Iterable[Any]) -> Iterator[Any]:
        for task in tasks:
            run, there = pickle.loads(pickle.dumps((function, task)))  # noqa: S301 # our own
            yield pickle.loads(pickle.dumps(run(there)))  # noqa: S301 # our own

    before = history_of(lake)
    assert lake.merge_adjacent_files("t", runner=elsewhere).total.files_after == 1
    check_history(lake, before)


def test_runner_keeps_the_order() -> None:
    assert list(run_in_process(lambda n: n * n, list(range(5)))) == [0, 1, 4, 9, 16]


@pytest.mark.parametrize(
    "arguments",
    [
        {"min_file_size": 10, "max_file_size": 10},
        {"max_file_size": 0},
        {"min_file_size": "many"},
        {"max_compacted_files": 0},
    ],
)
def test_limits_that_make_no_sense_are_refused(lake: Lake, arguments: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        lake.merge_adjacent_files(**arguments)


def test_threshold_and_table_that_make_no_sense_are_refused(lake: Lake) -> None:
    with pytest.raises(InvalidInput, match="from 0 to 1"):
        lake.rewrite_data_files(delete_threshold=2)
    with pytest.raises(ObjectNotFound, match="no table"):
        lake.rewrite_data_files("nothing")


def test_commit_message_is_given_where_one_is_required(lake: Lake) -> None:
    fill(lake)
    lake.set_option("require_commit_message", "true")

    lake.merge_adjacent_files("t")

    assert lake.snapshots()[-1].message == "merge files of main.t"


@pytest.mark.parametrize("move", ["merge_adjacent_files", "rewrite_data_files", "flush_inlined"])
def test_bounds_of_a_promoted_column_leave_no_value_out(catalog: Catalog, move: str) -> None:
    """As texts, the bounds of a float32 mean other numbers to a float64: 1.1 is 1.100000023841858 there."""
    with Lake.create(catalog.url, catalog.data_path) as lake:
        lake.set_option("data_inlining_row_limit", 10 if move == "flush_inlined" else 0)
        lake.create_table("t", {"i": "int64", "f": "float32"})
        for i in range(4):
            lake.append("t", pa.table({"i": [2 * i, 2 * i + 1], "f": pa.array([1.1, 1.1], pa.float32())}))
        lake.promote_column("t", "f", "float64")
        if move == "rewrite_data_files":
            lake.delete("t", "i IN (0, 2, 4, 6)")
            lake.rewrite_data_files("t", delete_threshold=0.1)
        else:
            getattr(lake, move)("t")

    bounds = "SELECT min_value, max_value FROM {} WHERE column_id = 2"
    for table in ("ducklake_file_column_stats", "ducklake_table_column_stats"):
        assert set(catalog.query(bounds.format(table))) == {("1.100000023841858", "1.100000023841858")}
