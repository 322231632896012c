"""Rows that are known from our own commits: they save questions to the catalog, and never hide what others did."""

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from ducklake_core import Lake
from ducklake_core.model import TableId
from ducklake_core.pending import PendingTable
from ducklake_core.plan.commit_plan import MadeCommit
from ducklake_core.row_writes import RowWriter
from ducklake_core.upsert import known_tables
from ducklake_core.upsert.known_rows import KnownRows
from ducklake_core.upsert.search import Search
from ducklake_core.upsert.sorted_keys import SortedKeys, WantedIntegers
from tests.fixtures.catalogs import Catalog
from tests.fixtures.consistency import check_lake
from tests.fixtures.oracle import Oracle
from tests.fixtures.postgres import PostgresDatabase
from tests.fixtures.proxy import run_proxy
from tests.upsert.test_upsert import MANY, SCHEMA, contents, rows


@pytest.fixture
def searches(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each search for keys has known the rows."""
    found: list[bool] = []
    real = Search._known

    def known(search: Search) -> KnownRows | None:
        rows = real(search)
        found.append(rows is not None)
        return rows

    monkeypatch.setattr(Search, "_known", known)
    return found


@pytest.fixture
def lake(catalog: Catalog) -> Iterator[Lake]:
    """Give a lake whose rows are known: in a file, and inlined."""
    with Lake.create(catalog.url, catalog.data_path) as lake:
        lake.create_table("t", SCHEMA)
        lake.append("t", rows(list(range(MANY))))
        for i in range(4):
            lake.upsert("t", rows([i, 100 + i], "known"), keys="id")
        yield lake


OTHERS: dict[str, Callable[[Lake], object]] = {
    "delete": lambda lake: lake.delete("t", "id in (1, 100)"),
    "update": lambda lake: lake.update("t", {"name": "other"}, "id in (1, 100)"),
    "insert": lambda lake: lake.append("t", rows([200], "other")),
    "flush": lambda lake: lake.flush_inlined("t"),
}


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.parametrize("by_itself", [True, False], ids=["by itself", "by another"])
def test_what_changed_since_our_commit_is_seen(
    catalog: Catalog, lake: Lake, searches: list[bool], name: str, *, by_itself: bool
) -> None:
    expected = contents(lake) | {1: "known1", 100: "known100", 200: "known200"}
    with Lake.open(catalog.url) as other:
        OTHERS[name](lake if by_itself else other)

    lake.upsert("t", rows([1, 100, 200], "known"), keys="id")

    assert searches[0] or by_itself
    assert contents(lake) == expected
    check_lake(catalog)


def test_where_nothing_is_to_be_written_the_head_is_looked_at(catalog: Catalog, lake: Lake) -> None:
    with Lake.open(catalog.url) as other:
        other.delete("t", "id = 100")

    report = lake.upsert("t", rows([100], "known"), keys="id")

    assert report.inserted == 1
    assert contents(lake)[100] == "known100"


@pytest.mark.parametrize("keys", [["id"], ["name", "id"]], ids=["integers", "texts too"])
def test_known_rows_are_those_that_the_catalog_has(
    catalog: Catalog, oracle: Oracle, searches: list[bool], monkeypatch: pytest.MonkeyPatch, keys: list[str]
) -> None:
    dice, expected = random.Random(5), {i: float(i) for i in range(MANY)}  # noqa: S311 # no secret
    monkeypatch.setattr(known_tables, "_MOST_BYTES", 30_000)  # so that it is too much at times
    monkeypatch.setattr(known_tables, "_PAUSE_SNAPSHOTS", 5)
    with Lake.create(catalog.url, catalog.data_path) as lake, Lake.open(catalog.url) as other:
        lake.create_table("t", SCHEMA)
        lake.create_table("u", SCHEMA)
        lake.append("t", rows(list(range(MANY))))
        for turn in range(90):
            changed = {dice.randrange(80): dice.random() for _ in range(dice.randint(1, 8))}
            lake.upsert("t", rows([*changed], v=[*changed.values()]), keys=keys)
            expected |= changed
            gone = dice.sample(range(80), 2)
            match dice.randrange(9):
                case 0:
                    lake.delete_keys("t", rows(gone), keys=keys)
                    expected = {i: v for i, v in expected.items() if i not in gone}
                case 1:
                    (other if turn % 2 else lake).delete("t", f"id = {gone[0]}")
                    expected.pop(gone[0], None)
                case 2 if turn % 3 == 0:
                    (other if turn % 2 else lake).flush_inlined("t")
                case 3:
                    lake.append("t", rows([1000 + turn]))
                    expected[1000 + turn] = 1000.0 + turn
                case 4:
                    lake.append("u", rows([turn]))
                case 5 if turn > 60:
                    lake.merge_adjacent_files("t")
            assert dict(lake.table("t").read(["id", "v"]).to_pandas().itertuples(index=False)) == expected
        oracle.attach(catalog.attach)
        assert dict(oracle.query("SELECT id, v FROM t")) == expected
        check_lake(catalog)
    assert searches.count(True) > 40
    assert searches.count(False) > 10


def test_an_upsert_that_follows_on_our_own_commit_is_one_round_trip(
    postgres_database: PostgresDatabase, tmp_path: Path
) -> None:
    with run_proxy(postgres_database) as proxy, Lake.create(proxy.database.url, f"{tmp_path}/data") as lake:
        lake.create_table("t", SCHEMA)
        lake.append("t", rows(list(range(MANY))))
        for name in ("first", "second", "third"):
            lake.upsert("t", rows([1, 2, 100], name), keys="id")
        proxy.forget_counts()

        lake.upsert("t", rows([1, 3, 200], "fourth"), keys="id")

        assert proxy.round_trips == 1


@pytest.mark.parametrize("most", [3, 50, 10_000])
def test_integers_are_found_in_any_order_and_as_often_as_they_are_there(most: int) -> None:
    dice = np.random.default_rng(most)
    have, wanted = dice.integers(0, most, 200), np.unique(dice.integers(0, most, 40))[::-1]

    places, numbers = SortedKeys.of(have).find(WantedIntegers.of(wanted))

    expected = [(place, number) for place, one in enumerate(have) for number in np.flatnonzero(wanted == one)]
    assert sorted(zip(places.tolist(), numbers.tolist(), strict=True)) == sorted(expected)


def test_a_piece_of_a_large_table_does_not_keep_it(lake: Lake) -> None:
    many = pa.table(rows(list(range(1000, 50_000))))

    lake.append("t", many.slice(10, 5))

    known = next(iter(lake.known_tables._tables.values()))
    assert known.size_bytes < 20_000


def test_keys_that_no_file_has_any_more_are_not_looked_for_in_files(catalog: Catalog, lake: Lake) -> None:
    opened = [lake.upsert("t", rows([5, 300], f"{turn} "), keys="id").files_opened for turn in range(3)]

    assert opened == [1, 1, 0]
    assert contents(lake)[5] == "2 5"
    check_lake(catalog)


def test_a_row_of_a_file_that_a_discarded_transaction_had_deleted_is_found_again(catalog: Catalog, lake: Lake) -> None:
    with lake.transaction() as discarded:
        discarded.delete("t", "id = 20")
        discarded.upsert("t", rows([20], "never "), keys="id")
        discarded.discard()

    report = lake.upsert("t", rows([20], "new "), keys="id")

    assert (report.inserted, report.updated) == (0, 1)
    assert lake.table("t").read(["id"]).column("id").to_pylist().count(20) == 1
    check_lake(catalog)


def test_what_goes_wrong_beside_a_commit_does_not_fail_it(
    catalog: Catalog, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls, real = [], KnownRows.after

    def failing_once(known: KnownRows, made: MadeCommit, table_id: TableId) -> KnownRows | None:
        calls.append(table_id)
        if len(calls) == 1 and catalog.url.startswith("postgres"):  # others are not waited for
            raise MemoryError
        return real(known, made, table_id)

    monkeypatch.setattr(KnownRows, "after", failing_once)

    lake.upsert("t", rows([1], "new "), keys="id")

    assert contents(lake)[1] == "new 1"
    check_lake(catalog)


def test_many_rows_are_written_once_where_another_has_committed_meanwhile(
    catalog: Catalog, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    written, real = [], RowWriter._write

    def write(writer: RowWriter, pending: PendingTable, new: pa.Table, row_ids: np.ndarray | None) -> object:
        written.append(new.num_rows)
        return real(writer, pending, new, row_ids)

    with Lake.open(catalog.url) as other:
        other.delete("t", "id = 7")
    monkeypatch.setattr(RowWriter, "_write", write)

    report = lake.upsert("t", rows(list(range(MANY)), "new "), keys="id")

    assert written == [MANY - 1]  # the other one is inlined
    assert (report.updated, report.inserted) == (MANY - 1, 1)
    check_lake(catalog)
