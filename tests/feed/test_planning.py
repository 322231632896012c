"""What planning a range asks of the catalog: as little as its snapshots allow, whatever the history before it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

import psycopg
import pyarrow as pa
import pytest

from ducklake_core import Lake
from ducklake_core.feed.listing import FeedRequest, list_range
from ducklake_core.feed.task import ChangeTask
from ducklake_core.model import SnapshotId, SnapshotSpan
from tests.fixtures.postgres import PostgresDatabase
from tests.fixtures.proxy import Proxy, run_proxy

FILES = 20_000
Node: TypeAlias = dict[str, Any]  # Any: of a plan, as PostgreSQL gives it in JSON


@pytest.fixture
def proxy(postgres_database: PostgresDatabase) -> Iterator[Proxy]:
    with run_proxy(postgres_database) as proxy:
        yield proxy


@pytest.fixture
def lake(proxy: Proxy, tmp_path: Path) -> Iterator[Lake]:
    """Give a lake with a table that is written as files."""
    with Lake.create(proxy.database.url, f"{tmp_path}/data") as lake:
        lake.set_option("data_inlining_row_limit", 0)
        lake.create_table("t", {"id": "int64"})
        yield lake


def plan_last(lake: Lake) -> ChangeTask:
    """Plan the changes of the newest snapshot, as a stream does that knows the table."""
    found = lake.table("t")
    head = found.snapshot.snapshot_id
    span = SnapshotSpan(SnapshotId(head - 1), head)
    return list_range(lake.database, FeedRequest(found.version, found.version.columns, span)).task


def asked(proxy: Proxy, lake: Lake) -> list[str]:
    """Return the catalog tables that planning the newest snapshot asks about."""
    found = lake.table("t")
    span = SnapshotSpan(SnapshotId(found.snapshot.snapshot_id - 1), found.snapshot.snapshot_id)
    proxy.forget_counts()
    list_range(lake.database, FeedRequest(found.version, found.version.columns, span))
    words = (word.strip('"(),.') for s in proxy.statements for word in s.split("FROM", 1)[-1].split())
    return list(dict.fromkeys(w for w in words if w.startswith("ducklake_") and "." not in w))


def append_by_hand(database: PostgresDatabase, files: int) -> None:
    """Register files of which each is a snapshot of its own; nobody will read them."""
    statements = f"""
        INSERT INTO ducklake_snapshot SELECT 1 + i, now(), 1, 2, i FROM generate_series(1, {files}) i;
        INSERT INTO ducklake_snapshot_changes (snapshot_id, changes_made)
            SELECT 1 + i, 'inserted_into_table:1' FROM generate_series(1, {files}) i;
        INSERT INTO ducklake_data_file (data_file_id, table_id, begin_snapshot, path, path_is_relative, file_format,
            record_count, file_size_bytes, row_id_start)
            SELECT i - 1, 1, 1 + i, i || '.parquet', true, 'parquet', 1, 1, i FROM generate_series(1, {files}) i;
        INSERT INTO ducklake_delete_file (delete_file_id, table_id, begin_snapshot, data_file_id, path,
            path_is_relative, format, delete_count, file_size_bytes)
            SELECT {files} + i, 1, 1 + i, i, 'd' || i, true, 'parquet', 1, 1 FROM generate_series(1, {files}) i;
        UPDATE ducklake_snapshot SET next_file_id = 2 * {files} + 1 WHERE snapshot_id = 1 + {files};
    """
    with psycopg.connect(database.conninfo, autocommit=True) as connection:
        connection.execute(statements.encode())
        connection.execute("ANALYZE")


def test_a_range_without_changes_of_the_table_asks_for_snapshots_only(proxy: Proxy, lake: Lake) -> None:
    lake.create_table("other", {"id": "int64"})

    assert asked(proxy, lake) == ["ducklake_metadata", "ducklake_snapshot", "ducklake_snapshot_changes"]
    assert proxy.round_trips <= 2


def test_an_append_asks_for_new_files_and_inlined_rows_only(proxy: Proxy, lake: Lake) -> None:
    lake.append("t", pa.table({"id": [1, 2]}))

    found = asked(proxy, lake)

    snapshots, files = (
        ["ducklake_snapshot", "ducklake_snapshot_changes"],
        ["ducklake_data_file", "ducklake_delete_file"],
    )
    assert found == ["ducklake_metadata", *snapshots, *files]
    assert proxy.round_trips == 3


def test_a_delete_also_asks_for_delete_files_and_inlined_deletes(proxy: Proxy, lake: Lake) -> None:
    lake.append("t", pa.table({"id": range(9)}))
    lake.delete("t", "id < 3")

    asked(proxy, lake)

    about_files = [s for s in proxy.statements if "ducklake_data_file" in s]
    assert len(about_files) == 2  # with a new delete file, and ended
    assert proxy.round_trips <= 5


@pytest.mark.slow
def test_the_rows_touched_for_an_append_do_not_grow_with_the_history(
    lake: Lake, proxy: Proxy, postgres_database: PostgresDatabase
) -> None:
    append_by_hand(postgres_database, FILES)
    lake.forget()
    lake.append("t", pa.table({"id": [1]}))
    proxy.forget_counts()
    task = plan_last(lake)
    [statement] = [s for s in proxy.statements if "FROM ducklake_data_file" in s]

    assert [changed.file.begin_snapshot for changed in task.files] == [FILES + 2]
    for plan_cache_mode in ("auto", "force_generic_plan"):
        scans = scans_of(explained(postgres_database, statement, plan_cache_mode))
        assert {scan["Node Type"] for scan in scans} <= {"Index Scan", "Bitmap Heap Scan", "Bitmap Index Scan"}, scans
        assert sum(rows_touched(scan) for scan in scans) < 20, scans


def explained(database: PostgresDatabase, statement: str, plan_cache_mode: str) -> Node:
    """Return what PostgreSQL does for the statement with the parameters of the newest snapshot."""
    first_id, table_id, end, start = 2 * FILES + 1, 1, FILES + 2, FILES + 1  # in the order of the statement
    with psycopg.connect(database.conninfo, autocommit=True) as connection:
        connection.execute(f"SET plan_cache_mode = {plan_cache_mode}".encode())
        connection.execute(f"PREPARE planned AS {statement}".encode())
        explain = f"EXPLAIN (ANALYZE, FORMAT JSON) EXECUTE planned({first_id}, {table_id}, {end}, {start})"
        [[[found]]] = connection.execute(explain.encode()).fetchall()
    node: Node = found["Plan"]
    return node


def scans_of(node: Node) -> list[Node]:
    below = [scan for child in node.get("Plans", ()) for scan in scans_of(child)]
    return [node, *below] if "Scan" in node["Node Type"] else below


def rows_touched(scan: Node) -> int:
    removed = sum(count for name, count in scan.items() if name.startswith("Rows Removed"))
    return int(scan["Actual Loops"] * (scan["Actual Rows"] + removed))
