"""The roles of deploy/postgres on a real server: each may do its task and nothing else, and is told what helps."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg
import pyarrow as pa
import pytest

from ducklake_core import Lake
from ducklake_core.catalog.leases import Lease, take_lease
from ducklake_core.errors import CatalogForbidden
from ducklake_core.model import Consumer, Epoch, SnapshotId
from ducklake_core.transaction import Transaction
from tests.fixtures.catalogs import PostgresCatalog
from tests.fixtures.oracle import Oracle
from tests.fixtures.postgres import PostgresDatabase, PostgresServer
from tests.fixtures.roles import (
    ADMIN,
    ANALYST,
    FEED,
    MAINTENANCE,
    SINK,
    GuardedLake,
    make_guarded_lake,
    run_psql,
    without_roles,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def guarded(postgres_server: PostgresServer, tmp_path: Path) -> Iterator[GuardedLake]:
    with without_roles(postgres_server):
        made = make_guarded_lake(postgres_server, tmp_path)
        yield made
        postgres_server.drop_database(made.database)


def commit(lake: Lake, batch_id: int, **columns: list[int]) -> None:
    """Write a batch as a sink does, which creates and widens the table."""

    def write(tx: Transaction) -> None:
        if not tx.has_table("t"):
            tx.create_table("t", {"id": "int64"})
        rows = pa.table(columns)
        tx.merge_schema("t", rows.schema)
        tx.append("t", rows)

    lake.ledger_entry("s")
    lake.commit_epoch(Epoch("s", batch_id, "query", "run"), write)


def write_all_kinds(lake: Lake) -> None:
    """Do all that a sink does: inlined rows, files, new columns, flushes, deletes and updates."""
    commit(lake, 0, id=[1])
    commit(lake, 1, id=list(range(10, 500)))
    commit(lake, 2, id=[2], more=[1])
    lake.flush_inlined()
    commit(lake, 3, id=[3, 4], more=[1, 1])
    lake.delete("t", "id = 3 OR id = 11")
    lake.delete("t", "id > 20 AND id < 400")
    lake.update("t", {"more": 5}, "id = 4 OR id = 450")
    lake.flush_inlined(keep_superseded=0)


def test_each_role_does_its_task(guarded: GuardedLake, oracle: Oracle) -> None:
    with guarded.open(SINK) as lake:
        lake.check_rights()
        write_all_kinds(lake)
    with guarded.open("second_job") as lake:  # goes on where another has begun
        commit(lake, 4, id=[5], more=[1], third=[1])
        lake.flush_inlined(keep_superseded=0)
        rows = lake.table("t").count()
    with guarded.open(FEED) as lake:
        uuid = lake.feed("t").table.table_uuid
        lake.record_consumer(Consumer("c", uuid, SnapshotId(1), NOW, None))
        lake.record_consumer(Consumer("c", uuid, SnapshotId(3), NOW, None))
        assert [one.snapshot_id for one in lake.consumers()] == [3]
    with guarded.open(ANALYST) as lake:
        assert lake.table("t").count() == rows
        assert lake.changes("t", 2, 5).num_rows
        assert lake.table("of_others").count() == 1
    oracle.attach(guarded.database.attach.replace("user=lake", f"user={ANALYST}"))
    assert oracle.query("SELECT count(*) FROM lake.t") == [(rows,)]


def test_maintenance_does_its_task(guarded: GuardedLake) -> None:
    with guarded.open(SINK) as lake:
        write_all_kinds(lake)
        for number in range(3):
            lake.append("t", pa.table({"id": range(1000 * number, 1000 * number + 50)}), fill_missing=True)
        lake.append("t", {"id": [7], "more": [7]})
        rows = lake.table("t").count()
    with guarded.open("boss") as lake:
        lake.drop_table("of_others")

    with guarded.open(MAINTENANCE) as lake:
        lake.check_rights(maintains=True)
        lake.flush_inlined()
        reports = [
            lake.rewrite_data_files(delete_threshold=0),
            lake.merge_adjacent_files(),
            lake.expire_snapshots(older_than=timedelta(0)),
            lake.cleanup_old_files(older_than=timedelta(0)),
            lake.delete_orphaned_files(older_than=timedelta(days=1)),
        ]
        assert [work.error for report in reports for work in report.work if work.error] == []
        assert all(report.total.files_before or report.snapshot_ids or report.paths for report in reports[:4])
        assert lake.table("t").count() == rows
        assert lake.doctor(full=True) == []


def test_who_lacks_a_right_is_told_the_grant_that_helps(guarded: GuardedLake) -> None:
    with guarded.open(SINK) as lake:
        commit(lake, 0, id=[1])
    with guarded.open(ANALYST) as reader, guarded.open(FEED) as feed, guarded.open(SINK) as sink:
        consumer = Consumer("c", reader.feed("t").table.table_uuid, SnapshotId(1), NOW, None)
        wanted = {
            r"INSERT ON TABLE ducklake_snapshot\b": lambda: reader.append("t", {"id": [1]}),
            r"INSERT ON TABLE ducklake_streaming_consumers": lambda: reader.record_consumer(consumer),
            r"CREATE ON SCHEMA public": reader.check_rights,
            r"INSERT ON TABLE ducklake_": lambda: feed.append("t", {"id": [1]}),
            r"UPDATE ON TABLE ducklake_table\b": lambda: sink.drop_table("of_others"),
            r"DELETE ON TABLE ducklake_": lambda: sink.check_rights(maintains=True),
        }
        for grant, act in wanted.items():
            with pytest.raises(CatalogForbidden, match=rf"permission denied .*; GRANT {grant}.* to the catalog's user"):
                act()  # type: ignore[no-untyped-call] # each of its own type
        assert sink.table("of_others").count() == 1


def test_sink_can_drop_no_table_of_the_catalog(guarded: GuardedLake) -> None:
    for statement in (
        "DROP TABLE ducklake_snapshot",
        "TRUNCATE ducklake_table",
        "DELETE FROM ducklake_snapshot",
        "UPDATE ducklake_table SET end_snapshot = 1",
        "DELETE FROM ducklake_streaming_epochs",
    ):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            guarded.execute(statement, SINK)


def test_expiry_that_may_not_is_told_so(guarded: GuardedLake) -> None:
    with guarded.open(SINK) as lake, pytest.raises(CatalogForbidden, match=r"; GRANT DELETE ON TABLE ducklake_"):
        lake.expire_snapshots(older_than=timedelta(0))


def test_superseded_table_of_another_user_is_left_to_them(guarded: GuardedLake) -> None:
    with guarded.open(SINK) as lake:
        commit(lake, 0, id=[1])
        commit(lake, 1, id=[2], more=[1])
    [[first]] = PostgresCatalog(guarded.database, "").query(
        "SELECT min(table_name) FROM ducklake_inlined_data_tables WHERE table_name LIKE '%2\\_%'"
    )
    guarded.execute(f"ALTER TABLE {first} OWNER TO lake_owner; GRANT SELECT, DELETE, UPDATE ON {first} TO lake_sink")

    with guarded.open(SINK) as lake:
        report = lake.flush_inlined(keep_superseded=0)

    assert report is not None
    assert first in PostgresCatalog(guarded.database, "").columns()


def test_tables_of_the_script_are_those_that_we_would_make(
    guarded: GuardedLake, postgres_server: PostgresServer, tmp_path: Path
) -> None:
    ours = postgres_server.create_database()
    with Lake.create(ours.url, f"{tmp_path}/ours") as lake:
        lake.ledger_entry("s")
        lake.merge_adjacent_files()
        take_lease(lake.database, Lease("n", "h", "p", NOW + timedelta(hours=1)), NOW)

    assert own_columns(ours) == own_columns(guarded.database) != []
    postgres_server.drop_database(ours)


def test_script_can_be_run_again(guarded: GuardedLake) -> None:
    with guarded.open(SINK) as lake:
        commit(lake, 0, id=[1])

    run_psql(guarded.database, "roles.sql")

    with guarded.open(SINK) as lake:
        commit(lake, 1, id=[2], more=[1])
        lake.flush_inlined(keep_superseded=0)


def test_script_can_be_run_by_one_who_is_no_superuser(postgres_server: PostgresServer, tmp_path: Path) -> None:
    with without_roles(postgres_server):
        guarded = make_guarded_lake(postgres_server, tmp_path, ADMIN)
        with guarded.open(SINK) as lake:
            lake.check_rights()
            write_all_kinds(lake)

        run_psql(guarded.database, "roles.sql", user=ADMIN)

        with guarded.open(SINK) as lake:
            commit(lake, 4, id=[5], more=[1])
        with guarded.open(MAINTENANCE) as lake:
            lake.check_rights(maintains=True)
            assert not lake.rewrite_data_files(delete_threshold=0).has_failed
        with guarded.open(ANALYST) as lake, pytest.raises(CatalogForbidden):
            lake.append("t", {"id": [1], "more": [1]})
        postgres_server.drop_database(guarded.database)


def own_columns(database: PostgresDatabase) -> list[tuple[object, ...]]:
    return PostgresCatalog(database, "").query(
        "SELECT table_name, column_name, data_type, is_nullable, ordinal_position FROM information_schema.columns"
        r" WHERE table_name LIKE 'ducklake\_streaming\_%' ORDER BY 1, ordinal_position"
    )
