"""Flush: the same catalog rows and files as the extension's, and the same rows at every snapshot as before."""

from collections.abc import Sequence
from itertools import combinations_with_replacement
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ducklake_core import Lake
from tests.fixtures.catalogs import Catalog
from tests.fixtures.pairs import Pair, rows_by_oracle, texts_of

FLUSH = "CALL ducklake_flush_inlined_data('{lake}')"


def flush(pair: Pair, ranges: Sequence[tuple[int, int]] = ()) -> None:
    """Flush both lakes; each must look as before, at every snapshot and between any two."""
    head = pair.lakes["lake_a"].snapshots()[-1].snapshot_id
    ranges = ranges or [(1, head), (head // 2, head)]
    before = {name: history(pair, name, ranges) for name in pair.lakes}
    pair.step(lambda lake: lake.flush_inlined(keep_superseded=0), FLUSH)
    pair.attach_again()  # an open session cannot read any more once a table of inlined rows that it knows is dropped
    for name, seen in before.items():
        now = history(pair, name, ranges)
        assert {key: now[key] for key in seen} == seen


def history(pair: Pair, name: str, ranges: Sequence[tuple[int, int]]) -> dict[Any, Any]:
    """Return what both readers see of every table at every snapshot, and DuckDB's changes over ranges of them."""
    lake, oracle = pair.lakes[name], pair.oracle
    snapshots = [s.snapshot_id for s in lake.snapshots()]
    found: dict[Any, Any] = {}
    for at in snapshots:
        for table in lake.tables(at=at):
            columns = table.version.columns
            found[at, table.name, "us"] = sorted(texts_of(table.read(), columns), key=repr)
            source = f"{name}.{table.name} AT (VERSION => {at})"
            found[at, table.name, "duckdb"] = sorted(rows_by_oracle(oracle, source, columns), key=repr)
    for table in lake.tables():
        for start, end in ranges:
            rows = oracle.query(f"SELECT * FROM {name}.table_changes('{table.version.name}', {start}, {end})")
            found[start, end, table.name] = sorted(map(repr, rows))
    return found


def create(pair: Pair) -> None:
    pair.step(
        lambda lake: lake.create_table("t", {"i": "int32", "s": "varchar"}), "CREATE TABLE t (i INTEGER, s VARCHAR)"
    )


def test_worked_example_of_the_format(pair: Pair) -> None:
    create(pair)
    pair.insert("t", "VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    pair.insert("t", "VALUES (4, 'd')")
    pair.delete("t", "i = 2")
    pair.update("t", {"s": "cc"}, "s = 'cc'", "i = 3")
    pair.insert("t", "SELECT i, 'x' FROM range(100, 120) r(i)")
    pair.delete("t", "i = 105")
    pair.update("t", {"s": "upd"}, "s = 'upd'", "i = 106")

    def last(lake: Lake) -> None:
        with lake.transaction() as tx:
            tx.append("t", pa.table({"i": pa.array([50], pa.int32()), "s": ["x"]}))
            tx.delete("t", "i = 1")

    pair.step(last, "BEGIN; INSERT INTO t VALUES (50, 'x'); DELETE FROM t WHERE i = 1; COMMIT")

    flush(pair, list(combinations_with_replacement(range(1, 10), 2)))

    catalog = pair.catalogs["lake_a"]
    assert catalog.query("SELECT * FROM ducklake_inlined_data_1_1") == []
    assert catalog.query("SELECT * FROM ducklake_inlined_delete_1") == []
    files = catalog.query(
        "SELECT data_file_id, begin_snapshot, record_count, row_id_start, partial_max FROM ducklake_data_file"
        " ORDER BY 1"
    )
    assert files == [(3, 6, 20, 4, None), (6, 2, 7, 0, 9)]
    deletes = catalog.query(
        "SELECT delete_file_id, begin_snapshot, data_file_id, delete_count, partial_max FROM ducklake_delete_file"
        " ORDER BY 1"
    )
    assert deletes == [(7, 7, 3, 2, 8), (8, 4, 6, 3, None)]
    assert rows_of(catalog, "ducklake_data_file", 6) == [
        (1, "a", 0, 2),
        (2, "b", 1, 2),
        (3, "c", 2, 2),
        (3, "cc", 2, 5),
        (4, "d", 3, 3),
        (106, "upd", 10, 8),
        (50, "x", 24, 9),
    ]
    assert [row[1:] for row in rows_of(catalog, "ducklake_delete_file", 7)] == [(5, 7), (6, 8)]
    assert [row[1:] for row in rows_of(catalog, "ducklake_delete_file", 8)] == [(0, 9), (1, 4), (2, 5)]
    [(_, changes)] = catalog.query(
        "SELECT snapshot_id, changes_made FROM ducklake_snapshot_changes WHERE snapshot_id = 10"
    )
    assert changes == "deleted_from_table:1,inline_flush:1"


def rows_of(catalog: Catalog, table: str, file_id: int) -> list[tuple[Any, ...]]:
    key = table.removeprefix("ducklake_") + "_id"
    [(path,)] = catalog.query(f"SELECT path FROM {table} WHERE {key} = {file_id}")
    rows = pq.read_table(f"{catalog.data_path}main/t/{path}", partitioning=None)
    return list(zip(*(column.to_pylist() for column in rows.columns), strict=True))


def test_nothing_to_flush_makes_no_snapshot(pair: Pair) -> None:
    create(pair)
    flush(pair)
    pair.insert("t", "SELECT i, 'x' FROM range(30) r(i)")
    flush(pair)
    assert len(pair.lakes["lake_a"].snapshots()) == 3


def test_rows_of_several_columns_and_the_tables_they_leave_behind(pair: Pair) -> None:
    pair.unordered_files = True  # the extension goes through the tables of inlined rows in the order of a hash
    create(pair)
    pair.insert("t", "VALUES (1, 'a'), (2, NULL)")
    pair.step(lambda lake: lake.add_column("t", "x", "int32", 7), "ALTER TABLE t ADD COLUMN x INTEGER DEFAULT 7")
    pair.insert("t", "VALUES (3, 'c', 8)")
    pair.delete("t", "i = 1")
    pair.step(lambda lake: lake.rename_column("t", "s", "name"), "ALTER TABLE t RENAME COLUMN s TO name")
    pair.insert("t", "VALUES (4, 'd', 9)")
    pair.promote("t", "x", "int64", "BIGINT")
    pair.insert("t", "VALUES (5, 'e', 5000000000)")
    pair.update("t", {"x": 1}, "x = 1", "i < 4")
    pair.step(lambda lake: lake.drop_column("t", "name"), "ALTER TABLE t DROP COLUMN name")
    pair.insert("t", "VALUES (6, 60)")

    flush(pair)

    for catalog in pair.catalogs.values():
        assert catalog.query("SELECT schema_version FROM ducklake_inlined_data_tables") == [(5,)]
    pair.insert("t", "VALUES (7, 70)")
    pair.delete("t", "i IN (2, 5, 7)")
    flush(pair)


@pytest.mark.parametrize("existing", [False, True], ids=["no delete file", "a delete file"])
def test_deletes_of_file_rows(pair: Pair, *, existing: bool) -> None:
    pair.ignored["changes_made"] = "the extension calls a flush of deletes without rows a delete only"
    create(pair)
    pair.insert("t", "SELECT i, 'x' FROM range(40) r(i)")
    pair.insert("t", "SELECT i, 'y' FROM range(100, 130) r(i)")
    pair.unordered_deletes = True
    if existing:
        pair.delete("t", "i < 15")
    pair.delete("t", "i = 20")
    pair.delete("t", "i = 21 OR i = 105")
    flush(pair)
    assert pair.lakes["lake_a"].snapshots()[-1].changes in (
        "deleted_from_table:1,inline_flush:1",
        "deleted_from_table:1",
    )
    pair.delete("t", "i = 22")
    pair.insert("t", "VALUES (1000, 'z')")
    flush(pair)


def test_all_rows_of_a_file_deleted_and_of_one_flushed(pair: Pair) -> None:
    create(pair)
    pair.insert("t", "SELECT i, 'x' FROM range(11) r(i)")
    pair.unordered_deletes = True
    pair.delete("t", "i < 5")
    pair.delete("t", None)
    pair.insert("t", "VALUES (1, 'a'), (2, 'b')")
    pair.delete("t", None)
    flush(pair)
    pair.insert("t", "VALUES (3, 'a')")
    flush(pair)


def test_partitions_of_each_schema_version(pair: Pair) -> None:
    pair.partitioned = True
    create(pair)
    pair.insert("t", "VALUES (1, 'a'), (2, 'b')")
    pair.step(lambda lake: lake.set_partitioning("t", ["s"]), "ALTER TABLE t SET PARTITIONED BY (s)")
    pair.insert("t", "VALUES (3, 'a'), (4, 'b'), (5, NULL), (6, 'a/b')")
    pair.update("t", {"s": "b"}, "s = 'b'", "i IN (1, 3)")
    pair.delete("t", "i = 4")
    flush(pair)
    pair.insert("t", "VALUES (7, 'a'), (8, 'b')")
    pair.step(
        lambda lake: lake.set_partitioning("t", ["bucket(3, i)"]), "ALTER TABLE t SET PARTITIONED BY (bucket(3, i))"
    )
    pair.insert("t", "VALUES (9, 'a'), (10, 'b')")
    pair.step(lambda lake: lake.set_partitioning("t", []), "ALTER TABLE t RESET PARTITIONED BY")
    pair.insert("t", "VALUES (11, 'a'), (12, 'b')")
    flush(pair)
