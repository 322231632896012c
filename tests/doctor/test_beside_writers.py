"""The doctor beside those who write: he repairs what they have not changed meanwhile, and blames nobody for tidying."""

from pathlib import Path
from threading import Lock

import pytest

from ducklake_core import Lake
from ducklake_core.catalog.checks import listing, repair_commit
from ducklake_core.files.storage import Storage
from ducklake_core.maintenance.doctor.table_checks import TableExam
from ducklake_core.maintenance.report import MaintenanceReport
from tests.fixtures.broken_lakes import FILES, PLANTS, Healthy, fill, rows
from tests.fixtures.catalogs import Catalog, PostgresCatalog
from tests.fixtures.postgres import PostgresDatabase


def test_a_commit_beside_the_repair_keeps_its_rows_and_its_row_ids(
    postgres_database: PostgresDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one has read the stale counter, and commits between the repair's look and its write."""
    catalog = PostgresCatalog(postgres_database, f"{tmp_path}/data/")
    with Lake.create(catalog.url, catalog.data_path) as lake, Lake.open(catalog.url) as other:
        fill(lake)
        healthy = Healthy(lake, catalog)
        PLANTS["stale-next-file-id"][0](healthy)
        healthy.run("UPDATE ducklake_snapshot SET next_file_id = 100 WHERE snapshot_id = 1")
        look, looks = repair_commit._next_snapshot, []

        def look_and_wait(*arguments: object) -> object:
            looks.append(arguments)
            if len(looks) == 1:
                other.append("inlined", rows(1000, 1003))
            return look(*arguments)  # type: ignore[arg-type] # whatever it was called with

        monkeypatch.setattr(repair_commit, "_next_snapshot", look_and_wait)
        [finding] = lake.doctor(repair=True)

        assert finding.repaired is not None
        assert len(looks) == 2
        assert lake.doctor(full=True) == []
        assert lake.table("inlined").count("i >= 1000") == 3
        assert healthy.number("SELECT max(next_file_id) FROM ducklake_snapshot") == 101


def test_files_that_are_merged_and_removed_meanwhile_are_no_findings(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Lake.create(catalog.url, catalog.data_path) as lake:
        fill(lake)
        healthy = Healthy(lake, catalog)
        gone = healthy.file_of(FILES, 1)
        path, find, lock = healthy.path_of(gone), Storage.find_size, Lock()

        def take_away(storage: Storage, asked: str) -> int | None:
            """Do what a merge and a cleanup do, when the doctor has listed the files already."""
            with lock:
                if path.exists():
                    path.unlink()
                    healthy.run(f"DELETE FROM ducklake_data_file WHERE data_file_id = {gone}")
            return find(storage, asked)

        monkeypatch.setattr(Storage, "find_size", take_away)
        assert lake.doctor() == []


@pytest.mark.parametrize("limit", [0, 10])
def test_our_own_maintenance_leaves_a_healthy_lake(catalog: Catalog, limit: int) -> None:
    with Lake.create(catalog.url, catalog.data_path) as lake:
        fill(lake)
        lake.set_option("data_inlining_row_limit", limit)
        for start in (300, 400, 500):
            lake.append("files", rows(start, start + 100))
            lake.update("files", {"s": "updated"}, f"i = {start + 7}")
        lake.delete("mixed", "i = 4")
        for tidy in (
            lake.merge_adjacent_files,
            lambda: lake.rewrite_data_files(delete_threshold=0.0),
            lake.flush_inlined,
            lake.merge_adjacent_files,
            lambda: lake.expire_snapshots(keep_last=1, older_than=0),
            lambda: lake.cleanup_old_files(cleanup_all=True),
        ):
            tidy()
            assert lake.doctor(full=True) == []


def test_rows_that_are_merged_while_they_are_read_share_no_row_ids(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Lake.create(catalog.url, catalog.data_path) as lake:
        lake.create_table("t", {"i": "int64", "s": "varchar"})
        for start in (0, 100, 200):
            lake.append("t", rows(start, start + 100))
        monkeypatch.setattr(listing, "PAGE", 1)
        read = TableExam.look_at_files
        merged: list[MaintenanceReport] = []

        def read_and_merge(exam: TableExam, file_ids: list[int]) -> None:
            read(exam, file_ids)
            if not merged:
                merged.append(lake.merge_adjacent_files("t"))

        monkeypatch.setattr(TableExam, "look_at_files", read_and_merge)
        assert lake.doctor(full=True) == []
        assert merged[0].total.files_before == 3
