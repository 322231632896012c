"""Totals of a whole lake: the same as each table says of itself, in few questions, without a write."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

import psycopg
import pyarrow as pa
import pytest

from ducklake_core import Epoch, Lake
from ducklake_core.catalog.session import Row, Session, Statement
from ducklake_core.model import TableTotals
from tests.fixtures.catalogs import Catalog, PostgresCatalog
from tests.fixtures.oracle import Oracle


@pytest.fixture
def lake(catalog: Catalog) -> Iterator[Lake]:
    with Lake.create(catalog.url, catalog.data_path) as lake:
        yield lake


def rows(*numbers: int) -> pa.Table:
    return pa.table({"i": list(numbers), "s": [f"row {i}" for i in numbers]})


def totals_of(lake: Lake, name: str) -> TableTotals:
    return next(table for table in lake.totals().tables if table.name == name)


def test_totals_are_what_each_table_says(lake: Lake) -> None:
    lake.set_option("data_inlining_row_limit", 100)
    lake.create_schema("other.schema")
    for name in ("t", '"other.schema".u', "empty"):
        lake.create_table(name, {"i": "int64", "s": "varchar"})
    for name in ("t", '"other.schema".u'):
        lake.append(name, rows(*range(1000)))
        lake.delete(name, "i < 10")  # by a delete file or by catalog rows
        lake.append(name, rows(*range(2000, 2020)))
        lake.delete(name, "i = 2000")
    lake.add_column("t", "more", "int64")
    lake.append("t", rows(3000, 3001), fill_missing=True)  # a second table of inlined rows

    found = lake.totals()

    assert [table.name for table in found.tables] == ["main.empty", "main.t", '"other.schema".u']
    assert found.snapshots == len(lake.snapshots())
    assert (found.oldest.snapshot_id, found.head.snapshot_id) == (0, found.snapshots - 1)
    for table in found.tables:
        read = lake.table(table.name)
        assert table.inlined == lake.inlined_state(table.name)
        assert table.rows == read.count()
        assert (table.files, table.file_bytes) == (len(read.files()), sum(f.file_size_bytes for f in read.files()))
    assert totals_of(lake, "main.t").deleted_rows == 10


def test_small_files_are_those_below_the_bound(lake: Lake) -> None:
    lake.set_option("data_inlining_row_limit", 0)
    lake.create_table("t", {"i": "int64", "s": "varchar"})
    lake.append("t", rows(1))
    lake.append("t", rows(*range(50_000)))
    sizes = sorted(file.file_size_bytes for file in lake.table("t").files())

    assert [lake.totals(bound).tables[0].small_files for bound in (sizes[0], sizes[1], sizes[1] + 1)] == [0, 1, 2]


def test_the_number_of_questions_does_not_grow_with_the_tables(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    lake.set_option("data_inlining_row_limit", 100)

    asked = [_questions(lake, monkeypatch, tables) for tables in (2, 12)]

    assert asked[0] == asked[1] > 0


def _questions(lake: Lake, monkeypatch: pytest.MonkeyPatch, tables: int) -> int:
    """Return how many statements the totals take with so many tables more."""
    with lake.transaction() as tx:
        for number in range(tables):
            tx.create_table(f"of{tables}_{number}", {"i": "int64", "s": "varchar"})
            tx.append(f"of{tables}_{number}", rows(1))
    kind = lake.database.dialect.session
    run, asked = kind.run, list[Statement]()

    def count(session: Session, statements: Sequence[Statement]) -> list[list[Row]]:
        asked.extend(statements)
        return run(session, statements)

    with monkeypatch.context() as patch:
        patch.setattr(kind, "run", count)
        found = lake.totals().tables
    assert sum(table.rows for table in found) == len(found)
    return len(asked)


def test_only_the_newest_snapshots_are_read_where_there_is_a_limit(lake: Lake) -> None:
    lake.create_table("t", {"i": "int64", "s": "varchar"})
    for number in range(5):
        lake.append("t", rows(number))
    times = [snapshot.snapshot_time for snapshot in lake.snapshots()]

    assert [s.snapshot_id for s in lake.snapshots(limit=2)] == [5, 6]
    assert [s.snapshot_id for s in lake.snapshots(since=times[3], limit=100)] == [3, 4, 5, 6]
    assert lake.snapshots(limit=2)[1] == lake.snapshots()[-1]
    assert lake.snapshots(since=datetime.now(UTC), limit=2) == []


def test_names_of_what_was_renamed_or_dropped_are_known(lake: Lake) -> None:
    lake.create_schema("s")
    lake.create_table("s.before", {"i": "int64"})
    lake.create_table("gone", {"i": "int64"})
    ids = {table.name: table.version.table_id for table in lake.tables()}
    lake.rename_table("s.before", "after")
    lake.drop_table("gone")

    names = lake.object_names()

    assert names[ids["s.before"]] == "s.after"
    assert names[ids["main.gone"]] == "main.gone"
    assert {"main", "s"} <= set(names.values())


def test_tables_are_found_by_their_columns(lake: Lake) -> None:
    lake.create_table("t", {"i": "int64", "s": "varchar"})
    lake.create_table("nested", {"i": "int64", "x": "struct(s varchar)"})
    wanted = lake.table("t").version.table_id

    assert lake.tables_with_columns(["s", "i"]) == {wanted}
    lake.drop_column("t", "s")
    assert lake.tables_with_columns(["s", "i"]) == set()


def test_a_ledger_is_read_where_there_is_one_and_not_made(catalog: Catalog, lake: Lake) -> None:
    before = catalog.dump().keys()

    assert (lake.ledger_entries(), lake.consumers(), catalog.dump().keys()) == ([], [], before)

    lake.create_table("t", {"i": "int64", "s": "varchar"})
    for stream in ("b", "a"):
        lake.commit_epoch(Epoch(stream, 0, "query", "run"), lambda tx: tx.append("t", rows(1)))
    assert [entry.stream for entry in lake.ledger_entries()] == ["a", "b"]
    assert lake.ledger_entries()[0] == lake.ledger_entry("a")


def test_a_forgotten_stream_is_unknown_and_others_stay(lake: Lake) -> None:
    lake.create_table("t", {"i": "int64", "s": "varchar"})
    for stream in ("a", "b"):
        lake.commit_epoch(Epoch(stream, 0, "query", "run"), lambda tx: tx.append("t", rows(1)))

    assert (lake.forget_stream("a"), lake.forget_stream("a")) == (True, False)
    assert [entry.stream for entry in lake.ledger_entries()] == ["b"]
    assert lake.table("t").count() == 2


def test_a_lake_of_duckdb_has_totals(catalog: Catalog, oracle: Oracle) -> None:
    oracle.attach(catalog.attach, data_path=catalog.data_path)
    oracle.execute("CREATE TABLE t AS SELECT range AS i FROM range(5000); INSERT INTO t VALUES (1), (2)")
    oracle.execute("DELETE FROM t WHERE i < 3")
    expected = oracle.query("SELECT count(*) FROM t")[0][0]
    oracle.close()

    with Lake.open(catalog.url) as lake:
        assert totals_of(lake, "main.t").rows == expected
        assert lake.ledger_entries() == []


def test_deletes_of_files_that_were_rewritten_do_not_count(catalog: Catalog, lake: Lake, oracle: Oracle) -> None:
    lake.set_option("data_inlining_row_limit", 100)
    lake.create_table("t", {"i": "int64", "s": "varchar"})
    lake.append("t", rows(*range(1000)))
    lake.delete("t", "i < 10")
    lake.close()
    oracle.attach(catalog.attach)
    oracle.execute("CALL ducklake_rewrite_data_files('lake', 't', delete_threshold => 0)")
    oracle.close()

    found = totals_of(lake, "main.t")

    assert (found.rows, found.deleted_rows, found.rows) == (990, 0, lake.table("t").count())


@pytest.mark.parametrize("make_catalog", ["postgres"], indirect=True)
def test_a_role_that_may_only_read_can_ask(catalog: PostgresCatalog, lake: Lake) -> None:
    lake.create_table("t", {"i": "int64", "s": "varchar"})
    lake.append("t", rows(1))
    lake.ledger_entry("s")  # makes the ledger
    with psycopg.connect(catalog.database.conninfo, autocommit=True) as connection:
        connection.execute("DROP ROLE IF EXISTS looks; CREATE ROLE looks LOGIN; GRANT pg_read_all_data TO looks")
    url = catalog.url.replace(f"{psycopg.conninfo.conninfo_to_dict(catalog.database.conninfo)['user']}@", "looks@")
    assert url != catalog.url

    with Lake.open(url) as seen:
        assert (seen.totals(), seen.ledger_entries(), seen.consumers()) == (lake.totals(), [], [])
