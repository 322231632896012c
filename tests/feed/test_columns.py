"""A feed has the columns of the table at its end: older rows are shown in them, matched by field id at every depth."""

import datetime as dt

import pyarrow as pa

from ducklake_core import Lake
from tests.fixtures.feeds import check_law
from tests.fixtures.oracle import Oracle
from tests.fuzz.model import TYPES, TableModel


def test_older_rows_are_shown_in_the_columns_of_the_end(lake: Lake, duckdb: Oracle) -> None:
    for limit in (0, 10):
        name = f"t{limit}"
        duckdb.execute(f"CALL lake.set_option('data_inlining_row_limit', {limit})")
        duckdb.execute(
            f"CREATE TABLE {name} (a INTEGER, b VARCHAR, s STRUCT(x INTEGER, y VARCHAR), l STRUCT(z INTEGER)[])"
        )
        duckdb.execute(f"INSERT INTO {name} VALUES (1, 'b', {{'x': 1, 'y': 'y'}}, [{{'z': 3}}])")
        first: int = lake.snapshots()[-1].snapshot_id
        lake.rename_column(name, "a", "renamed")
        lake.promote_column(name, "renamed", "int64")
        lake.add_column(name, "added", "varchar", "default")
        lake.drop_column(name, "b")
        lake.rename_column(name, "s.x", "x2")
        lake.add_column(name, "s.w", "int32")
        lake.drop_column(name, "s.y")
        lake.promote_column(name, "s.x2", "int64")
        lake.rename_column(name, "l.element.z", "z2")
        lake.delete(name, "renamed = 1")

        found = lake.changes(name, first)

        expected = {"renamed": 1, "s": {"x2": 1, "w": None}, "l": [{"z2": 3}], "added": "default"}
        kinds = []
        for row in found.to_pylist():
            kinds.append(row["_change_type"])
            assert {column: row[column] for column in expected} == expected
        assert sorted(kinds) == ["delete", "insert"]
        assert found.schema.names[:4] == ["renamed", "s", "l", "added"]
        assert found.schema.field("renamed").type == pa.int64()
        check_law(lake, name)


def test_a_range_has_the_columns_of_its_own_end(lake: Lake, duckdb: Oracle) -> None:
    duckdb.execute("CREATE TABLE t AS SELECT 1 AS a, 'x' AS b")
    duckdb.execute("ALTER TABLE t RENAME COLUMN a TO c")
    duckdb.execute("ALTER TABLE t DROP COLUMN b")

    assert [lake.changes("t", 1, end).column_names[:-4] for end in (1, 2, 3)] == [["a", "b"], ["c", "b"], ["c"]]


def test_some_columns_or_none_are_read(lake: Lake, duckdb: Oracle) -> None:
    duckdb.execute("CREATE TABLE t AS SELECT i AS a, 'x' || i AS b FROM range(3) r(i)")
    lake.set_option("data_inlining_row_limit", 10)
    lake.append("t", pa.table({"a": [3], "b": ["x3"]}))

    chosen = lake.changes("t", 1, columns=["b"])
    none = lake.changes("t", 1, columns=[])

    assert sorted(chosen.column("b").to_pylist()) == ["x0", "x1", "x2", "x3"]
    assert chosen.column_names[0] == "b"
    assert sorted(none.column("_rowid").to_pylist()) == [0, 1, 2, 3]


def test_every_type_comes_through_files_inlined_rows_and_flushes(lake: Lake) -> None:
    columns = tuple((f"c{i}", type_) for i, type_ in enumerate(TYPES))
    model = TableModel(columns)
    rows = model.make_rows(7, 12)
    for limit in (0, 100):
        name = f"t{limit}"
        lake.set_option("data_inlining_row_limit", limit)
        lake.create_table(name, {column: type_.lake for column, type_ in columns})
        first = lake.append(name, model.arrow(rows))
        assert first is not None
        lake.delete(name, "c0 IS NOT NULL")

        before = check_law(lake, name)
        lake.flush_inlined(name)
        after = check_law(lake, name)

        assert {span: after[span] for span in before} == before
        assert lake.changes(name, first.snapshot_id).num_rows > len(rows)


def test_times_are_those_of_the_snapshots(lake: Lake, duckdb: Oracle) -> None:
    duckdb.execute("CREATE TABLE t AS SELECT i FROM range(3) r(i)")
    duckdb.execute("UPDATE t SET i = i + 1")
    duckdb.execute("DELETE FROM t WHERE i = 2")

    found = lake.changes("t", 0)

    times: dict[int, dt.datetime] = {s.snapshot_id: s.snapshot_time for s in lake.snapshots()}
    assert {row["_commit_version"]: row["_commit_timestamp"] for row in found.to_pylist()} == {
        i: times[i] for i in times if i > 0
    }
    by_time = lake.changes("t", times[2], times[2])
    assert set(by_time.column("_commit_version").to_pylist()) == {2}
