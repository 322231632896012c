"""What a lake remembers of its last commit is used only while the head is that commit's snapshot, to the letter."""

import shutil
from pathlib import Path

import pytest

from ducklake_core import Lake
from ducklake_core.clock import Clock
from ducklake_core.errors import StreamFenced
from ducklake_core.model import Epoch
from tests.fixtures.catalogs import Catalog, SqliteCatalog
from tests.fixtures.consistency import check_lake
from tests.fixtures.databases import run


@pytest.fixture
def catalog_in_use(catalog: Catalog) -> Catalog:
    with Lake.create(catalog.url, catalog.data_path) as lake:
        lake.create_table("t", {"id": "int64"})
    return catalog


def test_row_ids_and_bounds_go_on_where_another_has_left_them(catalog_in_use: Catalog) -> None:
    with Lake.open(catalog_in_use.url) as lake, Lake.open(catalog_in_use.url) as other:
        append_three(lake)
        other.append("t", {"id": [-50, 900]})

        lake.append("t", {"id": [7]})

    assert bounds(catalog_in_use) == [("-50", "900")]
    assert row_ids(catalog_in_use) == list(range(6))
    check_lake(catalog_in_use)


def test_deletes_and_definitions_of_our_own_come_between(catalog_in_use: Catalog) -> None:
    with Lake.open(catalog_in_use.url) as lake:
        append_three(lake)
        lake.delete("t", "id = 1")
        lake.append("t", {"id": [10]})
        lake.add_column("t", "name", "varchar")
        append_three(lake, name="x")
        lake.promote_column("t", "id", "int128")
        append_three(lake, name="y")

        assert lake.table("t").count() == 9
    [(count, next_row_id)] = catalog_in_use.query("SELECT record_count, next_row_id FROM ducklake_table_stats")
    assert (count, next_row_id) == (10, 10)
    assert bounds(catalog_in_use) == [("0", "10"), *bounds(catalog_in_use)[1:]]
    check_lake(catalog_in_use)


def test_a_flush_of_our_own_comes_between(catalog_in_use: Catalog) -> None:
    with Lake.open(catalog_in_use.url) as lake:
        lake.create_table("u", {"id": "int64"})
        append_three(lake)
        [(before,)] = catalog_in_use.query("SELECT file_size_bytes FROM ducklake_table_stats WHERE table_id = 1")
        lake.flush_inlined("t")
        [(flushed,)] = catalog_in_use.query("SELECT file_size_bytes FROM ducklake_table_stats WHERE table_id = 1")
        lake.append("u", {"id": [1]})

        lake.append("t", {"id": [10]})

    [(after,)] = catalog_in_use.query("SELECT file_size_bytes FROM ducklake_table_stats WHERE table_id = 1")
    assert before < flushed == after
    assert row_ids(catalog_in_use) == [3]
    check_lake(catalog_in_use)


def test_a_head_of_the_same_id_after_a_restore_is_another_one(tmp_path: Path) -> None:
    path, backup = tmp_path / "lake.sqlite", tmp_path / "backup.sqlite"
    with Lake.create(f"sqlite:///{path}", f"{tmp_path}/data") as lake:
        lake.create_table("t", {"id": "int64"})
        shutil.copy(path, backup)
        append_three(lake)
        lake.close()
        shutil.copy(backup, path)
        with Lake.open(f"sqlite:///{path}") as other:
            for _ in range(3):
                other.append("t", {"id": [500, 600]})

        lake.append("t", {"id": [7]})

        assert sorted(lake.table("t").read()["id"].to_pylist()) == [7, 500, 500, 500, 600, 600, 600]
    catalog = SqliteCatalog(path, f"{tmp_path}/data/")
    assert row_ids(catalog) == list(range(7))
    assert bounds(catalog) == [("7", "600")]


def test_a_head_that_only_looks_the_same_after_a_restore_is_read_anew(tmp_path: Path) -> None:
    """Clocks that are behind that of the head give its time to every snapshot, whoever makes it."""
    path, backup = tmp_path / "lake.sqlite", tmp_path / "backup.sqlite"
    with Lake.create(f"sqlite:///{path}", f"{tmp_path}/data") as lake:
        lake.create_table("t", {"id": "int64"})
        lake.append("t", {"id": [0]})
        time = lake.snapshots()[-1].snapshot_time
    behind = Clock(now=lambda: time)
    with Lake.open(f"sqlite:///{path}", clock=behind) as lake:
        shutil.copy(path, backup)
        append_three(lake)
        lake.close()
        shutil.copy(backup, path)
        with Lake.open(f"sqlite:///{path}", clock=behind) as other:
            for _ in range(3):
                other.append("t", {"id": [500, 600]})

        lake.append("t", {"id": [7]})

    assert row_ids(SqliteCatalog(path, f"{tmp_path}/data/")) == list(range(8))


def test_a_head_with_another_time_is_read_anew(catalog_in_use: Catalog) -> None:
    """As after a restore from a backup in which another has made as many snapshots since."""
    with Lake.open(catalog_in_use.url) as lake:
        append_three(lake)
        run(catalog_in_use, "UPDATE ducklake_snapshot SET snapshot_time = '2001-01-01 00:00:00+00'")
        run(catalog_in_use, "UPDATE ducklake_table_stats SET next_row_id = 90")
        lake.forget()

        lake.append("t", {"id": [7]})

    assert row_ids(catalog_in_use) == [0, 1, 2, 90]


def test_snapshot_ids_that_have_expired_are_not_taken_again(catalog_in_use: Catalog) -> None:
    with Lake.open(catalog_in_use.url) as lake, Lake.open(catalog_in_use.url) as other:
        append_three(lake)
        [expired, head] = [other.append("t", {"id": [i]}) for i in (8, 9)]
        assert expired is not None
        assert head is not None
        for table in ("ducklake_snapshot", "ducklake_snapshot_changes"):
            run(catalog_in_use, f"DELETE FROM {table} WHERE snapshot_id = {expired.snapshot_id}")

        made = lake.append("t", {"id": [7]})

    assert made is not None
    assert made.snapshot_id == head.snapshot_id + 1
    assert row_ids(catalog_in_use) == list(range(6))


def test_a_stream_that_another_run_has_taken_over_is_fenced(catalog_in_use: Catalog) -> None:
    """By an empty epoch: the head is what it was."""
    with Lake.open(catalog_in_use.url) as lake, Lake.open(catalog_in_use.url) as other:
        for batch_id in range(3):
            lake.commit_epoch(Epoch("s", batch_id, "q", "r"), lambda tx: tx.append("t", {"id": [1]}))
        other.commit_epoch(Epoch("s", 3, "q", "another run"), lambda _: None)

        with pytest.raises(StreamFenced):
            lake.commit_epoch(Epoch("s", 3, "q", "r", continues_run=True), lambda tx: tx.append("t", {"id": [2]}))

        assert lake.table("t").count() == 3


def test_an_epoch_is_replayed_though_the_head_is_remembered(catalog_in_use: Catalog) -> None:
    with Lake.open(catalog_in_use.url) as lake:
        for batch_id in range(3):
            lake.commit_epoch(Epoch("s", batch_id, "q", "r"), lambda tx: tx.append("t", {"id": [1]}))

        again = lake.commit_epoch(Epoch("s", 2, "q", "r"), lambda tx: tx.append("t", {"id": [2]}))

        assert again.replayed
        assert lake.table("t").count() == 3


def append_three(lake: Lake, **others: str) -> None:
    """Commit often enough that statistics are remembered."""
    for number in range(3):
        lake.append("t", {"id": [number], **{name: [value] for name, value in others.items()}})


def bounds(catalog: Catalog) -> list[tuple[str, str]]:
    rows = catalog.query("SELECT min_value, max_value FROM ducklake_table_column_stats ORDER BY column_id")
    return [(low, high) for low, high in rows]


def row_ids(catalog: Catalog) -> list[int]:
    return sorted(row[0] for row in catalog.query("SELECT row_id FROM ducklake_inlined_data_1_1"))
