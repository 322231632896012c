"""Expiry by us and by the extension: the same catalog afterwards, row by row, and the same rows at what is left."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ducklake_core import Lake
from tests.fixtures.pairs import Pair

pytestmark = pytest.mark.slow
MANY = "SELECT i, 'v' || i AS j FROM range({}, {}) r(i)"


@pytest.fixture(autouse=True)
def superseded_tables_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave superseded tables of inlined rows alone: the extension drops them when it flushes, and we here as well."""
    monkeypatch.setattr("ducklake_core.maintenance.expire.drop_superseded", lambda *_: ())


def expire(pair: Pair, versions: Sequence[int] | None = None) -> None:
    """Expire the same snapshots on both sides; None: all but the newest."""
    wanted = "older_than => now() + INTERVAL 1 DAY" if versions is None else f"versions => {list(versions)}"

    def act(lake: Lake) -> object:
        return lake.expire_snapshots(keep_last=1) if versions is None else lake.expire_snapshots(versions=versions)

    pair.left_out |= dict.fromkeys(
        ("ducklake_inlined_delete_1", "ducklake_inlined_delete_2"), "we remove the marks of files that are gone"
    )
    pair.step(act, f"CALL ducklake_expire_snapshots('{{lake}}', {wanted})")


def both(pair: Pair, statement: str) -> None:
    """Do what we have no call for by the extension, in both lakes."""
    for name in pair.lakes:
        pair.oracle.execute(f"USE {name}")
        pair.oracle.execute(statement)
    for lake in pair.lakes.values():
        lake.forget()


@pytest.fixture
def lived(pair: Pair) -> Pair:
    """Give two lakes with something of everything, ended and alive."""
    pair.ignored["next_file_id"] = pair.ignored["file_id"] = "order of parallel files"
    for statement in (
        "CREATE TABLE a (i BIGINT, j VARCHAR)",
        "CREATE TABLE b (i BIGINT, j VARCHAR)",
        "CREATE SCHEMA s",
        "CREATE TABLE s.c (i BIGINT, j VARCHAR)",
        f"INSERT INTO a {MANY.format(0, 100)}",
        f"INSERT INTO b {MANY.format(0, 50)}",
        "INSERT INTO b VALUES (1000, 'x')",
        "DELETE FROM b WHERE i < 5",
        "DELETE FROM a WHERE i < 40",
        "DELETE FROM a WHERE i < 80",
        f"INSERT INTO s.c {MANY.format(0, 20)}",
        "COMMENT ON TABLE b IS 'first'",
        "COMMENT ON TABLE a IS 'first'",
        "COMMENT ON TABLE a IS 'second'",
        "COMMENT ON COLUMN a.i IS 'first'",
        "COMMENT ON COLUMN a.i IS 'second'",
        "COMMENT ON COLUMN b.i IS 'first'",
        "CREATE VIEW v AS SELECT 1 AS one",
        "CREATE VIEW w AS SELECT 1 AS one",
        "CREATE MACRO m(x) AS x + 1",
        "CREATE MACRO n(x) AS x + 1",
        "ALTER TABLE b SET PARTITIONED BY (i)",
        "ALTER TABLE b SET SORTED BY (i)",
        "ALTER TABLE a RENAME TO a2",
        "ALTER TABLE a2 ADD COLUMN k INTEGER",
        "INSERT INTO a2 VALUES (1, 'a', 2), (2, 'b', 3)",
        "DROP TABLE b",
        "DROP TABLE s.c",
        "DROP SCHEMA s",
        "DROP VIEW v",
        "DROP MACRO m",
        "DELETE FROM a2 WHERE i > 80",
        f"INSERT INTO a2 SELECT *, 1 FROM ({MANY.format(200, 300)})",
    ):
        both(pair, statement)
    pair.compare_catalogs()
    return pair


def test_all_but_the_newest_snapshot(lived: Pair) -> None:
    expire(lived)


def test_some_snapshots_from_the_middle(lived: Pair) -> None:
    newest = lived.lakes["lake_a"].snapshots()[-1].snapshot_id

    expire(lived, [i for i in range(newest) if i % 3])
    expire(lived, [i for i in range(5, newest) if i % 3 == 0])


def test_the_oldest_snapshots_one_after_another(lived: Pair) -> None:
    newest = lived.lakes["lake_a"].snapshots()[-1].snapshot_id

    for i in range(0, newest - 1, 7):
        expire(lived, [i for i in range(i, i + 7) if i < newest])


def test_files_that_were_rewritten_and_flushed(pair: Pair) -> None:
    for statement in (
        "CREATE TABLE t (i BIGINT, j VARCHAR)",
        f"INSERT INTO t {MANY.format(0, 20)}",
        "DELETE FROM t WHERE i < 5",
        "CALL ducklake_rewrite_data_files('{lake}', 't', delete_threshold => 0.1)",
        "INSERT INTO t VALUES (100, 'a')",
        "CALL ducklake_flush_inlined_data('{lake}')",
        "CALL ducklake_merge_adjacent_files('{lake}')",
        "DELETE FROM t WHERE i = 7",
    ):
        for name in pair.lakes:
            pair.oracle.execute(f"USE {name}")
            pair.oracle.execute(statement.replace("{lake}", name))
    for lake in pair.lakes.values():
        lake.forget()

    expire(pair)


def test_partitions_and_files_from_elsewhere(pair: Pair, tmp_path: Path) -> None:
    pair.partitioned = True
    (tmp_path / "given").mkdir()
    for statement in (
        "CREATE TABLE t (p BIGINT, i BIGINT)",
        "CREATE TABLE u (i BIGINT)",
        "ALTER TABLE t SET PARTITIONED BY (p)",
        "INSERT INTO t SELECT i % 3, i FROM range(60) r(i)",
        "ALTER TABLE t SET PARTITIONED BY (bucket(2, p))",
        "INSERT INTO t SELECT i % 3, i FROM range(60) r(i)",
        "CALL ducklake_add_data_files('{lake}', 'u', '{file}')",
        "DELETE FROM t WHERE p = 1",
        "DROP TABLE u",
        "INSERT INTO t SELECT i % 3, i FROM range(60) r(i)",
    ):
        for name in pair.lakes:
            file = tmp_path / "given" / f"{name}.parquet"
            pq.write_table(pa.table({"i": [1, 2, 3]}), file)
            pair.oracle.execute(f"USE {name}")
            pair.oracle.execute(statement.replace("{lake}", name).replace("{file}", str(file)))
    for lake in pair.lakes.values():
        lake.forget()
    pair.ignored["path"] = "each lake has a file of its own"

    expire(pair)
