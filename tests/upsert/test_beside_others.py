"""Upserts beside other writers, ours and DuckDB's: no key twice, no update lost, no file left behind."""

import itertools
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from ducklake_core import Lake
from ducklake_core.errors import CommitConflict
from ducklake_core.upsert.memory import UpsertMemory
from ducklake_core.upsert.newcomers import Newcomers
from ducklake_core.upsert.old_values import OldValues
from tests.fixtures.catalogs import Catalog
from tests.fixtures.consistency import check_lake
from tests.fixtures.oracle import Oracle, OracleError
from tests.fixtures.postgres import PostgresDatabase
from tests.upsert.test_upsert import MANY, SCHEMA, contents, rows


@pytest.fixture
def lake(catalog: Catalog) -> Iterator[Lake]:
    with Lake.create(catalog.url, catalog.data_path) as lake:
        fill(lake)
        yield lake


def fill(lake: Lake) -> None:
    lake.create_table("t", SCHEMA)
    lake.append("t", rows(list(range(MANY))))
    lake.append("t", rows([100, 101]))


OTHERS: dict[str, Callable[[Lake], object]] = {
    "insert of the same key": lambda lake: lake.append("t", rows([200], "other")),
    "file with the same key": lambda lake: lake.append("t", rows(list(range(200, 200 + MANY)), "other")),
    "update of a file row": lambda lake: lake.update("t", {"v": 7.0}, "id = 1"),
    "update of an inlined row": lambda lake: lake.update("t", {"v": 7.0}, "id = 100"),
    "delete": lambda lake: lake.delete("t", "id = 1"),
    "whole table": lambda lake: lake.delete("t", None),
    "upsert of another key": lambda lake: lake.upsert("t", rows([300]), keys="id"),
    "flush": lambda lake: lake.flush_inlined("t"),
    "merge": lambda lake: (lake.flush_inlined("t"), lake.merge_adjacent_files("t")),
    "another column": lambda lake: lake.add_column("t", "more", "int32", default=5),
    "rename": lambda lake: lake.rename_column("t", "v", "w"),
}


@pytest.mark.parametrize(
    ("name", "ids"),
    [
        *((name, [1, 100, 200]) for name in OTHERS),
        *((name, [200]) for name in ("insert of the same key", "file with the same key", "upsert of another key")),
        ("flush", [*range(20), 100, 200]),
    ],
)
def test_commit_that_rests_on_what_has_changed_is_refused_and_planned_anew(
    catalog: Catalog, lake: Lake, name: str, ids: list[int]
) -> None:
    has_changed = threading.Event()
    with Lake.open(catalog.url) as other:

        def act_first() -> None:
            if not has_changed.is_set():
                has_changed.set()
                OTHERS[name](other)

        commit = lake.committer.run

        def run(staged: object) -> object:
            act_first()
            return commit(staged)  # type: ignore[arg-type] # whatever it is, it is passed on

        lake.committer.run = run  # type: ignore[method-assign,assignment] # another comes first, once
        columns = {"fill_missing": True} if name == "another column" else {}
        data = rows(ids, "new")
        if name == "rename":
            with pytest.raises(Exception, match="has no column 'v'"):
                lake.upsert("t", data, keys="id")
            lake.committer.run = commit  # type: ignore[method-assign]
            data = {("w" if n == "v" else n): values for n, values in data.items()}
        lake.upsert("t", data, keys="id", **columns)  # type: ignore[arg-type]

    assert has_changed.is_set()
    found = contents(lake)
    assert {i: found[i] for i in ids} == {i: f"new{i}" for i in ids}
    check_lake(catalog)


def test_transaction_that_rests_on_rows_conflicts_also_where_it_changes_none(lake: Lake) -> None:
    lake.create_table("log", {"id": "int64"})
    others: list[Callable[[], object]] = [
        lambda: lake.update("t", {"name": "other"}, "id = 1"),
        lambda: lake.delete("t", "id = 2"),
    ]
    for key, act in enumerate(others, 1):
        with pytest.raises(CommitConflict, match=r"table 'main.t' had rows"), lake.transaction() as tx:  # noqa: PT012 # the commit fails
            assert tx.upsert("t", rows([key]), keys="id").unchanged == 1
            tx.append("log", {"id": [1]})
            act()


DUCKDB = {
    "MERGE that inserts": "MERGE INTO t USING (SELECT 200 AS id) s ON t.id = s.id WHEN NOT MATCHED THEN "
    "INSERT (id, name, v) VALUES (s.id, 'duckdb', 0)",
    "INSERT": "INSERT INTO t VALUES (200, 'duckdb', 0)",
    "UPDATE of a file row": "UPDATE t SET name = 'duckdb' WHERE id = 1",
    "UPDATE of an inlined row": "UPDATE t SET name = 'duckdb' WHERE id = 100",
    "DELETE by file": "DELETE FROM t WHERE id < 20",
    "DELETE of few": "DELETE FROM t WHERE id = 1",
}


@pytest.fixture
def on_postgres(postgres_database: PostgresDatabase, tmp_path: Path) -> Iterator[Lake]:
    """Give a lake on PostgreSQL: on SQLite, an open transaction of DuckDB keeps us from committing."""
    with Lake.create(postgres_database.url, f"{tmp_path}/data/") as lake:
        fill(lake)
        yield lake


@pytest.mark.parametrize(
    ("name", "ids"),
    [
        *((name, [1, 100, 200]) for name in DUCKDB),
        *((name, [200]) for name in ("MERGE that inserts", "INSERT")),
        ("DELETE by file", list(range(20))),
    ],
)
def test_duckdb_that_commits_after_us_sees_the_conflict(
    postgres_database: PostgresDatabase, oracle: Oracle, on_postgres: Lake, name: str, ids: list[int]
) -> None:
    """A transaction of DuckDB that began before our upsert must not follow on it: it would double keys or lose ours."""
    lake = on_postgres
    oracle.attach(postgres_database.attach)
    oracle.execute("SET ducklake_max_retry_count = 3")
    oracle.execute("BEGIN")
    oracle.execute(DUCKDB[name])
    lake.upsert("t", rows(ids, "new"), keys="id")

    with pytest.raises(OracleError, match=r"(?i)conflict"):
        oracle.execute("COMMIT")

    found = contents(lake)
    assert {i: found[i] for i in ids} == {i: f"new{i}" for i in ids}
    oracle.detach()
    oracle.attach(postgres_database.attach)
    assert dict(oracle.query("SELECT id, name FROM t")) == found


@pytest.mark.parametrize(
    ("call", "deleted"),
    [
        ("ducklake_merge_adjacent_files('lake')", "id = 100"),
        ("ducklake_rewrite_data_files('lake', 't', delete_threshold => 0)", "id < 20 OR id = 201"),
    ],
)
def test_files_that_duckdb_writes_anew_beside_us_do_not_bring_rows_back(
    postgres_database: PostgresDatabase, oracle: Oracle, on_postgres: Lake, call: str, deleted: str
) -> None:
    """A merge that meets inlined deletes only commits after them, and the rows that we ended are there twice."""
    lake = on_postgres
    lake.append("t", rows(list(range(200, 200 + MANY))))
    lake.delete("t", deleted)
    oracle.attach(postgres_database.attach)
    oracle.execute("BEGIN")
    assert oracle.query(f"CALL {call}") != []
    lake.upsert("t", rows([30, 202], "new"), keys="id")

    with pytest.raises(OracleError, match=r"(?i)conflict"):
        oracle.execute("COMMIT")

    found = contents(lake)
    assert (found[30], found[202], lake.table("t").count()) == ("new30", "new202", len(found))


def test_delete_by_key_is_a_conflict_for_deletes_of_duckdb(
    postgres_database: PostgresDatabase, oracle: Oracle, on_postgres: Lake
) -> None:
    lake = on_postgres
    oracle.attach(postgres_database.attach)
    oracle.execute("BEGIN")
    oracle.execute("DELETE FROM t WHERE id < 20")
    lake.delete_keys("t", {"id": [1]}, keys="id")
    with pytest.raises(OracleError, match=r"(?i)conflict"):
        oracle.execute("COMMIT")
    assert lake.table("t").count() == MANY + 1


def test_two_upsert_streams_and_an_append_stream_lose_nothing(catalog: Catalog, lake: Lake) -> None:
    """Each adds one to a counter of the same keys by what it reads: a lost update would show."""
    rounds, errors = 8, []

    def upserts(name: str) -> None:
        with Lake.open(catalog.url) as own:
            for turn in range(rounds):
                try:
                    own.upsert("t", rows([1, 100, 500 + turn], f"{name}{turn} "), keys="id")
                except CommitConflict as error:
                    errors.append(error)

    def appends() -> None:
        with Lake.open(catalog.url) as own:
            for turn in range(rounds):
                own.append("t", rows([1000 + turn]))

    threads = [threading.Thread(target=act) for act in (lambda: upserts("a"), lambda: upserts("b"), appends)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert not errors
    assert set(contents(lake)) == {*range(MANY), 100, 101, *range(500, 508), *range(1000, 1008)}
    check_lake(catalog)


def test_the_same_memory_with_other_rows_in_the_next_attempt_finds_their_keys(catalog: Catalog, lake: Lake) -> None:
    """A sink takes bad rows out of a batch; which ones may differ when the table was altered in between."""
    memory = UpsertMemory()
    with pytest.raises(CommitConflict), lake.transaction() as tx:  # noqa: PT012 # the commit fails
        tx.upsert("t", rows([1, 2, 3, 777], "new"), keys="id", memory=memory)
        lake.update("t", {"v": 7.0}, "id = 5")
    with lake.transaction() as tx:
        assert tx.upsert("t", rows([2, 3, 777], "new"), keys="id", memory=memory).updated == 2

    found = contents(lake)
    assert {i: found[i] for i in (1, 2, 3, 777)} == {1: "n1", 2: "new2", 3: "new3", 777: "new777"}
    check_lake(catalog)


def test_values_that_were_read_are_not_read_again(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = UpsertMemory()
    read: list[object] = []
    read_file = OldValues._read_file

    def read_and_note(self: OldValues, *args: Any) -> pa.Table:  # Any: passed on
        read.append(args)
        return read_file(self, *args)

    monkeypatch.setattr(OldValues, "_read_file", read_and_note)
    with pytest.raises(CommitConflict), lake.transaction() as tx:  # noqa: PT012 # the commit fails
        tx.upsert("t", rows([1, 2], "n1"), keys="id", memory=memory)
        lake.update("t", {"v": 7.0}, "id = 100")
    first = len(read)
    with lake.transaction() as tx:
        tx.upsert("t", rows([1, 2], "n1"), keys="id", memory=memory)
    assert len(read) == first > 0
    assert {i: contents(lake)[i] for i in (1, 2)} == {1: "n11", 2: "n12"}


def test_a_value_that_a_row_group_cannot_have_is_a_change_without_a_look(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[object] = []
    monkeypatch.setattr(OldValues, "_read_file", lambda *args: read.append(args))
    assert lake.upsert("t", rows([1, 2], "z"), keys="id").updated == 2
    assert not read


def test_an_upsert_follows_on_new_rows_of_other_keys_as_it_is(catalog: Catalog, lake: Lake) -> None:
    with Lake.open(catalog.url) as other, lake.transaction() as tx:
        tx.upsert("t", rows([1, 100, 200], "new"), keys="id")
        tx.upsert("t", rows([2], "new"), keys="id")
        other.append("t", rows([201, 202], "other"))
        other.append("t", rows(list(range(1000, 1000 + MANY)), "other"))
        other.append("t", rows([*range(203, 203 + MANY), 150], "between"))  # of which statistics do not tell enough
    found = contents(lake)
    assert {i: found[i] for i in (1, 2, 100, 200, 201)} == {
        1: "new1", 2: "new2", 100: "new100", 200: "new200", 201: "other201"
    }  # fmt: skip
    check_lake(catalog)


def test_what_a_commit_has_looked_at_is_not_looked_at_again_when_it_loses_its_turn(
    catalog: Catalog, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other commits between the look at its new rows and the snapshot, three times, and each time more rows."""
    looked: list[tuple[int, int]] = []
    look = Newcomers.tables_apart

    def watched(self: Newcomers, *arguments: Any) -> frozenset[int]:  # Any: as they are given
        looked.append((self.span.start, self.span.end))
        if len(looked) <= 3 and lake.database.dialect.concurrent_writers:
            other.append("t", rows([900 + len(looked)], "other"))
        return look(self, *arguments)

    monkeypatch.setattr(Newcomers, "tables_apart", watched)
    with Lake.open(catalog.url) as other, lake.transaction() as tx:
        tx.upsert("t", rows([1, 200], "new"), keys="id")
        other.append("t", rows([900], "other"))

    assert all(before[1] == after[0] for before, after in itertools.pairwise(looked))
    assert len(looked) == (4 if lake.database.dialect.concurrent_writers else 1)
    assert contents(lake)[1] == "new1"
    check_lake(catalog)


BRINGS_KEY: dict[str, Callable[[Lake], object]] = {
    "of the first upsert": lambda lake: lake.append("t", rows([200], "other")),
    "of the second": lambda lake: lake.append("t", rows([300, 2000], "other")),
    "that went again": lambda lake: (lake.append("t", rows([200], "other")), lake.delete("t", "id = 200")),
    "in a file": lambda lake: lake.append("t", rows(list(range(300, 300 + MANY)), "other")),
    "flushed": lambda lake: (lake.append("t", rows([200], "other")), lake.flush_inlined("t")),
}


@pytest.mark.parametrize("has_inlined", [False, True])
@pytest.mark.parametrize("how", BRINGS_KEY)
def test_a_new_row_with_a_key_of_an_upsert_is_a_conflict(
    catalog: Catalog,
    lake: Lake,
    how: str,
    has_inlined: bool,  # noqa: FBT001 # a parameter
) -> None:
    if not has_inlined:  # the other's insert makes the inlined table
        lake.drop_table("t")
        lake.create_table("t", SCHEMA)
        lake.append("t", rows(list(range(MANY))))
    with Lake.open(catalog.url) as other:
        tx = lake.transaction()
        tx.upsert("t", rows([1, 200], "new"), keys="id")
        tx.upsert("t", rows([300], "new"), keys="id")
        BRINGS_KEY[how](other)
        with pytest.raises(CommitConflict):
            tx.commit()


def test_an_upsert_from_an_older_base_sees_what_its_own_lake_has_done_since(lake: Lake) -> None:
    for key in (1000, 1001):  # the lake knows its own last snapshot, and assumes that it is the head
        lake.append("t", rows([key]))
    tx = lake.transaction()
    tx.upsert("t", rows([200], "new"), keys="id")
    lake.append("t", rows([200], "other"))
    with pytest.raises(CommitConflict):
        tx.commit()


@pytest.mark.parametrize("count", [1, MANY])
def test_a_truncate_rests_on_all_rows_that_are_there(catalog: Catalog, lake: Lake, count: int) -> None:
    """Rows that another adds meanwhile are gone as well, in a file or inlined."""
    events = rows([0, 3], op=["t", "u"])
    rules: dict[str, Any] = {"keys": "id", "apply_as_truncates": "op = 't'", "except_columns": ["op"]}
    tx = lake.transaction()
    tx.upsert("t", events, **rules)
    with Lake.open(catalog.url) as other:
        other.append("t", rows(list(range(1000, 1000 + count))))
    with pytest.raises(CommitConflict):
        tx.commit()
    assert len(contents(lake)) == MANY + 2 + count

    lake.upsert("t", events, **rules)
    assert contents(lake) == {3: "n3"}


@pytest.mark.timeout(60)  # it would go on for ever
def test_inlined_table_that_a_flush_has_dropped_is_not_asked_for_ever(catalog: Catalog, lake: Lake) -> None:
    lake.add_column("t", "more", "int32")  # rows are inlined into a second table from now on
    lake.append("t", rows([102], more=[1]))
    with Lake.open(catalog.url) as other:
        other.upsert("t", rows([102], "b", more=[1]), keys="id")  # which remembers both tables
        lake.flush_inlined("t", keep_superseded=0)
        lake.delete("t", "id = 3")  # in a file, which has no deletes so far

        assert other.upsert("t", rows([102], "c", more=[1]), keys="id").updated == 1

    assert contents(lake)[102] == "c102"
    check_lake(catalog)


def test_where_nothing_is_to_be_written_an_older_base_is_a_conflict(catalog: Catalog, lake: Lake) -> None:
    assert contents(lake)[1] == "n1"
    with Lake.open(catalog.url) as other:
        other.update("t", {"name": "other"}, "id = 1")

    with pytest.raises(CommitConflict, match="look again"), lake.transaction(fresh=False) as tx:
        assert tx.upsert("t", rows([1]), keys="id").unchanged == 1
