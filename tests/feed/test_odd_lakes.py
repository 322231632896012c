"""Feeds of tables that others have written in other ways: old deletes, deletion vectors, files without field ids."""

import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path

import numpy as np
import psycopg
import pyarrow as pa
import pyarrow.parquet as pq

from ducklake_core import Lake
from ducklake_core.files.delete_files import write_delete_file
from tests.fixtures import feeds
from tests.fixtures.catalogs import Catalog, SqliteCatalog
from tests.fixtures.feeds import Event, check_law
from tests.fixtures.oracle import Oracle


def execute(catalog: Catalog, *statements: str) -> None:
    """Change the catalog by hand."""
    if isinstance(catalog, SqliteCatalog):
        with closing(sqlite3.connect(catalog.path)) as connection:
            for statement in statements:
                connection.execute(statement)
            connection.commit()
        return
    with psycopg.connect(catalog.database.conninfo) as connection:
        for statement in statements:
            connection.execute(statement.encode())


def test_cumulative_delete_files_of_older_releases(lake: Lake, duckdb: Oracle, catalog: Catalog) -> None:
    """Up to format 0.3 a delete ended the delete file before it, and repeated what that had deleted."""
    duckdb.execute("CREATE TABLE t AS SELECT i FROM range(8) r(i)")
    [file] = lake.table("t").files()
    directory = lake.table("t").version.directory
    duckdb.detach()
    deleted = [[1], [1, 4], [1, 4, 6]]
    for place, positions in enumerate(deleted):
        snapshot, delete_id = 2 + place, 10 + place
        written = write_delete_file(lake.storage, directory, file.path, np.array(positions))
        execute(
            catalog,
            f"UPDATE ducklake_delete_file SET end_snapshot = {snapshot} WHERE end_snapshot IS NULL",
            "INSERT INTO ducklake_delete_file (delete_file_id, table_id, begin_snapshot, data_file_id, path,"
            " path_is_relative, format, delete_count, file_size_bytes, footer_size) VALUES"
            f" ({delete_id}, 1, {snapshot}, {file.data_file_id}, '{written.path}', true, 'parquet',"
            f" {len(positions)}, {written.file_size_bytes}, {written.footer_size})",
            "INSERT INTO ducklake_snapshot (snapshot_id, snapshot_time, schema_version, next_catalog_id, next_file_id)"
            f" SELECT {snapshot}, snapshot_time, schema_version, next_catalog_id, {delete_id + 1}"
            " FROM ducklake_snapshot WHERE snapshot_id = 1",
            "INSERT INTO ducklake_snapshot_changes (snapshot_id, changes_made)"
            f" VALUES ({snapshot}, 'deleted_from_table:1')",
        )

    found = check_law(lake)

    assert [sorted(e.row_id for e in found[i, i + 1]) for i in (1, 2, 3)] == [[1], [4], [6]]


def test_deletion_vectors(lake: Lake, duckdb: Oracle) -> None:
    duckdb.execute("CALL lake.set_option('write_deletion_vectors', true)")
    duckdb.execute("CREATE TABLE t AS SELECT i FROM range(8) r(i)")
    duckdb.execute("DELETE FROM t WHERE i IN (2, 3)")
    [[format_]] = duckdb.query("SELECT format FROM __ducklake_metadata_lake.ducklake_delete_file")
    assert format_ == "puffin"
    once = check_law(lake)
    duckdb.execute("DELETE FROM t WHERE i = 5")

    twice = check_law(lake)

    assert {e.row_id for e in once[1, 2]} == {2, 3}
    # The second vector takes the place of the first: the extension itself forgets when the first rows were deleted.
    assert {e.row_id for e in twice[1, 3]} == {2, 3, 5}


def test_files_without_field_ids(lake: Lake, duckdb: Oracle, tmp_path: Path) -> None:
    duckdb.execute("CREATE TABLE t (i INTEGER, s STRUCT(a INTEGER, b VARCHAR))")
    duckdb.execute("INSERT INTO t VALUES (1, {'a': 1, 'b': 'x'})")
    path = tmp_path / "foreign.parquet"
    rows = {"s": pa.array([{"b": "y", "a": 2}, {"b": "z", "a": 3}]), "i": pa.array([2, 3], pa.int32())}
    pq.write_table(pa.table({**rows, "s": rows["s"].cast(pa.struct([("b", pa.string()), ("a", pa.int32())]))}), path)
    duckdb.execute(f"CALL ducklake_add_data_files('lake', 't', '{path}')")
    duckdb.execute("ALTER TABLE t RENAME COLUMN i TO k")
    duckdb.execute("UPDATE t SET k = 20 WHERE k = 2")

    found = check_law(lake)

    [before] = [e.values for e in found[4, 5] if e.kind == "update_preimage"]
    assert before == (2, (("a", 2), ("b", "y")))
    assert found[2, 5] == feeds.extension_feed_of(duckdb, "t", 2, 5)


def test_a_renamed_table_has_its_whole_history(lake: Lake, duckdb: Oracle) -> None:
    duckdb.execute("CREATE TABLE old AS SELECT i FROM range(3) r(i)")
    duckdb.execute("ALTER TABLE old RENAME TO t")
    duckdb.execute("DELETE FROM t WHERE i = 0")

    check_law(lake)

    assert Counter(lake.changes("t", 0).column("_change_type").to_pylist()) == {"insert": 3, "delete": 1}
    assert lake.changes("old", 0, 1).num_rows == 3


def test_a_table_dropped_and_made_again_is_another_one(lake: Lake, duckdb: Oracle) -> None:
    duckdb.execute("CREATE TABLE t AS SELECT i FROM range(3) r(i)")
    duckdb.execute("DROP TABLE t")
    duckdb.execute("CREATE TABLE t AS SELECT i + 10 AS i FROM range(2) r(i)")

    assert sorted(feeds.events_of(lake.changes("t", 0))) == [
        Event(3, "insert", 0, (10,)),
        Event(3, "insert", 1, (11,)),
    ]
    assert lake.changes("t", 0, 1).num_rows == 3


def test_the_extension_and_we_tell_the_same_of_partitioned_and_sorted_tables(lake: Lake, duckdb: Oracle) -> None:
    duckdb.execute("CREATE TABLE t (i INTEGER, p INTEGER)")
    duckdb.execute("ALTER TABLE t SET PARTITIONED BY (p)")
    duckdb.execute("ALTER TABLE t SET SORTED BY (i DESC)")
    duckdb.execute("INSERT INTO t SELECT i, i % 3 FROM range(12) r(i)")
    duckdb.execute("UPDATE t SET p = 1 WHERE i < 6")
    duckdb.execute("DELETE FROM t WHERE p = 2")

    found = check_law(lake)

    assert found[3, 6] == feeds.extension_feed_of(duckdb, "t", 3, 6)
