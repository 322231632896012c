"""Files are written while no transaction on the catalog is open: storage may be slow, and others want to commit."""

import sqlite3
from contextlib import closing

import pytest

from ducklake_core import Lake
from ducklake_core.errors import ContentionError
from tests.fixtures.catalogs import Catalog, PostgresCatalog
from tests.fixtures.consistency import check_lake
from tests.fixtures.faults import at_fault
from tests.fixtures.patience import patience_for


def is_somebody_in_a_transaction(catalog: Catalog) -> bool:
    """Tell whether a client holds a lock of the catalog, or only a transaction."""
    if isinstance(catalog, PostgresCatalog):
        return catalog.query("SELECT pid FROM pg_stat_activity WHERE state LIKE 'idle in transaction%'") != []
    with closing(sqlite3.connect(catalog.path, timeout=0, isolation_level=None)) as connection:
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return True
        return False


@pytest.fixture
def lake(catalog: Catalog) -> Lake:
    """Give a lake whose table has a delete file: the next one merges with it, and names its snapshot."""
    lake = Lake.create(catalog.url, catalog.data_path)
    lake.create_table("t", {"id": "int64"})
    lake.append("t", {"id": list(range(100))})
    lake.delete("t", "id < 30")
    return lake


@pytest.mark.parametrize(("rivals", "writes"), [(1, 2), (3, 6)])  # the third time for several of the next ids
def test_delete_files_of_a_rebased_delete_are_written_without_a_lock(
    catalog: Catalog, lake: Lake, rivals: int, writes: int
) -> None:
    written: list[bool] = []

    def beat() -> None:
        written.append(is_somebody_in_a_transaction(catalog))
        if len(written) <= rivals and not written[-1]:
            with Lake.open(catalog.url) as rival:
                rival.append("t", {"id": [1000 + len(written)]})

    with lake, at_fault("after_delete_file_write", beat):
        lake.delete("t", "id < 60")

        assert written == [False] * writes
        assert sorted(lake.table("t").read()["id"].to_pylist()) == [*range(60, 100), *range(1001, 1001 + rivals)]
        assert lake.table("t", at=3).count() == 70
    check_lake(catalog)


def test_delete_that_never_meets_the_id_its_files_name_gives_up_and_leaves_nothing(
    catalog: Catalog, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ducklake_core.catalog.committer._STAGED_IDS", (1, 1, 1))
    lake.database.patience = patience_for(1)

    def beat() -> None:
        with Lake.open(catalog.url) as rival:
            rival.append("t", {"id": [1000]})

    with lake, at_fault("after_delete_file_write", beat):
        with pytest.raises(ContentionError, match="delete files had been written"):
            lake.delete("t", "id < 60")

        assert lake.table("t").count() == 74
    check_lake(catalog)


def test_delete_meets_its_id_beside_others_that_commit_as_often_as_it_writes_two_files(
    catalog: Catalog, lake: Lake
) -> None:
    written: list[int] = []

    def beat() -> None:
        written.append(1)
        if len(written) < 4 or len(written) % 2:
            with Lake.open(catalog.url) as rival:
                rival.append("t", {"id": [1000 + len(written)]})

    lake.database.patience = patience_for(1)
    with lake, at_fault("after_delete_file_write", beat):
        lake.delete("t", "id < 60")

        assert lake.table("t", at=3).count() == 70
        assert [i for i in lake.table("t").read()["id"].to_pylist() if i < 100] == [*range(60, 100)]
    check_lake(catalog)


@pytest.mark.parametrize("make_catalog", ["postgres"], indirect=True)
def test_others_commit_while_many_rows_are_on_their_way(catalog: Catalog, lake: Lake) -> None:
    """COPY comes before the snapshot's row, which is what others would wait for."""
    rivals: list[int] = []

    def commit_beside() -> None:
        if not rivals:
            rivals.append(1000)
            with Lake.open(catalog.url) as rival:
                rival.append("t", {"id": rivals})

    with lake:
        lake.set_option("data_inlining_row_limit", 1000)
        with at_fault("before_commit", commit_beside):
            lake.append("t", {"id": list(range(2000, 2500))})

        assert sorted(lake.table("t").read()["id"].to_pylist()) == [*range(30, 100), 1000, *range(2000, 2500)]
    check_lake(catalog)
