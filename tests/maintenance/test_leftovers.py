"""What inlined rows leave in the catalog is reclaimed when snapshots expire: rows, marks and tables nobody needs."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import psycopg
import pyarrow as pa
import pytest

from ducklake_core import Lake
from ducklake_core.clock import Clock
from tests.fixtures.catalogs import Catalog, PostgresCatalog
from tests.fixtures.databases import run
from tests.fixtures.oracle import Oracle

on_postgres = pytest.mark.parametrize("make_catalog", ["postgres"], indirect=True)
MANY = pa.table({"i": range(100)})


@pytest.fixture
def lake(catalog: Catalog) -> Iterator[Lake]:
    with Lake.create(catalog.url, catalog.data_path) as lake:
        lake.create_table("t", {"i": "int64"})
        yield lake


def inlined(catalog: Catalog) -> list[str]:
    return [name for name in catalog.columns() if name.startswith("ducklake_inlined_d") and name[-1].isdigit()]


def test_rows_that_ended_before_the_oldest_snapshot_go(lake: Lake, catalog: Catalog) -> None:
    lake.append("t", {"i": [1, 2, 3]})
    lake.delete("t", "i = 1")
    lake.update("t", {"i": 20}, "i = 2")
    lake.delete("t", "i = 3")
    lake.append("t", {"i": [4]})
    before = lake.changes("t", 5, 6).sort_by("i")

    lake.expire_snapshots(versions=[0, 1, 2, 3, 4])

    # The row that ended in snapshot 5, the oldest, is what the feed has of its end.
    rows = catalog.query("SELECT i, begin_snapshot, end_snapshot FROM ducklake_inlined_data_1_1 ORDER BY i")
    assert rows == [(3, 2, 5), (4, 6, None), (20, 4, None)]
    assert lake.changes("t", 5, 6).sort_by("i") == before
    assert before.num_rows == 2


def test_marks_of_files_that_are_gone_go(lake: Lake, catalog: Catalog, oracle: Oracle) -> None:
    lake.append("t", MANY)
    lake.append("t", MANY)
    lake.delete("t", "i < 3")
    oracle.attach(catalog.attach)
    oracle.execute("CALL ducklake_rewrite_data_files('lake', 't', delete_threshold => 0.01)")
    lake.append("t", MANY)
    lake.delete("t", "i = 50")
    marks = "SELECT count(*) FROM ducklake_inlined_delete_1"
    assert catalog.query(marks) == [(9,)]

    lake.expire_snapshots(keep_last=1)

    assert catalog.query(marks) == [(3,)]
    assert lake.table("t").count() == oracle.query("SELECT count(*) FROM t")[0][0] == 291


def test_mark_that_was_lost_beside_a_merge_stays_for_the_doctor(lake: Lake, catalog: Catalog) -> None:
    lake.append("t", MANY)
    lake.delete("t", "i = 1")
    lake.append("t", {"i": [1]})
    head = lake.snapshots()[-1].snapshot_id
    run(catalog, f"INSERT INTO ducklake_inlined_delete_1 VALUES (99, 7, {head})")  # of a file that is gone

    lake.expire_snapshots(keep_last=1)

    assert [finding.code for finding in lake.doctor()] == ["lost-delete-marks"]


def test_tables_of_a_dropped_table_stay_while_a_snapshot_sees_it(lake: Lake, catalog: Catalog) -> None:
    lake.append("t", MANY)
    lake.append("t", {"i": [1]})
    lake.delete("t", "i = 5")
    seen = lake.snapshots()[-1].snapshot_id
    lake.drop_table("t")
    assert inlined(catalog) == ["ducklake_inlined_data_1_1", "ducklake_inlined_delete_1"]

    lake.expire_snapshots(versions=range(seen))
    assert lake.table("t", at=seen).count() == 100
    lake.expire_snapshots(keep_last=1)

    assert inlined(catalog) == []


def test_tables_that_others_left_behind_are_dropped(lake: Lake, catalog: Catalog) -> None:
    run(catalog, "CREATE TABLE ducklake_inlined_data_77_3 (row_id BIGINT, begin_snapshot BIGINT, end_snapshot BIGINT)")
    run(catalog, "INSERT INTO ducklake_inlined_data_77_3 VALUES (1, 1, NULL)")
    run(catalog, "CREATE TABLE ducklake_inlined_delete_78 (file_id BIGINT, row_id BIGINT, begin_snapshot BIGINT)")

    lake.expire_snapshots()

    assert inlined(catalog) == ["ducklake_inlined_data_1_1"]


def test_a_superseded_table_goes_when_its_time_of_grace_is_over(catalog: Catalog) -> None:
    time = datetime(2026, 1, 1, tzinfo=UTC)
    clock = Clock(now=lambda: time)
    with Lake.create(catalog.url, catalog.data_path, clock=clock) as lake:
        lake.create_table("t", {"i": "int64"})
        lake.append("t", {"i": [1]})
        lake.add_column("t", "j", "int64")
        lake.flush_inlined("t")
        lake.append("t", {"i": [2], "j": [3]})

        lake.expire_snapshots(keep_last=1)
        assert inlined(catalog) == ["ducklake_inlined_data_1_1", "ducklake_inlined_data_1_2"]
        time += timedelta(hours=2)
        lake.expire_snapshots(keep_last=1)

        assert inlined(catalog) == ["ducklake_inlined_data_1_2"]
        assert lake.table("t").count() == 2


@on_postgres
def test_a_table_that_somebody_reads_is_left_for_the_next_time(lake: Lake, catalog: PostgresCatalog) -> None:
    lake.append("t", {"i": [1]})
    lake.drop_table("t")
    with psycopg.connect(catalog.database.conninfo) as reader:
        reader.execute("SELECT * FROM ducklake_inlined_data_1_1")

        report = lake.expire_snapshots(keep_last=1)

        assert report.total.snapshots == 3
        assert inlined(catalog) == ["ducklake_inlined_data_1_1"]
    lake.expire_snapshots(keep_last=1)
    assert inlined(catalog) == []


def test_a_duckdb_session_that_is_open_goes_on(lake: Lake, catalog: Catalog, oracle: Oracle) -> None:
    lake.append("t", {"i": [1, 2]})
    lake.create_table("u", {"i": "int64"})
    lake.append("u", {"i": [1]})
    oracle.attach(catalog.attach)
    assert oracle.query("SELECT count(*) FROM t, u") == [(2,)]
    lake.delete("t", "i = 1")
    lake.drop_table("u")

    lake.expire_snapshots(keep_last=1)

    assert oracle.query("SELECT i FROM t") == [(2,)]
    oracle.execute("INSERT INTO t VALUES (3)")
    assert lake.table("t").count() == 2
