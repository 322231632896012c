"""Many writers at once, ours and DuckDB's, each a process: nothing is lost, nothing doubled, nobody of ours fails."""

import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from ducklake_core import Lake
from ducklake_core.errors import CommitConflict, DuckLakeError, SchemaMismatch
from tests.fixtures.catalogs import Catalog, PostgresCatalog, SqliteCatalog
from tests.fixtures.consistency import check_lake
from tests.fixtures.oracle import Oracle, OracleError
from tests.fixtures.postgres import PostgresDatabase
from tests.fixtures.processes import CONTEXT, join, start

FEW, MANY = 4, 40  # below and above the limit of 10 rows
WRITER_SPAN = 1_000_000  # each writer has ids of its own


@dataclass(slots=True)
class Report:
    """What one writer has done: the ids it was told are in, and the errors it met."""

    writer: int
    acknowledged: list[int] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    extras: list[int] = field(default_factory=list)


def ids_of(writer: int, turn: int) -> list[int]:
    first = writer * WRITER_SPAN + turn * 100
    return list(range(first, first + (MANY if turn % 3 == 2 else FEW)))


def append_ours(url: str, writer: int, turns: int, barrier: threading.Barrier, reports: Any) -> None:  # Any: a queue
    report = Report(writer)
    with Lake.open(url) as lake:
        barrier.wait()
        for turn in range(turns):
            ids = ids_of(writer, turn)
            try:
                lake.append("t", {"id": ids, "name": [f"{i}" for i in ids]})
                report.acknowledged += ids
            except DuckLakeError as error:
                report.errors.append(f"{type(error).__name__}: {error}")
    reports.put(report)


def append_duckdb(attach: str, writer: int, turns: int, barrier: threading.Barrier, reports: Any) -> None:
    report = Report(writer)
    with Oracle() as oracle:
        oracle.attach(attach)
        barrier.wait()
        for turn in range(turns):
            ids = ids_of(writer, turn)
            try:
                oracle.execute(f"INSERT INTO t SELECT i, i::VARCHAR FROM range({ids[0]}, {ids[-1] + 1}) r(i)")
                report.acknowledged += ids
            except OracleError as error:
                report.errors.append(str(error))
    reports.put(report)


def delete_and_update(url: str, writer: int, turns: int, barrier: threading.Barrier, reports: Any) -> None:
    """Delete one of the first rows and rename the next, again and again."""
    report = Report(writer)
    with Lake.open(url) as lake:
        barrier.wait()
        for turn in range(turns):
            try:
                lake.delete("t", f"id = {-2 - 2 * turn}")
                report.acknowledged.append(-2 - 2 * turn)
                lake.update("t", {"name": "changed"}, f"id = {-1 - 2 * turn}")
                report.extras.append(-1 - 2 * turn)
            except DuckLakeError as error:
                report.errors.append(f"{type(error).__name__}: {error}")
    reports.put(report)


def alter_duckdb(attach: str, writer: int, turns: int, barrier: threading.Barrier, reports: Any) -> None:
    """Add a column and drop it, again and again; autocommit, so that each is a snapshot."""
    report = Report(writer)
    with Oracle() as oracle:
        oracle.attach(attach)
        barrier.wait()
        for turn in range(turns):
            for statement in (
                f"ALTER TABLE t ADD COLUMN c{turn} INTEGER DEFAULT {turn}",
                f"ALTER TABLE t DROP c{turn}",
            ):
                try:
                    oracle.execute(statement)
                    report.acknowledged.append(turn)
                except OracleError as error:
                    report.errors.append(str(error))
    reports.put(report)


@pytest.fixture
def postgres(postgres_database: PostgresDatabase, tmp_path: Path) -> PostgresCatalog:
    catalog = PostgresCatalog(postgres_database, f"{tmp_path}/data/")
    prepare(catalog)
    return catalog


@pytest.fixture
def sqlite(tmp_path: Path) -> SqliteCatalog:
    catalog = SqliteCatalog(tmp_path / "lake.sqlite", f"{tmp_path}/data/")
    prepare(catalog)
    return catalog


@pytest.fixture
def oracle_after() -> Iterator[Oracle]:
    with Oracle() as oracle:
        yield oracle


def prepare(catalog: Catalog) -> None:
    """Create a lake whose table has 20 inlined rows with negative ids and 20 in a file."""
    with Lake.create(catalog.url, catalog.data_path) as lake:
        lake.create_table("t", {"id": "int64", "name": "varchar"})
        for first in (-10, -20):
            ids = list(range(first, first + 10))
            lake.append("t", {"id": ids, "name": [str(i) for i in ids]})
        ids = list(range(-40, -20))
        lake.append("t", {"id": ids, "name": [str(i) for i in ids]})


def run_at_once(*writers: tuple[Any, str, int]) -> list[Report]:
    """Run (target, address, turns) each in a process, let them begin together, and return their reports by writer."""
    with CONTEXT.Manager() as manager:
        barrier, reports = manager.Barrier(len(writers)), manager.Queue()
        arguments = [(target, where, n, turns, barrier, reports) for n, (target, where, turns) in enumerate(writers)]
        codes = join(*[start(*a) for a in arguments])
        assert codes == [0] * len(writers)
        return sorted((reports.get() for _ in writers), key=lambda report: report.writer)


def check_rows(catalog: Catalog, oracle: Oracle, expected: list[int]) -> None:
    """Both readers see exactly these ids; row ids are unique; the statistics bound the data."""
    with Lake.open(catalog.url) as lake:
        ours = Counter(lake.table("t").read(["id"])["id"].to_pylist())
        assert lake.table("t").count() == len(expected)
    oracle.attach(catalog.attach)
    assert ours == Counter(expected)
    assert Counter(i for (i,) in oracle.query("SELECT id FROM t")) == ours
    assert oracle.query("SELECT count(*), count(DISTINCT rowid), min(id), max(id) FROM t") == [
        (len(expected), len(expected), min(expected), max(expected))
    ]
    # A bound narrower than the data would make these wrong.
    assert oracle.query("SELECT id FROM t ORDER BY id") == [(i,) for i in sorted(expected)]
    for some in (min(expected), max(expected), expected[len(expected) // 2]):
        assert oracle.query(f"SELECT count(*) FROM t WHERE id = {some}") == [(1,)]
    [(low, high)] = catalog.query(
        "SELECT min_value, max_value FROM ducklake_table_column_stats"
        " WHERE column_id = 1 AND table_id = (SELECT max(table_id) FROM ducklake_table)"
    )
    assert int(low) <= min(expected)
    assert int(high) >= max(expected)


def is_own_failure_of_the_extension(message: str) -> bool:
    """Tell whether an error is one the extension documents for concurrent commits."""
    return "Failed to commit DuckLake transaction" in message and any(
        reason in message for reason in ("Exceeded the maximum retry count", "Transaction conflict", "conflict")
    )


FIRST = list(range(-40, 0))


@pytest.mark.slow
def test_eight_of_ours_and_two_of_duckdb_append_at_once(postgres: PostgresCatalog, oracle_after: Oracle) -> None:
    ours = [(append_ours, postgres.url, 12)] * 8
    theirs = [(append_duckdb, postgres.attach, 6)] * 2

    reports = run_at_once(*ours, *theirs)

    assert [error for report in reports[:8] for error in report.errors] == []
    assert [e for r in reports[8:] for e in r.errors if not is_own_failure_of_the_extension(e)] == []
    check_rows(postgres, oracle_after, FIRST + [i for report in reports for i in report.acknowledged])
    check_lake(postgres, orphans=sum(len(report.errors) for report in reports[8:]))


@pytest.mark.slow
def test_first_appends_into_a_table_that_is_not_inlined_yet(postgres: PostgresCatalog, oracle_after: Oracle) -> None:
    """Each of them would make the table of inlined rows: one does, the others go on in it."""
    with Lake.open(postgres.url) as lake:
        lake.set_option("data_inlining_row_limit", 0)
        lake.drop_table("t")
        lake.create_table("t", {"id": "int64", "name": "varchar"})
        lake.set_option("data_inlining_row_limit", 10)

    reports = run_at_once(*[(append_ours, postgres.url, 2)] * 6)

    assert [error for report in reports for error in report.errors] == []
    check_rows(postgres, oracle_after, [i for report in reports for i in report.acknowledged])
    check_lake(postgres)


@pytest.mark.slow
def test_four_writers_on_sqlite(sqlite: SqliteCatalog, oracle_after: Oracle) -> None:
    reports = run_at_once(*[(append_ours, sqlite.url, 12)] * 4)

    assert [error for report in reports for error in report.errors] == []
    check_rows(sqlite, oracle_after, FIRST + [i for report in reports for i in report.acknowledged])
    check_lake(sqlite)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["postgres", "sqlite"])
def test_appends_beside_deletes_and_updates(request: pytest.FixtureRequest, oracle_after: Oracle, kind: str) -> None:
    catalog: Catalog = request.getfixturevalue(kind)

    *appends, changes = run_at_once(*[(append_ours, catalog.url, 9)] * 3, (delete_and_update, catalog.url, 12))

    assert [error for report in [*appends, changes] for error in report.errors] == []
    gone = set(changes.acknowledged)
    rows = [i for i in FIRST if i not in gone] + [i for report in appends for i in report.acknowledged]
    check_rows(catalog, oracle_after, rows)
    assert {i for (i,) in oracle_after.query("SELECT id FROM t WHERE name = 'changed'")} == set(changes.extras)
    check_lake(catalog)


@pytest.mark.slow
def test_appends_beside_changes_of_the_definition_by_duckdb(postgres: PostgresCatalog, oracle_after: Oracle) -> None:
    *appends, _ = run_at_once(*[(append_ours, postgres.url, 15)] * 3, (alter_duckdb, postgres.attach, 6))

    refused = [error for report in appends for error in report.errors]
    assert all(error.startswith((CommitConflict.__name__, SchemaMismatch.__name__)) for error in refused), refused
    assert all("snapshot" in e for e in refused if e.startswith(CommitConflict.__name__)), refused
    check_rows(postgres, oracle_after, FIRST + [i for report in appends for i in report.acknowledged])
    check_lake(postgres)


def test_conflict_of_two_deletes_of_one_row_keeps_one(postgres: PostgresCatalog) -> None:
    with Lake.open(postgres.url) as first, Lake.open(postgres.url) as second:
        one, two = first.transaction(), second.transaction()
        one.delete("t", "id = -1")
        two.update("t", {"name": "late"}, "id = -1")
        one.commit()

        with pytest.raises(CommitConflict, match="had rows deleted in snapshot 5"):
            two.commit()

        assert first.table("t").read(filter="id = -1") == pa.table(
            {"id": pa.array([], pa.int64()), "name": pa.array([], pa.string())}
        )
