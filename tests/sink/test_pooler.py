"""A stream whose catalog is behind a real PgBouncer in transaction mode: each row is there once."""

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.fixtures.catalogs import PostgresCatalog
from tests.fixtures.driver_jobs import Fault
from tests.fixtures.drivers import Drivers
from tests.fixtures.ingests import Ingest
from tests.fixtures.oracle import Oracle
from tests.fixtures.pooler import Pooling, run_pooler
from tests.fixtures.postgres import PostgresDatabase

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]


@pytest.fixture
def ingest(postgres_database: PostgresDatabase, drivers: Drivers, tmp_path: Path) -> Iterator[Ingest]:
    with run_pooler(postgres_database, Pooling("transaction", servers=2)) as pooled:
        made = Ingest(PostgresCatalog(pooled, f"{tmp_path}/data/"), drivers, tmp_path)
        made.url = pooled.url  # PgBouncer trusts the user, and knows no password
        yield made
        made.close()


def test_stream_behind_a_pooler_writes_each_row_once(
    ingest: Ingest, postgres_database: PostgresDatabase, oracle: Oracle
) -> None:
    ingest.feed(10, 100, 10, 10, 100, 10)
    driver = ingest.start(Fault("before_commit", "hold", 2), Fault("after_head_read", "hold", 4))

    for point in ("before_commit", "after_head_read"):
        driver.wait_held(point)
        with psycopg.connect(postgres_database.conninfo, autocommit=True) as server:
            server.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name ~ 'ducklake'")
        driver.order(f"release.{point}")

    assert driver.end() is None
    ingest.check(oracle, 5)
