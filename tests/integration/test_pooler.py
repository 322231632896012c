"""Lakes behind a real PgBouncer: each transaction may run on another connection, which other clients use, too."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from ducklake_core import Lake
from ducklake_core.catalog.postgres import wire
from ducklake_core.catalog.postgres.session import on_postgres
from ducklake_core.errors import CatalogError, CatalogForbidden, DuckLakeError
from ducklake_core.spec.thresholds import ROW_ARRAY_ROWS
from ducklake_streaming.demo.local_postgres import HOST
from tests.fixtures.pooler import Pooling, run_pooler
from tests.fixtures.postgres import PostgresDatabase

CLIENTS, TURNS = 8, 6
TRANSACTION = Pooling("transaction", servers=3)
POOLINGS = [
    TRANSACTION,
    Pooling("session", servers=2 * CLIENTS),
    Pooling("transaction", servers=3, is_new=True, tracked=0),
    Pooling("transaction", servers=3, is_new=True, tracked=50),
    Pooling("session", servers=2 * CLIENTS, is_new=True, tracked=50),
]


@pytest.fixture(params=POOLINGS, ids=str)
def pooled(request: pytest.FixtureRequest, postgres_database: PostgresDatabase) -> Iterator[PostgresDatabase]:
    with run_pooler(postgres_database, request.param) as database:
        yield database


@pytest.fixture
def pooled_transactions(postgres_database: PostgresDatabase) -> Iterator[PostgresDatabase]:
    with run_pooler(postgres_database, TRANSACTION) as database:
        yield database


def test_rows_of_eight_clients_are_where_they_belong(pooled: PostgresDatabase, tmp_path: Path) -> None:
    check_clients(pooled, tmp_path)


def test_so_they_are_when_the_pooler_is_not_seen(
    pooled_transactions: PostgresDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pooler may tell the number of a server's process: then names of one's own and a second try must do."""
    monkeypatch.setattr(wire, "_is_server_itself", lambda _: True)

    check_clients(pooled_transactions, tmp_path)


def check_clients(database: PostgresDatabase, tmp_path: Path) -> None:
    """Let each client append to a table of its own and read it back; the batches of one are small, large and small."""
    with Lake.create(database.url, f"{tmp_path}/data") as lake:
        lake.set_option("data_inlining_row_limit", 10 * ROW_ARRAY_ROWS)
        for client in range(CLIENTS):
            lake.create_table(f"t{client}", {"client": "int64", "turn": "int64"})

        with ThreadPoolExecutor(CLIENTS) as executor:
            read = list(executor.map(lambda client: append_and_read(database, client), range(CLIENTS)))

        found = [sorted_rows(lake.table(f"t{client}").read()) for client in range(CLIENTS)]
    expected = [[(client, t) for t in range(TURNS) for _ in range(row_count(t))] for client in range(CLIENTS)]
    assert found == expected
    assert read == expected


def append_and_read(database: PostgresDatabase, client: int) -> list[tuple[int, int]]:
    with Lake.open(database.url) as lake:
        for turn in range(TURNS):
            count = row_count(turn)
            lake.append(f"t{client}", {"client": [client] * count, "turn": [turn] * count})
        return sorted_rows(lake.table(f"t{client}").read())


def row_count(turn: int) -> int:
    return ROW_ARRAY_ROWS + 1 if turn % 4 == 2 else 3


def sorted_rows(rows: pa.Table) -> list[tuple[int, int]]:
    return sorted(zip(rows["client"].to_pylist(), rows["turn"].to_pylist(), strict=True))


def test_nothing_is_prepared_behind_a_pooler(pooled: PostgresDatabase, tmp_path: Path) -> None:
    with Lake.create(pooled.url, f"{tmp_path}/data") as lake:
        lake.create_table("t", {"id": "int64"})
        lake.append("t", {"id": [1]})

        with lake.database.read() as session:
            session.begin()
            prepared = on_postgres(session).driver.execute("SELECT count(*) FROM pg_prepared_statements").fetchall()

    assert prepared == [(0,)]


def test_all_that_a_lake_can_do_works_behind_a_pooler(pooled: PostgresDatabase, tmp_path: Path) -> None:
    with Lake.create(pooled.url, f"{tmp_path}/data") as lake, Lake.open(pooled.url) as other:
        lake.create_table("t", {"id": "int64", "name": "varchar"})
        for number in range(3):
            lake.append("t", {"id": [number], "name": ["a"]})
            other.append("t", {"id": [10 + number], "name": ["b"]})
        lake.add_column("t", "at", "timestamptz")
        other.delete("t", "id = 1")
        lake.update("t", {"name": "c"}, "id = 2")
        lake.flush_inlined()
        rows = other.table("t").read()

    assert sorted(zip(rows["id"].to_pylist(), rows["name"].to_pylist(), strict=True)) == [
        *[(0, "a"), (2, "c")],
        *[(10, "b"), (11, "b"), (12, "b")],
    ]


@pytest.mark.parametrize("pooling", [TRANSACTION, replace(TRANSACTION, is_new=True)], ids=str)
@pytest.mark.parametrize(
    ("auth_type", "address", "error", "sqlstate"),
    [
        ("md5", "lake:wrong@{}/postgres", CatalogForbidden, "28P01"),
        ("scram-sha-256", "lake:wrong@{}/postgres", CatalogForbidden, "28P01"),
        ("trust", "nobody@{}/postgres", CatalogForbidden, "28P01"),
        ("trust", "lake@{}/not_there", CatalogError, "3D000"),
        ("trust", "lake@{}/postgres?options=-c%20work_mem%3Dx", CatalogError, "08001"),
    ],
    ids=["md5", "scram", "user", "database", "parameter"],
)
def test_what_the_pooler_refuses_is_told_at_once(
    postgres_database: PostgresDatabase,
    auth_type: str,
    address: str,
    error: type[DuckLakeError],
    sqlstate: str,
    pooling: Pooling,
    caplog: pytest.LogCaptureFixture,
) -> None:
    asking = replace(pooling, auth_type=auth_type)
    with run_pooler(postgres_database, asking) as pooled, pytest.raises(error) as caught:
        Lake.open("postgresql://" + address.format(f"{HOST}:{pooled.port}"))

    assert caught.value.sqlstate == sqlstate
    assert not caplog.records  # nobody has waited
