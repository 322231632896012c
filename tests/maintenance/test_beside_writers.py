"""A merge or rewrite beside writers: no delete is lost, no writer fails, and only files that changed wait for later."""

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from ducklake_core import CommitResult, Lake, compact_all
from ducklake_core.catalog.commit import Commit
from ducklake_core.catalog.committer import Committer
from ducklake_core.errors import CommitConflict
from ducklake_core.maintenance import compaction
from ducklake_core.maintenance.compaction_method import TableAt
from ducklake_core.maintenance.report import MaintenanceReport
from ducklake_core.read.positions import RowPositions
from ducklake_core.spec.changes import parse_changes
from tests.fixtures.catalogs import Catalog
from tests.fixtures.consistency import check_lake, stored_files
from tests.fixtures.faults import at_fault
from tests.fixtures.histories import check_history, history_of
from tests.fixtures.leases import WHEN_LEASES_HAVE_RUN_OUT
from tests.fixtures.oracle import Oracle, OracleError


@pytest.fixture
def lakes(catalog: Catalog) -> Iterator[tuple[Lake, Lake]]:
    """Give two handles of a lake: two groups of two files each, and one file with deletes."""
    with Lake.create(catalog.url, catalog.data_path) as lake, Lake.open(catalog.url) as other:
        lake.create_table("t", {"i": "int64", "p": "varchar"}, partition_by=["p"])
        for first in (0, 100):
            for p in "ab":
                lake.append("t", {"i": list(range(first, first + 20)), "p": [p] * 20})
        lake.append("t", {"i": list(range(200, 220)), "p": ["c"] * 20})
        lake.delete("t", "i >= 200 AND i < 215")
        yield lake, other


def once(act: Callable[[], object]) -> Callable[[], None]:
    """Return a function that does something the first time it is called."""
    todo = [act]

    def do() -> None:
        if todo:
            todo.pop()()

    return do


def kinds(lake: Lake) -> list[str]:
    return [change.kind.value for s in lake.snapshots() for change in parse_changes(s.changes)]


@pytest.mark.parametrize("rows", ["i = 5", "i < 15"], ids=["inlined delete", "delete file"])
def test_delete_of_a_source_meanwhile_is_not_lost(
    catalog: Catalog, lakes: tuple[Lake, Lake], oracle: Oracle, rows: str
) -> None:
    lake, other = lakes
    histories: list[Any] = []

    def meanwhile() -> None:
        other.delete("t", f"{rows} AND p = 'a'")
        histories.append(history_of(other))

    with at_fault("after_compaction_write", once(meanwhile)):
        [work] = lake.merge_adjacent_files("t").work

    assert (work.files_before, work.files_after) == (2, 1)  # those of the other partition
    assert "1 groups were changed meanwhile" in (work.skipped or "")
    check_history(lake, histories[0])
    check_lake(catalog)  # the file that came too late is gone
    oracle.attach(catalog.attach)
    assert oracle.query(f"SELECT count(*) FROM t WHERE {rows} AND p = 'a'") == [(0,)]


@pytest.mark.parametrize("limit", [0, 10], ids=["delete file", "inlined delete"])
def test_who_deletes_from_other_files_all_the_time_starves_no_merge(
    catalog: Catalog, lakes: tuple[Lake, Lake], oracle: Oracle, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    lake, other = lakes
    lake.set_option("data_inlining_row_limit", limit)
    other.forget()
    lake.append("t", {"i": list(range(300, 400)), "p": ["d"] * 100})
    rows, run = itertools.count(300), lake.committer.run
    histories: list[Any] = []

    def delete_and_run(commit: Commit) -> CommitResult:
        other.delete("t", f"i = {next(rows)}")
        histories.append(history_of(other))
        return run(commit)

    monkeypatch.setattr(lake.committer, "run", delete_and_run)
    [work] = lake.merge_adjacent_files("t").work

    assert (work.files_before, work.files_after, work.skipped, next(rows)) == (4, 2, None, 301)
    check_history(lake, histories[-1])
    check_lake(catalog)
    oracle.attach(catalog.attach)
    assert oracle.query("SELECT count(*) FROM t WHERE p = 'd'") == [(99,)]


def test_delete_of_a_source_before_each_attempt_wins_each_time(
    catalog: Catalog, lakes: tuple[Lake, Lake], monkeypatch: pytest.MonkeyPatch
) -> None:
    lake, other = lakes
    rows, run = iter(["i = 5 AND p = 'a'", "i = 6 AND p = 'b'"]), lake.committer.run
    deleted: list[str] = []

    def delete_and_run(commit: Commit) -> CommitResult:
        deleted.append(next(rows, "i = 7"))
        other.delete("t", deleted[-1])
        return run(commit)

    monkeypatch.setattr(lake.committer, "run", delete_and_run)
    [work] = lake.merge_adjacent_files("t").work

    assert (work.files_before, work.snapshot_id) == (0, None)
    assert [lake.table("t").count(rows) for rows in deleted] == [0] * len(deleted)
    check_lake(catalog)


def test_what_is_written_is_committed_before_much_more_is(
    catalog: Catalog, lakes: tuple[Lake, Lake], monkeypatch: pytest.MonkeyPatch
) -> None:
    lake, other = lakes
    monkeypatch.setattr(compaction, "PORTION_SECONDS", 0.0)
    portions = itertools.count()
    histories: list[Any] = []

    def meanwhile() -> None:
        if next(portions) == 1:  # of the second one
            other.delete("t", "i = 5 AND p = 'b'")
        histories.append(history_of(other))

    with at_fault("after_compaction_write", meanwhile):
        [work] = lake.merge_adjacent_files("t").work

    assert (work.files_before, work.files_after) == (2, 1)
    assert "1 groups were changed meanwhile" in (work.skipped or "")
    check_history(lake, histories[1])
    check_lake(catalog)


@pytest.mark.parametrize("size", [None, 3], ids=["gone", "cut off"])
def test_new_file_that_is_not_there_is_not_registered(
    catalog: Catalog, lakes: tuple[Lake, Lake], size: int | None
) -> None:
    """An upload was lost, or somebody has removed a file that no snapshot named yet."""
    lake, _ = lakes
    before, history = stored_files(catalog), history_of(lake)

    def lose() -> None:
        [path, *_] = sorted(Path(path) for path in stored_files(catalog) - before)
        path.unlink() if size is None else path.write_bytes(b"." * size)

    with at_fault("after_compaction_write", once(lose)):
        [work] = lake.merge_adjacent_files("t").work

    assert (work.files_before, work.files_after, work.skipped) == (2, 1, None)  # those of the other partition
    assert ("is not there any more" if size is None else "has 3 bytes in place of") in (work.error or "")
    check_history(lake, history)
    check_lake(catalog)
    assert lake.merge_adjacent_files("t").total.files_before == 2


def test_delete_of_a_rewritten_file_meanwhile_starts_over(catalog: Catalog, lakes: tuple[Lake, Lake]) -> None:
    lake, other = lakes
    with at_fault("after_compaction_write", once(lambda: other.delete("t", "i = 217"))):
        [work] = lake.rewrite_data_files("t", delete_threshold=0.5).work

    assert (work.files_before, work.rows, work.skipped) == (1, 4, None)
    assert lake.table("t").count("i >= 200") == 4
    check_lake(catalog)


@pytest.mark.parametrize(
    "act",
    [
        lambda lake: lake.append("t", {"i": [900], "p": ["a"]}),
        lambda lake: lake.flush_inlined("t"),
        lambda lake: lake.add_column("t", "x", "int64", 7),
        lambda lake: lake.set_comment("t", "a comment"),
    ],
    ids=["append", "flush", "add column", "comment"],
)
def test_other_changes_meanwhile_cost_nothing(catalog: Catalog, lakes: tuple[Lake, Lake], act: Any) -> None:
    lake, other = lakes
    written: list[int] = []
    histories: list[Any] = []

    def meanwhile() -> None:
        written.append(len(stored_files(catalog)))
        act(other)
        histories.append(history_of(other))

    with at_fault("after_compaction_write", meanwhile):
        [work] = lake.merge_adjacent_files("t").work

    assert (work.files_before, work.files_after, work.skipped) == (4, 2, None)
    assert len(written) == 1  # nothing was written twice
    check_history(lake, histories[0])
    check_lake(catalog)


def test_drop_meanwhile_is_reported(catalog: Catalog, lakes: tuple[Lake, Lake]) -> None:
    lake, other = lakes
    before = stored_files(catalog)
    with at_fault("after_compaction_write", once(lambda: other.drop_table("t"))):
        [work] = lake.merge_adjacent_files("t").work

    assert "dropped or renamed" in (work.skipped or "")
    assert stored_files(catalog) == before


def test_second_of_two_merges_yields(catalog: Catalog, lakes: tuple[Lake, Lake]) -> None:
    lake, other = lakes
    yielded: list[MaintenanceReport] = []
    with at_fault("after_compaction_write", once(lambda: yielded.append(other.merge_adjacent_files("t")))):
        [work] = lake.merge_adjacent_files("t").work

    assert "another process maintains this lake" in yielded[0].held_back[0]
    assert (yielded[0].work, work.files_before) == ((), 4)
    check_lake(catalog)


def test_two_merges_without_a_lease_do_the_work_once(catalog: Catalog, lakes: tuple[Lake, Lake]) -> None:
    lake, _ = lakes
    before = history_of(lake)
    with (
        Lake.open(catalog.url, clock=WHEN_LEASES_HAVE_RUN_OUT) as other,
        at_fault("after_compaction_write", once(lambda: other.merge_adjacent_files("t"))),
    ):
        [work] = lake.merge_adjacent_files("t").work

    assert (work.files_before, work.snapshot_id) == (0, None)
    assert kinds(lake).count("merge_adjacent") == 1
    check_history(lake, before)
    check_lake(catalog)


@pytest.mark.parametrize("maintain", ["merge_adjacent_files", "rewrite_data_files"])
@pytest.mark.parametrize("rows", ["i = 5 OR i = 216", "i < 15 OR i = 216"], ids=["inlined delete", "delete file"])
def test_our_delete_is_done_again_after_maintenance(
    catalog: Catalog, lakes: tuple[Lake, Lake], monkeypatch: pytest.MonkeyPatch, maintain: str, rows: str
) -> None:
    lake, other = lakes
    begin = Lake.transaction

    def transaction(self: Lake, **arguments: Any) -> Any:
        tx = begin(self, **arguments)
        monkeypatch.undo()
        getattr(other, maintain)("t", **({} if maintain.startswith("merge") else {"delete_threshold": 0.5}))
        return tx

    monkeypatch.setattr(Lake, "transaction", transaction)
    lake.delete("t", rows)

    assert lake.table("t").count(rows) == 0
    assert {"merge_adjacent", "rewrite_delete"} & set(kinds(lake))
    check_lake(catalog)


@pytest.mark.parametrize("make_catalog", ["postgres"], indirect=True)  # on SQLite it holds a lock that we wait for
@pytest.mark.parametrize("maintain", ["merge_adjacent_files", "rewrite_data_files"])
def test_small_delete_of_duckdb_that_meets_maintenance_is_refused_and_not_lost(
    catalog: Catalog, lakes: tuple[Lake, Lake], oracle: Oracle, maintain: str
) -> None:
    lake, _ = lakes
    oracle.attach(catalog.attach)
    oracle.execute("BEGIN; DELETE FROM t WHERE i IN (5, 216)")
    getattr(lake, maintain)("t", **({} if maintain.startswith("merge") else {"delete_threshold": 0.5}))

    with pytest.raises(OracleError, match="has flushed the inlined data"):
        oracle.execute("COMMIT")

    assert lake.table("t").count("i IN (5, 216)") == 3
    oracle.execute("DELETE FROM t WHERE i IN (5, 216)")
    assert lake.table("t").count("i IN (5, 216)") == 0
    assert lake.doctor(full=True) == []
    check_lake(catalog)


@pytest.mark.parametrize("make_catalog", ["postgres"], indirect=True)  # see above
def test_insert_of_duckdb_that_meets_maintenance_goes_in(
    catalog: Catalog, lakes: tuple[Lake, Lake], oracle: Oracle
) -> None:
    lake, _ = lakes
    oracle.attach(catalog.attach)
    for rows, i in ((1, 700), (100, 800)):
        lake.append("t", {"i": list(range(i + 1, i + 21)), "p": ["b"] * 20})
        oracle.execute(f"BEGIN; INSERT INTO t SELECT {i}, 'a' FROM range({rows})")
        assert lake.merge_adjacent_files("t").total.files_before
        oracle.execute("COMMIT")

    assert (lake.table("t").count("i = 700"), lake.table("t").count("i = 800")) == (1, 100)
    check_lake(catalog)


def test_files_of_a_commit_in_doubt_stay_though_a_conflict_follows(
    catalog: Catalog, lakes: tuple[Lake, Lake], monkeypatch: pytest.MonkeyPatch
) -> None:
    lake, _ = lakes
    before = set(stored_files(catalog))
    offers: list[Commit] = []

    def refuse(_: Committer, commit: Commit) -> None:
        """Do as a commit whose first COMMIT got no answer, and is pending still."""
        offers.append(commit)
        commit.in_doubt = True
        raise CommitConflict("a snapshot has expired")

    monkeypatch.setattr(Committer, "run", refuse)
    report = lake.merge_adjacent_files("t")

    assert "cannot find out whether the snapshot exists" in str(report.work[0].error)
    assert len(offers) == 1
    assert set(stored_files(catalog)) > before


def test_rows_read_before_a_merge_are_read_again(lakes: tuple[Lake, Lake]) -> None:
    lake, other = lakes
    read = lake.table("t")
    positions = RowPositions()
    positions.add_of_file(read.files()[0].data_file_id, np.array([3]))
    other.merge_adjacent_files("t")

    with lake.transaction() as tx, pytest.raises(CommitConflict, match="read them again") as refused:
        tx.end_rows("t", positions, read.snapshot.snapshot_id)

    assert refused.value.rows_moved


def test_file_that_is_merged_under_a_transaction_is_a_conflict(lakes: tuple[Lake, Lake]) -> None:
    """The merge takes it from the transaction's own base, too."""
    lake, other = lakes
    file = lake.table("t").files()[0]

    with lake.transaction() as tx:
        other.merge_adjacent_files("t")
        with pytest.raises(CommitConflict, match=f"data file {file.data_file_id} .*read them again") as refused:
            tx.delete_positions("t", file.data_file_id, [3])

    assert refused.value.rows_moved


@pytest.mark.parametrize("when", ["while files are written", "before the commit"])
def test_statistics_are_not_made_exact_when_rows_came_meanwhile(
    catalog: Catalog, lakes: tuple[Lake, Lake], monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    lake, other = lakes
    append = once(lambda: other.append("t", {"i": list(range(5000, 5020)), "p": ["c"] * 20}))
    run = lake.committer.run
    if when == "before the commit":
        monkeypatch.setattr(lake.committer, "run", lambda commit: (append(), run(commit))[1])

    with at_fault("after_compaction_write", append if when == "while files are written" else lambda: None):
        lake.rewrite_data_files("t", delete_threshold=0.5)

    bounds = catalog.query("SELECT min_value, max_value FROM ducklake_table_column_stats WHERE column_id = 1")
    assert bounds == [("0", "5019")]


def test_table_that_others_change_again_and_again_is_left_with_the_reason(
    catalog: Catalog, lakes: tuple[Lake, Lake]
) -> None:
    lake, other = lakes
    rows = iter(range(215, 220))

    def meanwhile() -> None:
        other.delete("t", f"i = {next(rows)}")

    with at_fault("after_compaction_write", meanwhile):
        [work] = lake.rewrite_data_files("t", delete_threshold=0.5).work

    assert "others changed it again and again" in (work.skipped or "")
    assert lake.table("t").count("i >= 200") == 2
    check_lake(catalog)


def test_delete_between_a_look_and_the_listing_is_not_lost(
    catalog: Catalog, lakes: tuple[Lake, Lake], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A delete file keeps its first snapshot when it is replaced: the older snapshot lists the newer deletes."""
    lake, other = lakes
    lake.set_option("data_inlining_row_limit", 0)
    lake.create_table("u", {"i": "int64"})
    lake.append("u", {"i": list(range(100))})
    lake.delete("u", "i < 50")
    look, looks = compact_all._look, itertools.count()

    def look_and_lose_time(lake: Lake, name: str) -> TableAt:
        found = look(lake, name)
        if next(looks) == 1:  # the first is for a table that is not there
            other.delete("u", "i = 60")
        return found

    monkeypatch.setattr(compact_all, "_look", look_and_lose_time)
    [work] = lake.rewrite_data_files("u", delete_threshold=0.3).work

    assert work.rows == 49
    assert sorted(lake.table("u").read()["i"].to_pylist()) == [i for i in range(50, 100) if i != 60]
    check_lake(catalog)


def test_promotion_beside_a_merge_is_a_conflict(lakes: tuple[Lake, Lake]) -> None:
    """It rewrites the bounds of files: those that the merge made would keep texts of the old type."""
    lake, other = lakes
    lake.set_option("data_inlining_row_limit", 0)
    lake.create_table("u", {"f": "float32"})
    for _ in range(2):
        lake.append("u", pa.table({"f": pa.array([1.1], pa.float32())}))
    tx = lake.transaction()
    tx.promote_column("u", "f", "float64")
    other.merge_adjacent_files("u")

    with pytest.raises(CommitConflict, match="had its files merged"):
        tx.commit()


def test_flush_beside_an_expiry_is_done_again(catalog: Catalog, oracle: Oracle) -> None:
    with Lake.create(catalog.url, catalog.data_path) as lake, Lake.open(catalog.url) as other:
        lake.create_table("t", {"i": "int64"})
        lake.append("t", {"i": [1, 2, 3]})
        lake.delete("t", "i = 1")
        lake.append("t", {"i": [4]})
        with at_fault("after_flush_write", once(lambda: other.expire_snapshots(keep_last=1))):
            assert lake.flush_inlined("t").rows == 3

    oracle.attach(catalog.attach)
    assert oracle.query("SELECT i FROM t ORDER BY i") == [(2,), (3,), (4,)]
