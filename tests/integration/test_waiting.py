"""A catalog that is away is waited for, once, out loud, and no longer than wanted; a dead connection is replaced."""

import logging
import socket
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import count
from pathlib import Path

import psycopg
import pytest

from ducklake_core import Lake
from ducklake_core.errors import CatalogUnavailable
from ducklake_core.model import Consumer
from ducklake_core.observe import LogRecorder
from ducklake_core.retries import Patience, retry_while_unavailable
from tests.fixtures.catalogs import PostgresCatalog
from tests.fixtures.postgres import PostgresDatabase
from tests.fixtures.proxy import Fate, Proxy, run_proxy
from tests.fixtures.pulls import Pull
from tests.fixtures.waiting import PATIENCE_SECONDS


class Clock:
    """A time that passes only while somebody sleeps."""

    def __init__(self) -> None:
        self.now = 0.0

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def patience(self, timeout: float, is_stopped: Callable[[], bool] = lambda: False) -> Patience:
        log = LogRecorder(lambda: self.now)
        return Patience(timeout, is_stopped, self.sleep, lambda: self.now, log)


def fail() -> None:
    raise CatalogUnavailable("no connection today")


def test_wait_ends_at_its_deadline_and_speaks_meanwhile(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()

    with caplog.at_level(logging.WARNING), pytest.raises(CatalogUnavailable, match="in 60 s, as catalog_timeout says"):
        retry_while_unavailable(fail, clock.patience(60), "here")

    assert clock.now == pytest.approx(60, abs=0.001)
    said = [record.message for record in caplog.records]
    assert len(said) == 3  # after 0, 10 and 30 seconds
    assert said[0] == (
        'catalog_unavailable catalog=here attempt=1 seconds=0.0 timeout=60 reason="CatalogUnavailable: no connection '
        'today"'
    )


def test_it_is_said_when_the_catalog_is_back(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()

    def act() -> int:
        if clock.now <= 15:
            fail()
        return 7

    with caplog.at_level(logging.WARNING):
        found = retry_while_unavailable(act, clock.patience(60), "here")

    assert found == 7
    assert [record.message.split()[0] for record in caplog.records] == [
        "catalog_unavailable", "catalog_unavailable", "catalog_available",
    ]  # fmt: skip


def test_time_of_the_first_attempt_counts() -> None:
    clock = Clock()

    def act() -> None:
        clock.sleep(40)
        fail()

    with pytest.raises(CatalogUnavailable, match="gave up after 2 attempts in 80 s"):
        retry_while_unavailable(act, clock.patience(60), "here")


def test_wait_that_is_stopped_ends_within_a_second() -> None:
    clock = Clock()

    with pytest.raises(CatalogUnavailable, match="the query was stopped"):
        retry_while_unavailable(fail, clock.patience(60, lambda: clock.now >= 10), "here")

    assert clock.now < 11


@pytest.fixture
def catalog(postgres_database: PostgresDatabase, tmp_path: Path) -> PostgresCatalog:
    catalog = PostgresCatalog(postgres_database, f"{tmp_path}/data/")
    with Lake.create(catalog.url, catalog.data_path) as lake:
        lake.create_table("t", {"id": "int64"})
        lake.append("t", {"id": [1]})
    return catalog


@pytest.fixture
def proxy(catalog: PostgresCatalog) -> Iterator[Proxy]:
    with run_proxy(catalog.database) as proxy:
        yield proxy


def terminate_all(catalog: PostgresCatalog) -> None:
    """End every other connection to the database, and wait until they are gone."""
    others = "FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    with psycopg.connect(catalog.database.conninfo, autocommit=True) as connection:
        connection.execute(f"SELECT pg_terminate_backend(pid, 10000) {others}".encode())


ACTS: dict[str, Callable[[Lake], object]] = {
    "read": lambda lake: lake.table("t").read(),
    "count": lambda lake: lake.table("t").count(),
    "slices": lambda lake: lake.table("t").slices(),
    "changes": lambda lake: lake.changes("t", 0),
    "snapshots": Lake.snapshots,
    "tables": Lake.tables,
    "schemas": Lake.schemas,
    "inlined_state": lambda lake: lake.inlined_state("t"),
    "append": lambda lake: lake.append("t", {"id": [2]}),
    "update": lambda lake: lake.update("t", {"id": 3}, "id = 1"),
    "create_table": lambda lake: lake.create_table("u", {"id": "int64"}),
    "flush": lambda lake: lake.flush_inlined("t"),
    "set_option": lambda lake: lake.set_option("auto_compact", value=True),
    "options": Lake.options,
    "consumers": Lake.consumers,
    "ledger_entry": lambda lake: lake.ledger_entry("s"),
}


@pytest.mark.parametrize("act", ACTS)
def test_idle_connection_that_was_ended_is_replaced_without_a_word(
    catalog: PostgresCatalog, act: str, caplog: pytest.LogCaptureFixture
) -> None:
    with Lake.open(catalog.url, catalog_timeout=0) as lake:
        ACTS[act](lake)
        terminate_all(catalog)

        _ = lake.drop_table("u") if act == "create_table" else ACTS[act](lake)

        assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.mark.parametrize("act", ACTS)
def test_catalog_that_is_away_for_a_while_is_waited_for(catalog: PostgresCatalog, proxy: Proxy, act: str) -> None:
    with Lake.open(proxy.database.url) as lake:
        terminate_all(catalog)
        proxy.refusals = 6  # each attempt asks twice: the second time for the reason

        ACTS[act](lake)

        assert proxy.refusals == 0


@pytest.mark.parametrize("act", ["append", "read", "set_option", "flush"])
def test_lock_of_another_is_waited_for_no_longer_than_wanted(catalog: PostgresCatalog, act: str) -> None:
    with (
        Lake.open(catalog.url, catalog_timeout="200ms") as lake,
        psycopg.connect(catalog.database.conninfo, autocommit=True) as rival,
    ):
        rival.execute("SET idle_in_transaction_session_timeout = '20s'")  # so that the test ends without the safeguard
        rival.execute("BEGIN")
        rival.execute("LOCK TABLE ducklake_snapshot, ducklake_metadata IN ACCESS EXCLUSIVE MODE")

        with pytest.raises(CatalogUnavailable, match="as catalog_timeout says") as caught:
            ACTS[act](lake)

        assert caught.value.sqlstate == "55P03"
        rival.execute("ROLLBACK")
        ACTS[act](lake)


@pytest.mark.parametrize("act", ["snapshots", "set_option"])
def test_wait_for_the_lock_of_a_file_ends_when_nobody_needs_it(tmp_path: Path, act: str) -> None:
    """The first attempt notices it: it does not wait until SQLite itself gives up."""
    questions = count()
    patience = Patience(PATIENCE_SECONDS, lambda: next(questions) > 0)
    url = f"sqlite:///{tmp_path}/lake.sqlite"
    Lake.create(url, f"{tmp_path}/data").close()
    with (
        Lake.open(url, catalog_timeout=patience) as lake,
        closing(sqlite3.connect(tmp_path / "lake.sqlite", isolation_level=None)) as rival,
    ):
        rival.execute("BEGIN EXCLUSIVE")

        with pytest.raises(CatalogUnavailable, match=r"is locked; gave up after 1 attempts .* the query was stopped"):
            ACTS[act](lake)

        rival.execute("ROLLBACK")
        ACTS[act](lake)


def test_server_that_does_not_answer_is_waited_for_no_longer_than_somebody_needs_it() -> None:
    """The driver itself gives up after seconds, and has another reason."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"postgresql://lake@127.0.0.1:{silent.getsockname()[1]}/lake"

        with pytest.raises(CatalogUnavailable, match="no answer until the query was stopped"):
            Lake.open(url, catalog_timeout=Patience(60, lambda: True))


def test_statement_that_the_server_gives_no_time_for_says_what_to_raise(catalog: PostgresCatalog) -> None:
    """It may go well a moment later, so it is waited for; a limit that is always too low must be seen to be one."""
    url = f"{catalog.url}?options=-c%20statement_timeout%3D100"
    with (
        Lake.open(url, catalog_timeout="1s") as lake,
        psycopg.connect(catalog.database.conninfo, autocommit=True) as rival,
    ):
        rival.execute("BEGIN")
        rival.execute("LOCK TABLE ducklake_snapshot IN ACCESS EXCLUSIVE MODE")

        with pytest.raises(CatalogUnavailable, match="raise statement_timeout for the catalog's user") as caught:
            lake.snapshots()

        assert caught.value.sqlstate == "57014"
        rival.execute("ROLLBACK")
        assert len(lake.snapshots()) == 3


def test_stream_out_of_a_lake_goes_on_after_a_lost_connection(catalog: PostgresCatalog, proxy: Proxy) -> None:
    options = {"catalog": proxy.database.url, "table": "t", "readChangeFeed": "true", "consumerId": "c"}
    with closing(Pull(None, **options)) as pull, Lake.open(catalog.url) as writer:
        found = [pull.all().num_rows]
        for number in (2, 3):
            writer.append("t", {"id": [number]})
            terminate_all(catalog)
            proxy.refusals = number
            found.append(pull.all().num_rows)

    assert found == [1, 1, 1]


@pytest.mark.parametrize("fate", [Fate.LOSE_REQUEST, Fate.LOSE_REPLY])
def test_write_without_a_snapshot_is_done_whatever_gets_lost(proxy: Proxy, fate: Fate) -> None:
    with Lake.open(proxy.database.url) as lake:
        table = lake.table("t")
        now = table.snapshot.snapshot_time
        lake.record_consumer(Consumer("c", table.version.table_uuid, table.snapshot.snapshot_id, now, now))
        proxy.lose(fate)
        lake.set_option("auto_compact", value=True)
        proxy.lose(fate)

        was_there = lake.forget_consumer("c")

        assert was_there
        assert lake.consumers() == []
        assert lake.options()["auto_compact"] == "true"


@pytest.mark.parametrize("fate", [Fate.LOSE_REQUEST, Fate.LOSE_REPLY])
def test_lake_whose_creation_got_no_answer_is_ours(
    postgres_database: PostgresDatabase, tmp_path: Path, fate: Fate
) -> None:
    with run_proxy(postgres_database) as proxy:
        proxy.lose(fate)

        with Lake.create(proxy.database.url, f"{tmp_path}/data") as lake:
            assert lake.schemas() == ["main"]
