"""Reading rows of PostgreSQL by COPY: errors are the server's own, and other threads go on meanwhile."""

import threading

import pytest
from sqlalchemy import text

from ducklake_core import Lake
from ducklake_core.catalog.postgres.session import on_postgres
from ducklake_core.catalog.session import Statement
from ducklake_core.errors import CatalogError
from tests.fixtures.postgres import PostgresDatabase


def copied_bytes(lake: Lake, query: str) -> int:
    with lake.database.read() as session, on_postgres(session).copy_out(Statement(text(query))) as messages:
        return sum(map(len, messages))


@pytest.fixture
def lake(postgres_database: PostgresDatabase, tmp_path: object) -> Lake:
    return Lake.create(postgres_database.url, f"{tmp_path}/")


def test_error_in_the_middle_is_the_servers_own(lake: Lake) -> None:
    with lake, pytest.raises(CatalogError, match="division by zero"):
        copied_bytes(lake, "SELECT 1 / (20000 - n) FROM generate_series(1, 30000) n")


def test_lake_can_be_used_after_an_error_in_the_middle(lake: Lake) -> None:
    with lake:
        with pytest.raises(CatalogError, match="division by zero"):
            copied_bytes(lake, "SELECT 1 / (20000 - n) FROM generate_series(1, 30000) n")

        assert copied_bytes(lake, "SELECT n FROM generate_series(1, 10) n") > 10 * 10
        assert copied_bytes(lake, "SELECT n FROM generate_series(1, 0) n") <= 21


def test_other_threads_go_on_while_the_server_thinks(lake: Lake) -> None:
    beats = 0
    stop = threading.Event()

    def beat() -> None:
        nonlocal beats
        while not stop.wait(0.01):
            beats += 1

    thread = threading.Thread(target=beat)
    thread.start()
    with lake:
        copied_bytes(lake, "SELECT pg_sleep(1)::text")
    stop.set()
    thread.join()

    assert beats > 10
