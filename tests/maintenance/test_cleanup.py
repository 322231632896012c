"""Which files clean-ups remove, which they never do, and what happens when they fail in the middle."""

import os
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from time import time
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ducklake_core import Lake
from ducklake_core.errors import InvalidInput, UnreadableFile
from ducklake_core.files.storage import Storage
from ducklake_core.maintenance import removal
from ducklake_core.maintenance.report import MaintenanceReport
from tests.fixtures.catalogs import Catalog, MakeCatalog
from tests.fixtures.consistency import stored_files
from tests.fixtures.databases import run
from tests.fixtures.faults import at_fault
from tests.fixtures.oracle import Oracle

MANY = pa.table({"i": range(50)})
SCHEDULED = "SELECT path FROM ducklake_files_scheduled_for_deletion"


@pytest.fixture
def lake(catalog: Catalog) -> Iterator[Lake]:
    """Give a lake with a file that is alive, and two that are scheduled for deletion."""
    with Lake.create(catalog.url, catalog.data_path) as lake:
        lake.create_table("t", {"i": "int64"})
        lake.append("t", MANY)
        lake.append("t", MANY)
        lake.delete("t", None)
        lake.append("t", MANY)
        lake.expire_snapshots(keep_last=1)
        yield lake


# ---- files that were scheduled


def test_scheduled_files_are_removed_and_forgotten(lake: Lake, catalog: Catalog) -> None:
    assert len(stored_files(catalog)) == 3

    looked = lake.cleanup_old_files(cleanup_all=True, dry_run=True)
    assert len(stored_files(catalog)) == 3
    done = lake.cleanup_old_files(cleanup_all=True)

    assert looked.paths == done.paths
    assert len(done.paths) == done.total.files_before == 2
    assert len(stored_files(catalog)) == 1
    assert catalog.query(SCHEDULED) == []
    assert lake.table("t").count() == 50


def test_files_are_kept_for_two_days_by_default(lake: Lake, catalog: Catalog) -> None:
    assert lake.cleanup_old_files().paths == ()
    assert lake.cleanup_old_files(older_than="1h").paths == ()
    lake.set_option("delete_older_than", "0 seconds")

    assert len(lake.cleanup_old_files().paths) == 2
    assert catalog.query(SCHEDULED) == []


def test_a_file_that_is_gone_already_is_forgotten(lake: Lake, catalog: Catalog) -> None:
    [(path,), _] = catalog.query(SCHEDULED)
    (Path(catalog.data_path) / path).unlink()

    report = lake.cleanup_old_files(cleanup_all=True)

    assert not report.has_failed
    assert catalog.query(SCHEDULED) == []


def test_a_file_that_cannot_be_removed_is_kept_for_the_next_run(
    lake: Lake, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    [(stuck,), _] = catalog.query(SCHEDULED)
    remove = Storage.remove

    def refuse(storage: Storage, path: str) -> None:
        if path.endswith(stuck):
            raise UnreadableFile(f"cannot open file '{path}': not today", path=path)
        remove(storage, path)

    with monkeypatch.context() as patched:
        patched.setattr(Storage, "remove", refuse)
        report = lake.cleanup_old_files(cleanup_all=True)

    assert report.has_failed
    assert "1 files could not be removed" in str(report.work[0].error)
    assert catalog.query(SCHEDULED) == [(stuck,)]
    assert len(lake.cleanup_old_files(cleanup_all=True).paths) == 1
    assert catalog.query(SCHEDULED) == []


def test_who_dies_after_the_removal_leaves_rows_that_the_next_run_forgets(lake: Lake, catalog: Catalog) -> None:
    with at_fault("files_removed", _die), pytest.raises(KeyboardInterrupt):
        lake.cleanup_old_files(cleanup_all=True)
    assert len(catalog.query(SCHEDULED)) == 2
    assert len(stored_files(catalog)) == 1

    lake.cleanup_old_files(cleanup_all=True)

    assert catalog.query(SCHEDULED) == []


def test_a_file_that_is_registered_again_stays(lake: Lake, catalog: Catalog, oracle: Oracle) -> None:
    [(path,), (other,)] = sorted(catalog.query(SCHEDULED))
    oracle.attach(catalog.attach)
    oracle.execute(f"CALL ducklake_add_data_files('lake', 't', '{catalog.data_path}{path}')")

    report = lake.cleanup_old_files(cleanup_all=True)

    assert [Path(p).name for p in report.paths] == [Path(other).name]
    assert report.held_back[0].startswith("registered again, so not removed: ")
    assert lake.table("t").count() == 100


def test_a_file_outside_of_the_data_path_goes_only_by_its_name(
    lake: Lake, catalog: Catalog, oracle: Oracle, tmp_path: Path
) -> None:
    given = tmp_path / "given.parquet"
    pq.write_table(pa.table({"i": [1]}), given)
    oracle.attach(catalog.attach)
    oracle.execute("CREATE TABLE u (i BIGINT)")
    oracle.execute(f"CALL ducklake_add_data_files('lake', 'u', '{given}')")
    oracle.execute("DROP TABLE u")
    lake.expire_snapshots(keep_last=1)

    report = lake.cleanup_old_files(cleanup_all=True)

    assert given.exists()
    assert report.held_back == (f"outside of the data path, so not removed unless named: '{given}'",)
    assert catalog.query(SCHEDULED) == [(str(given),)]
    lake.cleanup_old_files(cleanup_all=True, also_remove=[str(given)])
    assert not given.exists()
    assert catalog.query(SCHEDULED) == []


def test_a_path_that_goes_up_again_is_outside(lake: Lake, catalog: Catalog, tmp_path: Path) -> None:
    victim = tmp_path / "victim.parquet"
    victim.touch()
    run(catalog, "UPDATE ducklake_files_scheduled_for_deletion SET path = 'main/../../victim.parquet'")

    assert lake.cleanup_old_files(cleanup_all=True).paths == ()
    assert victim.exists()


def test_files_that_were_scheduled_meanwhile_are_not_forgotten(lake: Lake, catalog: Catalog) -> None:
    def schedule_another() -> None:
        [(first,)] = catalog.query("SELECT min(data_file_id) FROM ducklake_files_scheduled_for_deletion")
        run(
            catalog,
            "INSERT INTO ducklake_files_scheduled_for_deletion SELECT "
            f"{first}, 'main/t/late.parquet', path_is_relative, schedule_start"
            f" FROM ducklake_files_scheduled_for_deletion WHERE data_file_id = {first}",
        )

    with at_fault("files_removed", schedule_another):
        lake.cleanup_old_files(cleanup_all=True)

    assert ("main/t/late.parquet",) in catalog.query(SCHEDULED)


# ---- orphans


def orphan(catalog: Catalog, name: str = "main/t/ducklake-orphan.parquet", days: float = 10) -> Path:
    path = Path(catalog.data_path) / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"1234")
    os.utime(path, (time() - 86400 * days,) * 2)
    return path


def removed(report: MaintenanceReport) -> list[str]:
    return sorted(Path(path).name for path in report.paths)


def test_orphans_are_named_by_default_and_removed_when_asked_for(lake: Lake, catalog: Catalog) -> None:
    path = orphan(catalog)

    looked = lake.delete_orphaned_files(older_than="1d")
    assert path.exists()
    done = lake.delete_orphaned_files(older_than="1d", dry_run=False)

    assert looked.paths == done.paths == (str(path),)
    assert done.total.bytes_before == 4
    assert not path.exists()
    assert lake.table("t").count() == 50


def test_only_parquet_files_of_some_age_are_orphans(lake: Lake, catalog: Catalog) -> None:
    orphan(catalog, "main/t/notes.txt")
    orphan(catalog, "main/t/marks.puffin")
    orphan(catalog, "main/t/young.parquet", days=0.5)
    orphan(catalog, "dropped/u/p=1/old-delete.parquet", days=1.5)

    assert removed(lake.delete_orphaned_files(older_than="1d", dry_run=False)) == ["old-delete.parquet"]


def test_nothing_that_a_commit_under_way_may_need_is_removed(lake: Lake, catalog: Catalog) -> None:
    orphan(catalog, days=0.01)

    report = lake.delete_orphaned_files(older_than=timedelta(seconds=1), dry_run=False)

    assert report.paths == ()
    assert report.held_back[0].startswith("younger than 1:00:00, so a commit under way may need them")
    assert len(lake.delete_orphaned_files(cleanup_all=True, dry_run=False).paths) == 1


def test_known_files_are_never_orphans(lake: Lake, catalog: Catalog, oracle: Oracle) -> None:
    lake.append("t", MANY)
    lake.set_option("data_inlining_row_limit", 0)
    lake.delete("t", "i < 5")
    lake.create_table("odd name", {"i": "int64"})
    lake.append('"odd name"', MANY)
    oracle.attach(catalog.attach)
    oracle.execute("CREATE TABLE p (i BIGINT, k VARCHAR); ALTER TABLE p SET PARTITIONED BY (k)")
    oracle.execute("INSERT INTO p SELECT i, 'a/b ' || i % 2 FROM range(50) r(i); ALTER TABLE p RENAME TO q")
    given = orphan(catalog, "main/t/given.parquet")
    pq.write_table(pa.table({"i": [1]}), given)
    detour = f"{catalog.data_path}../{Path(catalog.data_path).name}/main/t/given.parquet"
    oracle.execute(f"CALL ducklake_add_data_files('lake', 't', '{detour}')")
    before = stored_files(catalog)

    report = lake.delete_orphaned_files(cleanup_all=True, dry_run=False)

    assert report.paths == ()
    assert stored_files(catalog) == before


def test_what_a_link_leads_to_is_no_orphan(lake: Lake, catalog: Catalog, tmp_path: Path) -> None:
    outside = tmp_path / "outside" / "x.parquet"
    outside.parent.mkdir()
    outside.touch()
    top = Path(catalog.data_path)
    (top / "away").symlink_to(outside.parent)
    (top / "again").symlink_to(top / "main")
    (top / "x.parquet").symlink_to(outside)
    before = stored_files(catalog)

    assert lake.delete_orphaned_files(cleanup_all=True, dry_run=False).paths == ()
    assert stored_files(catalog) == before
    assert outside.exists()


@pytest.mark.parametrize("start", ["./", "../t/"])
def test_a_relative_path_that_is_written_otherwise_is_known(lake: Lake, catalog: Catalog, start: str) -> None:
    run(catalog, f"UPDATE ducklake_data_file SET path = '{start}' || path")

    assert lake.delete_orphaned_files(cleanup_all=True, dry_run=False).paths == ()
    assert lake.table("t").count() == 50


def test_a_file_that_was_registered_meanwhile_stays(lake: Lake, catalog: Catalog) -> None:
    orphan(catalog)

    with at_fault("orphans_found", lambda: _register(catalog, "ducklake-orphan.parquet")):
        report = lake.delete_orphaned_files(older_than="1d", dry_run=False)

    assert report.paths == ()


def test_a_file_that_was_registered_while_others_were_removed_stays(
    lake: Lake, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(removal, "BATCH_FILES", 1)
    orphan(catalog, "main/t/a.parquet")
    late = orphan(catalog, "main/t/b.parquet")
    names = ["b.parquet"]

    with at_fault("files_removed", lambda: _register(catalog, names.pop()) if names else None):
        report = lake.delete_orphaned_files(older_than="1d", dry_run=False)

    assert removed(report) == ["a.parquet"]
    assert late.exists()


def test_files_of_a_lake_beside_ours_stay(lake: Lake, catalog: Catalog, make_catalog: MakeCatalog) -> None:
    """On PostgreSQL the other one is in another schema, on SQLite in another file."""
    url = catalog.url if catalog.name == "postgres" else make_catalog().url
    schema = "other" if catalog.name == "postgres" else None
    with Lake.create(url, catalog.data_path, metadata_schema=schema) as other:
        other.create_table("v", {"i": "int64"})
        other.append("v", MANY)
        path = orphan(catalog)

        report = lake.delete_orphaned_files(cleanup_all=True, dry_run=False)

        assert report.paths == (str(path),)
        assert other.table("v").read().num_rows == 50


def test_files_of_a_lake_that_reaches_our_data_path_by_a_link_stay(
    lake: Lake, catalog: Catalog, make_catalog: MakeCatalog, tmp_path: Path
) -> None:
    (tmp_path / "link").symlink_to(catalog.data_path)
    url = catalog.url if catalog.name == "postgres" else make_catalog().url
    schema = "other" if catalog.name == "postgres" else None
    with Lake.create(url, f"{tmp_path}/link/inner", metadata_schema=schema) as other:
        other.create_table("v", {"i": "int64"})
        other.append("v", MANY)
        orphan(catalog, "inner/x.parquet")

        assert lake.delete_orphaned_files(cleanup_all=True, dry_run=False).paths == ()
        assert other.table("v").read().num_rows == 50


def test_files_of_a_lake_with_a_relative_data_path_stay_wherever_we_are(
    lake: Lake, catalog: Catalog, make_catalog: MakeCatalog
) -> None:
    beside = make_catalog() if catalog.name == "sqlite" else catalog
    schema = "other" if catalog.name == "postgres" else None
    with Lake.create(beside.url, catalog.data_path, metadata_schema=schema) as other:
        other.create_table("v", {"i": "int64"})
        other.append("v", MANY)
        table = "ducklake_metadata" if schema is None else "other.ducklake_metadata"
        run(beside, f"UPDATE {table} SET value = 'data1/' WHERE key = 'data_path'")

        assert lake.delete_orphaned_files(cleanup_all=True, dry_run=False).paths == ()
        assert other.table("v").read().num_rows == 50


@pytest.mark.parametrize("make_catalog", ["sqlite"], indirect=True)
def test_a_file_beside_ours_that_nobody_lets_us_read_keeps_all(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    secret, opened = tmp_path / "secret.sqlite", Path.open
    secret.write_bytes(b"no catalog" * 100)  # SQLite cannot read it, either, whoever runs this test

    def refuse(path: Path, *arguments: Any, **named: Any) -> Any:
        if path == secret:
            raise PermissionError
        return opened(path, *arguments, **named)

    monkeypatch.setattr(Path, "open", refuse)

    assert "secret.sqlite', may keep files here and cannot be read" in lake.cleanup_old_files(older_than=0).held_back[0]


def test_the_data_path_of_a_lake_inside_ours_is_left_alone(
    lake: Lake, catalog: Catalog, make_catalog: MakeCatalog
) -> None:
    url = catalog.url if catalog.name == "postgres" else make_catalog().url
    schema = "other" if catalog.name == "postgres" else None
    Lake.create(url, f"{catalog.data_path}inner/", metadata_schema=schema).close()
    orphan(catalog, "inner/main/t/x.parquet")

    assert lake.delete_orphaned_files(cleanup_all=True).paths == ()


def test_a_lake_beside_ours_that_cannot_be_read_keeps_all(
    lake: Lake, catalog: Catalog, make_catalog: MakeCatalog
) -> None:
    beside = make_catalog() if catalog.name == "sqlite" else catalog
    schema = "other" if catalog.name == "postgres" else None
    Lake.create(beside.url, catalog.data_path, metadata_schema=schema).close()
    table = "ducklake_metadata" if schema is None else "other.ducklake_metadata"
    run(beside, f"UPDATE {table} SET value = '0.2' WHERE key = 'version'")
    orphan(catalog)

    for report in (lake.delete_orphaned_files(cleanup_all=True), lake.cleanup_old_files(cleanup_all=True)):
        assert report.paths == ()
        assert "may keep files here and cannot be read" in report.held_back[0]


def test_nonsense_is_refused(lake: Lake) -> None:
    with pytest.raises(InvalidInput, match="older_than is 'x'"):
        lake.delete_orphaned_files(older_than="x")
    with pytest.raises(InvalidInput, match="older_than is 'x'"):
        lake.cleanup_old_files(older_than="x")


def test_every_age_and_some_age_are_not_asked_for_together(lake: Lake, catalog: Catalog) -> None:
    before = stored_files(catalog)

    with pytest.raises(InvalidInput, match="cleanup_all takes files of every age, and older_than is '7d'"):
        lake.cleanup_old_files(older_than="7d", cleanup_all=True)
    with pytest.raises(InvalidInput, match="cleanup_all"):
        lake.delete_orphaned_files(older_than="7d", cleanup_all=True, dry_run=False)
    assert stored_files(catalog) == before


def _die() -> None:
    raise KeyboardInterrupt


def _register(catalog: Catalog, path: str) -> None:
    columns = catalog.columns()["ducklake_data_file"]
    changed = {"data_file_id": "data_file_id + 1000", "path": f"'{path}'"}
    values = ", ".join(changed.get(column, column) for column in columns)
    run(catalog, f"INSERT INTO ducklake_data_file SELECT {values} FROM ducklake_data_file")
