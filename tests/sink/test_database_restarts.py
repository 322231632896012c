"""The catalog's database is stopped and started again under a stream: it goes on, and nothing is lost or doubled."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fixtures.catalogs import PostgresCatalog
from tests.fixtures.driver_jobs import Fault
from tests.fixtures.drivers import Drivers
from tests.fixtures.ingests import Ingest
from tests.fixtures.oracle import Oracle
from tests.fixtures.postgres import RestartingPostgres, run_restarting_postgres

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]


@pytest.fixture
def server() -> Iterator[RestartingPostgres]:
    with run_restarting_postgres() as running:
        yield running


@pytest.fixture
def ingest(server: RestartingPostgres, drivers: Drivers, tmp_path: Path) -> Iterator[Ingest]:
    made = Ingest(PostgresCatalog(server.create_database(), f"{tmp_path}/data/"), drivers, tmp_path)
    yield made
    made.close()


def test_stream_survives_a_database_that_restarts_at_any_step(
    ingest: Ingest, server: RestartingPostgres, oracle: Oracle
) -> None:
    points = ["after_collect", "after_head_read", "before_commit", "after_commit"]
    ingest.feed(10, 10, 100, 10, 10, 10)
    driver = ingest.start(*(Fault(point, "hold", batch_id) for batch_id, point in enumerate(points, start=1)))

    for point in points:
        driver.wait_held(point)
        server.stop()
        driver.order(f"release.{point}")
        server.start()

    assert driver.end() is None
    ingest.check(oracle, 5)


def test_stream_that_finds_no_database_goes_on_when_it_is_back(
    ingest: Ingest, server: RestartingPostgres, oracle: Oracle
) -> None:
    ingest.feed(10, 10)
    assert ingest.run() is None
    ingest.feed(100, 10)
    server.stop()

    driver = ingest.start(Fault("before_ledger_read", "say", 2))
    driver.wait_held("before_ledger_read")
    server.start()

    assert driver.end() is None
    ingest.check(oracle, 3)
