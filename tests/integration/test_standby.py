"""A catalog whose address leads to a standby: it reads, and waits with writes until that is the primary."""

import threading
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest

from ducklake_core import Lake
from ducklake_core.catalog.database import Database
from ducklake_core.errors import CatalogForbidden, CatalogUnavailable
from ducklake_core.observe import CatalogAway, CommitRetried, Event, Recorder
from ducklake_streaming.demo.local_postgres import HOST, USER
from tests.fixtures.failover import run_replicated_postgres
from tests.fixtures.postgres import PostgresDatabase


class FirstWait(Recorder):
    """Notes that somebody waits."""

    def __init__(self) -> None:
        self.has_come = threading.Event()

    def record(self, event: Event) -> None:
        if isinstance(event, CatalogAway):
            self.has_come.set()


class Promotion(Recorder):
    """Lets a database write again when somebody tries a commit again."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.primary = database.dialect
        self.retries = 0
        database.dialect = replace(database.dialect, begin_write="BEGIN READ ONLY")

    def record(self, event: Event) -> None:
        if isinstance(event, CommitRetried):
            self.retries += 1
            self.database.dialect = self.primary


def test_write_that_a_standby_refused_just_before_it_became_the_primary_is_tried_again(
    postgres_database: PostgresDatabase, tmp_path: Path
) -> None:
    """Whoever asks then finds a server that is no standby, and that is not set to refuse writes either."""
    with Lake.create(postgres_database.url, f"{tmp_path}/data") as lake:
        lake.create_table("t", {"i": "int64"})
        promotion = Promotion(lake.database)
        lake.database.patience = replace(lake.database.patience, recorder=promotion)

        lake.append("t", {"i": [1]})

        assert lake.table("t").count() == 1
    assert promotion.retries == 1


@pytest.mark.timeout(300)
def test_write_to_a_standby_waits_until_that_is_the_primary(tmp_path: Path) -> None:
    with run_replicated_postgres() as server:
        database = server.create_database()
        address = server.at_address(database).url
        with Lake.create(address, f"{tmp_path}/data") as lake:
            lake.create_table("t", {"i": "int64"})
            lake.append("t", {"i": [1]})
        server.begin_standby()
        first = server.port
        server.crash()
        query = f"host={HOST},{HOST}&port={first},{server.port}&target_session_attrs=read-write"
        hosts = f"postgresql://{USER}@/{database.name}?{query}"

        with Lake.open(address, catalog_timeout=2) as lake:
            assert lake.table("t").count() == 1
            with pytest.raises(CatalogUnavailable, match=r"read-only transaction.*it is a standby"):
                lake.append("t", {"i": [2]})
        with pytest.raises(CatalogUnavailable):
            Lake.open(hosts, catalog_timeout=1)  # none of them is the primary
        waits = FirstWait()
        with Lake.open(address, recorder=waits) as lake:
            append = threading.Thread(target=lambda: lake.append("t", {"i": [3]}))
            append.start()
            assert waits.has_come.wait(60)
            server.promote()
            append.join()
        with Lake.open(hosts) as lake:
            assert sorted(lake.table("t").read()["i"].to_pylist()) == [1, 3]
            lake.delete("t", "i = 3")

        with psycopg.connect(server.maintenance.conninfo, autocommit=True) as connection:
            connection.execute(f"ALTER DATABASE {database.name} SET default_transaction_read_only = on".encode())
        with Lake.open(address) as lake, pytest.raises(CatalogForbidden, match="default_transaction_read_only"):
            lake.append("t", {"i": [4]})
