"""A flush in a loop beside inserts, deletes, updates and DuckDB readers, each a process: nobody sees a wrong row."""

import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from ducklake_core import Lake, faults
from ducklake_core.errors import CommitConflict, DuckLakeError
from tests.fixtures.catalogs import Catalog, PostgresCatalog, SqliteCatalog
from tests.fixtures.consistency import check_lake, stored_files
from tests.fixtures.oracle import Oracle, OracleError
from tests.fixtures.postgres import PostgresDatabase
from tests.fixtures.processes import CONTEXT, join, start

FIRST = 40  # rows that are there, with negative ids
SPAN = 1_000_000


@dataclass(slots=True)
class Report:
    """What one process has done; `errors` must stay empty."""

    name: str
    done: list[int] = field(default_factory=list)
    updated: list[int] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)


def insert(where: str, name: str, turns: int, barrier: threading.Barrier, reports: Any, _: Any) -> None:  # Any: shared
    report = Report(name)
    with Lake.open(where) as lake:
        barrier.wait()
        for turn in range(turns):
            first = int(name[-1]) * SPAN + 100 * turn
            ids = list(range(first, first + (30 if turn % 4 == 3 else 3)))
            try:
                lake.append("t", {"id": ids, "name": [str(i) for i in ids]})
                report.done += ids
            except DuckLakeError as error:
                report.errors.append(repr(error))
    reports.put(report)


def change(where: str, name: str, turns: int, barrier: threading.Barrier, reports: Any, _: Any) -> None:
    """Delete one of the first rows and rename the next, again and again."""
    report = Report(name)
    with Lake.open(where) as lake:
        barrier.wait()
        for turn in range(turns):
            try:
                lake.delete("t", f"id = {-2 - 2 * turn}")
                report.done.append(-2 - 2 * turn)
                lake.update("t", {"name": "changed"}, f"id = {-1 - 2 * turn}")
                report.updated.append(-1 - 2 * turn)
            except DuckLakeError as error:
                report.errors.append(repr(error))
    reports.put(report)


def flush(where: str, name: str, turns: int, barrier: threading.Barrier, reports: Any, working: Any) -> None:
    """Flush until the others have ended, and at least so many times."""
    report = Report(name)
    with Lake.open(where) as lake:
        barrier.wait()
        while working.value > 0 or len(report.done) < turns:
            try:
                report.done.append(lake.flush_inlined("t").rows)
            except CommitConflict:
                report.done.append(0)  # others were faster, time and again: allowed
            except DuckLakeError as error:
                report.errors.append(repr(error))
    reports.put(report)


def count_by_duckdb(where: str, name: str, turns: int, barrier: threading.Barrier, reports: Any, working: Any) -> None:
    """Read snapshots again and again: what one had when first seen, it always has."""
    report = Report(name)
    seen: dict[int, tuple[Any, ...]] = {}
    with Oracle() as oracle:
        oracle.attach(where)
        barrier.wait()
        while working.value > 0 or len(report.done) < turns:
            try:
                [(head,)] = oracle.query("SELECT max(snapshot_id) FROM lake.snapshots()")
                for at in {head, head // 2, 5}:
                    [found] = oracle.query(f"SELECT count(*), sum(id), count(DISTINCT id) FROM t AT (VERSION => {at})")
                    if seen.setdefault(at, found) != found or found[0] != found[2]:
                        report.errors.append(f"snapshot {at}: {found}, before {seen[at]}")
                report.done.append(head)
            except OracleError as error:
                if "database is locked" not in str(error):  # the extension never waits for SQLite's lock
                    report.errors.append(str(error))
                report.done.append(-1)
    reports.put(report)


def run_at_once(*tasks: tuple[Any, str, str, int]) -> dict[str, Report]:
    """Run (target, address, name, turns) each in a process; flushers and readers end after the writers."""
    with CONTEXT.Manager() as manager:
        barrier, reports = manager.Barrier(len(tasks)), manager.Queue()
        working = manager.Value("i", 1)
        everyone = [start(target, w, n, turns, barrier, reports, working) for target, w, n, turns in tasks]
        writers = [p for p, task in zip(everyone, tasks, strict=True) if task[0] in (insert, change)]
        codes = join(*writers)
        working.value = 0
        codes += join(*everyone)
        assert set(codes) == {0}
        found = [reports.get() for _ in tasks]
        return {report.name: report for report in found}


@pytest.fixture
def postgres(postgres_database: PostgresDatabase, tmp_path: Path) -> PostgresCatalog:
    return PostgresCatalog(postgres_database, f"{tmp_path}/data/")


@pytest.fixture
def sqlite(tmp_path: Path) -> SqliteCatalog:
    return SqliteCatalog(tmp_path / "lake.sqlite", f"{tmp_path}/data/")


@pytest.fixture
def oracle_after() -> Iterator[Oracle]:
    with Oracle() as oracle:
        yield oracle


def prepare(catalog: Catalog) -> None:
    with Lake.create(catalog.url, catalog.data_path) as lake:
        lake.create_table("t", {"id": "int64", "name": "varchar"})
        for first in range(-FIRST, 0, 10):
            ids = list(range(first, first + 10))
            lake.append("t", {"id": ids, "name": [str(i) for i in ids]})


def check(catalog: Catalog, oracle: Oracle, reports: dict[str, Report]) -> None:
    assert [error for report in reports.values() for error in report.errors] == []
    gone = set(reports["change"].done)
    expected = Counter(i for i in range(-FIRST, 0) if i not in gone)
    expected += Counter(i for name, report in reports.items() if name.startswith("insert") for i in report.done)
    with Lake.open(catalog.url) as lake:
        assert Counter(lake.table("t").read(["id"])["id"].to_pylist()) == expected
        changed = lake.table("t").read(["id"], "name = 'changed'")["id"].to_pylist()
        assert sorted(changed) == sorted(reports["change"].updated)
        lake.flush_inlined()
        assert Counter(lake.table("t").read(["id"])["id"].to_pylist()) == expected
    oracle.attach(catalog.attach)
    assert Counter(i for (i,) in oracle.query("SELECT id FROM t")) == expected
    check_lake(catalog)
    assert sum(reports["flush"].done) > 0


@pytest.mark.slow
def test_nothing_is_lost_beside_a_flush_on_postgresql(postgres: PostgresCatalog, oracle_after: Oracle) -> None:
    prepare(postgres)

    reports = run_at_once(
        (flush, postgres.url, "flush", 3),
        (insert, postgres.url, "insert 1", 40),
        (insert, postgres.url, "insert 2", 40),
        (change, postgres.url, "change", 15),
        (count_by_duckdb, postgres.attach, "count", 3),
    )

    check(postgres, oracle_after, reports)


@pytest.mark.slow
def test_nothing_is_lost_beside_a_flush_on_sqlite(sqlite: SqliteCatalog, oracle_after: Oracle) -> None:
    prepare(sqlite)

    reports = run_at_once(
        (flush, sqlite.url, "flush", 3),
        (insert, sqlite.url, "insert 1", 15),
        (change, sqlite.url, "change", 8),
        (count_by_duckdb, sqlite.attach, "count", 3),
    )

    check(sqlite, oracle_after, reports)


# ------------------------------------------------------------------------------------ one after another


@pytest.fixture
def lakes(catalog: Catalog) -> Iterator[tuple[Lake, Lake]]:
    prepare(catalog)
    with Lake.open(catalog.url) as one, Lake.open(catalog.url) as other:
        yield one, other
    faults.inject("after_flush_write", None)


def ids_of(lake: Lake) -> list[str]:
    return sorted(map(repr, lake.table("t").read(["id"])["id"].to_pylist()))


def once(act: Any) -> Any:
    """Do something at a fault point the first time it is reached."""

    def action() -> None:
        faults.inject("after_flush_write", None)
        act()

    return action


@pytest.mark.parametrize(
    ("act", "starts_over"),
    [
        (lambda lake: lake.append("t", {"id": [1], "name": ["1"]}), False),
        (lambda lake: lake.delete("t", "id = -1"), True),
        (lambda lake: lake.update("t", {"name": "x"}, "id = -1"), True),
        (lambda lake: lake.flush_inlined("t"), True),
        (lambda lake: lake.add_column("t", "x", "int64"), True),
        (lambda lake: lake.rename_column("t", "name", "title"), True),
    ],
    ids=["insert", "delete", "update", "flush", "add column", "rename column"],
)
def test_what_happens_while_files_are_written(
    catalog: Catalog, lakes: tuple[Lake, Lake], act: Any, *, starts_over: bool
) -> None:
    lake, other = lakes
    expected: list[str] = []

    def meanwhile() -> None:
        act(other)
        expected.extend(ids_of(other))

    faults.inject("after_flush_write", once(meanwhile))
    lake.flush_inlined("t")

    assert ids_of(lake) == expected
    flushes = [s for s in lake.snapshots() if "inline_flush" in (s.changes or "")]
    assert len(flushes) == 1
    # Who was inserted meanwhile stays inlined, whoever changed rows is flushed with the second attempt.
    assert lake.inlined_state("t").rows == (0 if starts_over else 1)
    check_lake(catalog)  # no file of the first attempt is left


def test_a_drop_while_files_are_written_is_not_flushed(catalog: Catalog, lakes: tuple[Lake, Lake]) -> None:
    lake, other = lakes
    faults.inject("after_flush_write", once(lambda: other.drop_table("t")))

    with pytest.raises(DuckLakeError, match="no table"):
        lake.flush_inlined("t")

    assert stored_files(catalog) == set()


@pytest.mark.parametrize(
    "act",
    [lambda lake: lake.delete("t", "id = -1"), lambda lake: lake.update("t", {"name": "x"}, "id = -1")],
    ids=["delete", "update"],
)
@pytest.mark.parametrize("with_deletes", [False, True], ids=["rows", "rows and file deletes"])
def test_our_changes_are_done_again_after_a_flush(
    catalog: Catalog, lakes: tuple[Lake, Lake], act: Any, *, with_deletes: bool
) -> None:
    lake, other = lakes
    if with_deletes:
        lake.append("t", {"id": list(range(100, 130)), "name": ["x"] * 30})
        lake.delete("t", "id = 110")

    def flush_first() -> None:
        faults.inject("after_head_read", None)
        other.flush_inlined("t")

    if catalog.name == "sqlite":  # there the head is read under the write lock: flush before
        begin = Lake.transaction

        def transaction(self: Lake, **arguments: Any) -> Any:
            tx = begin(self, **arguments)
            Lake.transaction = begin  # type: ignore[method-assign] # once
            other.flush_inlined("t")
            return tx

        Lake.transaction = transaction  # type: ignore[method-assign] # put back when it is called
    else:
        faults.inject("after_head_read", flush_first)

    snapshot = act(lake)

    assert snapshot is not None
    assert lake.table("t").count("id = -1 AND name <> 'x'") == 0
    check_lake(catalog)


def test_a_transaction_of_the_user_is_not_done_again(lakes: tuple[Lake, Lake]) -> None:
    lake, other = lakes
    tx = lake.transaction()
    tx.delete("t", "id = -1")
    other.flush_inlined("t")

    with pytest.raises(CommitConflict, match="had its inlined rows flushed in snapshot"):
        tx.commit()


def test_a_delete_beside_another_delete_is_a_conflict_even_if_a_flush_came_too(lakes: tuple[Lake, Lake]) -> None:
    lake, other = lakes
    tx = lake.transaction()
    tx.delete("t", "id = -1")
    other.flush_inlined("t")
    other.delete("t", "id = -1")

    with pytest.raises(CommitConflict, match="had rows deleted in snapshot") as refused:
        tx.commit()

    assert not refused.value.rows_moved
