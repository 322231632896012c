"""Snapshots that are not what they were: a catalog restored from a backup, and snapshots that expired meanwhile."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest

from ducklake_core import Lake
from ducklake_core.errors import CommitConflict
from tests.fixtures.catalogs import Catalog
from tests.fixtures.databases import run
from tests.fixtures.oracle import Oracle

MANY = pa.table({"id": range(40)})


@pytest.mark.parametrize("is_longer", [False, True], ids=["same length", "longer"])
def test_a_restored_catalog_with_the_same_version_is_read_anew(tmp_path: Path, is_longer: bool) -> None:  # noqa: FBT001
    catalog, backup = tmp_path / "lake.sqlite", tmp_path / "backup.sqlite"
    with Lake.create(f"sqlite:///{catalog}", f"{tmp_path}/data") as lake:
        lake.set_option("data_inlining_row_limit", 5)
        shutil.copy(catalog, backup)
        lake.create_table("t", {"id": "int64", "name": "varchar"})
        lake.append("t", [{"id": 1, "name": "a"}])
        lake.close()
        shutil.copy(backup, catalog)
        with Lake.open(f"sqlite:///{catalog}") as other:
            other.create_table("t", {"name": "varchar", "id": "int64"})  # the same id and version, other columns
            for _ in range(2 if is_longer else 1):
                other.append("t", [{"name": "b", "id": 2}])

        lake.append("t", [{"id": 300, "name": "c"}])

        assert lake.table("t").schema.names == ["name", "id"]
    with closing(sqlite3.connect(catalog)) as connection:
        bounds = connection.execute("SELECT column_id, min_value, max_value FROM ducklake_table_column_stats")
        assert sorted(bounds) == [(1, "b", "c"), (2, "2", "300")]


def test_a_delete_beside_deletes_in_expired_snapshots_is_refused(catalog: Catalog, oracle: Oracle) -> None:
    with Lake.create(catalog.url, catalog.data_path) as lake, Lake.open(catalog.url) as other:
        lake.create_table("t", {"id": "int64"})
        lake.append("t", MANY)
        tx = lake.transaction()
        tx.delete("t", "id < 20")
        other.delete("t", "id < 15")
        other.append("t", {"id": [100]})
        oracle.attach(catalog.attach)
        oracle.execute("CALL ducklake_expire_snapshots('lake', older_than => now() + INTERVAL 1 DAY)")
        assert len(other.snapshots()) == 1

        with pytest.raises(CommitConflict, match="snapshots since then have expired"):
            tx.commit()

        assert lake.table("t").count() == 26
        assert oracle.query("SELECT count(*) FROM t") == [(26,)]


def test_an_append_goes_on_when_its_base_has_expired(catalog: Catalog) -> None:
    with Lake.create(catalog.url, catalog.data_path) as lake, Lake.open(catalog.url) as other:
        lake.create_table("t", {"id": "int64"})
        tx = lake.transaction()
        tx.append("t", MANY)
        base = lake.append("t", {"id": [1]})
        assert base is not None
        other.append("t", {"id": [2]})
        for table in ("ducklake_snapshot", "ducklake_snapshot_changes"):
            run(catalog, f"DELETE FROM {table} WHERE snapshot_id <= {base.snapshot_id}")

        tx.commit()
        lake.append("t", {"id": [3]})

        assert lake.table("t").count() == 43
