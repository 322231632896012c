"""Lakes that the reference alone has written: healthy, but for holes of its own."""

from pathlib import Path

import pytest

from ducklake_core import Lake
from tests.fixtures import databases
from tests.fixtures.catalogs import Catalog, PostgresCatalog
from tests.fixtures.oracle import Oracle
from tests.fixtures.postgres import PostgresDatabase

LIFE = """
CREATE TABLE t (i INTEGER, s VARCHAR, d DECIMAL(12, 2), ts TIMESTAMPTZ, l INTEGER[], n STRUCT(x BIGINT, y VARCHAR));
INSERT INTO t SELECT i, 'row ' || i, i / 4, now(), [i, NULL], {'x': i, 'y': 'y' || i} FROM range(5) r(i);
INSERT INTO t SELECT i, 'row ' || i, i / 4, now(), [i], {'x': i, 'y': NULL} FROM range(5, 1000) r(i);
DELETE FROM t WHERE i = 7;
DELETE FROM t WHERE i BETWEEN 100 AND 200;
UPDATE t SET s = 'updated' WHERE i = 3;
UPDATE t SET s = 'updated' WHERE i BETWEEN 300 AND 400;
DELETE FROM t WHERE i IN (500, 501);
CALL ducklake_flush_inlined_data('lake');
ALTER TABLE t ADD COLUMN z INTEGER DEFAULT 5;
INSERT INTO t SELECT i, CASE WHEN i > 2050 THEN 'y' END, NULL, NULL, NULL, NULL, i FROM range(2000, 2100) r(i);
INSERT INTO t SELECT i, 'x', 1, now(), [1], {'x': 1, 'y': 'y'}, i FROM range(2100, 2200) r(i);
ALTER TABLE t RENAME COLUMN s TO text;
INSERT INTO t SELECT i, 'x', 1, now(), [], NULL, i FROM range(3000, 3003) r(i);
CALL ducklake_flush_inlined_data('lake');
ALTER TABLE t SET PARTITIONED BY (bucket(4, i), year(ts));
INSERT INTO t SELECT i, 'x', 1, now(), [], NULL, i FROM range(4000, 4100) r(i);
INSERT INTO t SELECT i, 'x', 1, now(), [], NULL, i FROM range(4100, 4200) r(i);
CALL ducklake_merge_adjacent_files('lake');
CALL ducklake_rewrite_data_files('lake', delete_threshold => 0);
ALTER TABLE t RENAME TO u;
INSERT INTO u SELECT i, 'x', 1, now(), [], NULL, i FROM range(5000, 5003) r(i);
CREATE TABLE gone (i INTEGER);
INSERT INTO gone SELECT i FROM range(100) r(i);
DELETE FROM gone WHERE i = 3;
INSERT INTO gone VALUES (1000);
DROP TABLE gone;
DELETE FROM u WHERE i < 4150;
CALL ducklake_expire_snapshots('lake', older_than => now());
CALL ducklake_cleanup_old_files('lake', cleanup_all => true);
CREATE VIEW v AS SELECT 1 AS one;
DELETE FROM u;
"""


@pytest.mark.parametrize("limit", [0, 5, 1000])
def test_a_lake_of_the_reference_is_healthy_all_its_life(catalog: Catalog, oracle: Oracle, limit: int) -> None:
    oracle.attach(catalog.attach, data_path=catalog.data_path)
    oracle.execute(f"CALL lake.set_option('data_inlining_row_limit', {limit})")
    with Lake.open(catalog.url) as lake:
        for statement in filter(str.strip, LIFE.split(";")):
            oracle.execute(statement)
            assert (statement, lake.doctor(full=True)) == (statement, [])


NARROWED = (
    "CREATE TABLE t AS SELECT i::INTEGER AS i, 'row ' || i AS s FROM range(1000) r(i)",
    "INSERT INTO t SELECT i, NULL FROM range(1000, 1100) r(i)",
    "DELETE FROM t WHERE i = 7",
    "CALL ducklake_rewrite_data_files('lake', delete_threshold => 0)",
    "INSERT INTO t SELECT i, 'x' FROM range(2000, 2100) r(i)",
)


def test_statistics_that_the_reference_narrows_are_found_and_mended(catalog: Catalog, oracle: Oracle) -> None:
    """Its rewrite empties the bounds where a file has only nulls, its next insert takes them for those of no rows."""
    oracle.attach(catalog.attach, data_path=catalog.data_path, data_inlining_row_limit=0)
    for statement in NARROWED:
        oracle.execute(statement)
    count = "SELECT count(*) FROM t WHERE i < 10 AND s < 'w'"
    oracle.detach()
    oracle.attach(catalog.attach)
    assert oracle.query(count) == [(0,)]

    with Lake.open(catalog.url) as lake:
        [finding] = lake.doctor(repair=True)
        assert finding.code == "narrow-table-statistics"
        assert lake.doctor(full=True) == []
    assert oracle.query(count) == [(9,)]


def test_a_delete_that_a_merge_of_the_reference_loses_is_found(
    postgres_database: PostgresDatabase, tmp_path: Path
) -> None:
    """A hole of the extension: a row that was deleted while its file was merged is back."""
    catalog = PostgresCatalog(postgres_database, f"{tmp_path}/data/")
    with Oracle() as deleter, Oracle() as merger:
        deleter.attach(catalog.attach, data_path=catalog.data_path)
        deleter.execute("CREATE TABLE t AS SELECT i FROM range(100) r(i)")
        deleter.execute("INSERT INTO t SELECT i FROM range(100, 200) r(i)")
        merger.attach(catalog.attach)
        merger.execute("BEGIN; FROM t")
        deleter.execute("BEGIN; DELETE FROM t WHERE i = 7")
        merger.execute("CALL ducklake_merge_adjacent_files('lake'); COMMIT")
        deleter.execute("COMMIT")
        assert merger.query("SELECT count(*) FROM t WHERE i = 7") == [(1,)]

    with Lake.open(catalog.url) as lake:
        assert [(finding.code, finding.table) for finding in lake.doctor()] == [("lost-delete-marks", "main.t")]


def test_a_file_of_a_bucket_of_uuids_is_healthy_and_one_of_another_is_not(catalog: Catalog, oracle: Oracle) -> None:
    oracle.attach(catalog.attach, data_path=catalog.data_path)
    oracle.execute("CALL lake.set_option('data_inlining_row_limit', 0)")
    oracle.execute("CREATE TABLE t (k UUID)")
    oracle.execute("ALTER TABLE t SET PARTITIONED BY (bucket(1000, k))")
    oracle.execute("INSERT INTO t VALUES (uuid()), (uuid()), (NULL)")
    with Lake.open(catalog.url) as lake:
        assert lake.doctor(full=True) == []
        oracle.detach()
        databases.run(catalog, "UPDATE ducklake_file_partition_value SET partition_value = '5000'")
        assert [finding.code for finding in lake.doctor(full=True)] == ["bad-partition-values"]
