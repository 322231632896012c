"""Expiry beside commits, readers and others who expire: nothing is lost, nothing is done twice."""

from concurrent.futures import ThreadPoolExecutor
from threading import Event

import psycopg
import pyarrow as pa
import pytest

from ducklake_core import Lake
from ducklake_core.errors import CommitConflict
from tests.fixtures.catalogs import Catalog
from tests.fixtures.consistency import registered_files, stored_files
from tests.fixtures.faults import at_fault
from tests.fixtures.oracle import Oracle

MANY = pa.table({"i": range(50)})


def test_commits_go_on_while_snapshots_expire(catalog: Catalog) -> None:
    with Lake.create(catalog.url, catalog.data_path) as lake, Lake.open(catalog.url) as other:
        lake.create_table("t", {"i": "int64"})
        is_over = Event()

        def maintain() -> int:
            expired = 0
            while not is_over.is_set():
                expired += other.expire_snapshots(keep_last=2).total.snapshots
                other.cleanup_old_files(cleanup_all=True)
            return expired

        with ThreadPoolExecutor(1) as pool:
            maintainer = pool.submit(maintain)
            try:
                for i in range(30):
                    lake.append("t", {"i": [i]} if i % 3 else MANY)
                    lake.delete("t", f"i = {i - 1}")
            finally:
                is_over.set()
            expired = maintainer.result()
        other.expire_snapshots(keep_last=1)
        other.cleanup_old_files(cleanup_all=True)

        assert expired > 0
        assert sorted(lake.table("t").read()["i"].to_pylist()) == _expected()
        assert stored_files(catalog) == set(registered_files(catalog))


def _expected() -> list[int]:
    rows: list[int] = []
    for i in range(30):
        rows = [row for row in [*rows, *([i] if i % 3 else range(50))] if row != i - 1]
    return sorted(rows)


@pytest.mark.parametrize("make_catalog", ["postgres"], indirect=True)  # on SQLite nobody commits beside it
def test_id_that_a_transaction_of_duckdb_will_take_is_not_freed(catalog: Catalog, oracle: Oracle) -> None:
    with Lake.create(catalog.url, catalog.data_path) as lake:
        lake.create_table("t", {"i": "int64"})
        lake.create_table("u", {"i": "int64"})
        lake.append("u", MANY)
        oracle.attach(catalog.attach)
        oracle.execute("BEGIN; INSERT INTO u SELECT range FROM range(50)")
        seen = lake.snapshots()[-1].snapshot_id
        for _ in range(2):
            lake.append("t", MANY)

        report = lake.expire_snapshots(keep_last=1)
        oracle.execute("COMMIT")

        assert report.snapshot_ids == tuple(range(seen + 1))
        assert f"a transaction open since before snapshot {seen + 1}" in report.held_back[0]
        assert [s.snapshot_id for s in lake.snapshots()] == [seen + 1, seen + 2, seen + 3]
        assert lake.doctor(full=True) == []
        again = lake.expire_snapshots(keep_last=1)
        assert (again.snapshot_ids, again.held_back) == ((seen + 1, seen + 2), ())
        assert (lake.table("t").count(), lake.table("u").count()) == (100, 100)


@pytest.mark.parametrize("make_catalog", ["postgres"], indirect=True)
def test_an_open_transaction_of_another_role_holds_expiry_back(catalog: Catalog) -> None:
    conninfo = catalog.database.conninfo  # type: ignore[union-attr] # PostgreSQL alone
    with Lake.create(catalog.url, catalog.data_path) as lake, psycopg.connect(conninfo) as reader:
        lake.create_table("t", {"i": "int64"})
        lake.expire_snapshots(keep_last=5)  # makes the tables of leases and runs
        with psycopg.connect(conninfo, autocommit=True) as connection:
            connection.execute("DROP ROLE IF EXISTS keeper")
            connection.execute("CREATE ROLE keeper LOGIN; GRANT ALL ON SCHEMA public TO keeper")
            connection.execute("GRANT ALL ON ALL TABLES IN SCHEMA public TO keeper")
        reader.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        reader.execute("SELECT * FROM ducklake_snapshot")
        for _ in range(2):
            lake.append("t", MANY)

        with Lake.open(catalog.url.replace("://lake@", "://keeper@")) as keeper:
            report = keeper.expire_snapshots(keep_last=1)

        assert "a transaction open since before snapshot 2" in report.held_back[0]


def test_a_delete_that_was_staged_on_an_expired_snapshot_is_refused(catalog: Catalog) -> None:
    with Lake.create(catalog.url, catalog.data_path) as lake, Lake.open(catalog.url) as other:
        lake.create_table("t", {"i": "int64"})
        lake.append("t", MANY)
        tx = lake.transaction()
        tx.delete("t", "i < 20")
        other.delete("t", "i < 15")
        other.append("t", {"i": [100]})
        other.expire_snapshots(keep_last=1)

        with pytest.raises(CommitConflict, match="snapshots since then have expired"):
            tx.commit()

        assert lake.table("t").count() == 36


def test_of_two_that_expire_at_once_one_yields(catalog: Catalog) -> None:
    with Lake.create(catalog.url, catalog.data_path) as lake, Lake.open(catalog.url) as other:
        lake.create_table("t", {"i": "int64"})
        lake.append("t", MANY)
        held_back: list[str] = []
        with at_fault("lease_taken", lambda: held_back.extend(_expire_alone(other))):
            report = lake.expire_snapshots(keep_last=1)

        assert report.total.snapshots == 2
        assert "another process maintains this lake ('expire'" in held_back[0]


def test_the_extension_may_expire_meanwhile(catalog: Catalog, oracle: Oracle) -> None:
    """On PostgreSQL it does so after ours has read what there is; SQLite lets one write at a time."""
    with Lake.create(catalog.url, catalog.data_path) as lake:
        lake.create_table("t", {"i": "int64"})
        for _ in range(3):
            lake.append("t", MANY)
            lake.delete("t", None)
        lake.append("t", MANY)
        oracle.attach(catalog.attach)
        meanwhile = [lambda: oracle.execute("CALL ducklake_expire_snapshots('lake', versions => [2, 3, 4])")]
        point = "expiry_planned" if catalog.name == "postgres" else "lease_taken"

        with at_fault(point, lambda: meanwhile.pop()() if meanwhile else None):
            lake.expire_snapshots(keep_last=1)

        assert len(lake.snapshots()) == 1
        paths = [path for (path,) in catalog.query("SELECT path FROM ducklake_files_scheduled_for_deletion")]
        assert len(paths) == len(set(paths)) == 3
        assert lake.table("t").count() == oracle.query("SELECT count(*) FROM t")[0][0] == 50


def _expire_alone(lake: Lake) -> tuple[str, ...]:
    return lake.expire_snapshots(keep_last=1).held_back
