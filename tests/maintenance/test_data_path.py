"""No clean-up works where a lake's files may not be: what is not there must not be forgotten, nor others' files go."""

from pathlib import Path

import pyarrow as pa
import pytest

from ducklake_core import Lake
from tests.fixtures.catalogs import Catalog, MakeCatalog
from tests.fixtures.databases import run

SCHEDULED = "SELECT count(*) FROM ducklake_files_scheduled_for_deletion"


@pytest.fixture(autouse=True)
def _lake(catalog: Catalog) -> None:
    """Make a lake with a file that is alive, and one that is scheduled for deletion."""
    with Lake.create(catalog.url, catalog.data_path) as lake:
        lake.create_table("t", {"i": "int64"})
        lake.append("t", pa.table({"i": range(50)}))
        lake.delete("t", None)
        lake.append("t", pa.table({"i": range(50)}))
        lake.expire_snapshots(keep_last=1)


def held_back(lake: Lake) -> list[str]:
    reports = lake.cleanup_old_files(cleanup_all=True), lake.delete_orphaned_files(cleanup_all=True, dry_run=False)
    assert [report.paths for report in reports] == [(), ()]
    return [reason for report in reports for reason in report.held_back]


def test_nothing_is_forgotten_while_the_data_path_is_not_mounted(catalog: Catalog, tmp_path: Path) -> None:
    Path(catalog.data_path).rename(tmp_path / "away")

    with Lake.open(catalog.url) as lake:
        assert [f"'{catalog.data_path}' does not exist: mount it" in reason for reason in held_back(lake)] == [True] * 2
    assert catalog.query(SCHEDULED) == [(1,)]


def test_a_relative_data_path_has_to_be_named(
    catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"{Path(catalog.data_path).name}/"
    run(catalog, f"UPDATE ducklake_metadata SET value = '{name}' WHERE key = 'data_path'")
    others = tmp_path / "elsewhere" / name / "main/t/x.parquet"
    others.parent.mkdir(parents=True)
    others.touch()
    monkeypatch.chdir(tmp_path / "elsewhere")

    with Lake.open(catalog.url) as lake:
        assert ["say where its files are, by data_path=" in reason for reason in held_back(lake)] == [True] * 2
    assert (others.exists(), catalog.query(SCHEDULED)) == (True, [(1,)])

    with Lake.open(catalog.url, data_path=catalog.data_path, override_data_path=True) as lake:
        assert len(lake.cleanup_old_files(cleanup_all=True).paths) == 1


def test_a_lake_that_never_had_files_needs_no_directory(make_catalog: MakeCatalog) -> None:
    beside = make_catalog()
    with Lake.create(beside.url, f"{beside.data_path}new/") as lake:
        assert held_back(lake) == []
