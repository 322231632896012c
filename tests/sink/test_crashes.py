"""A driver dies at each step of a batch: the next one completes it, each event is there once, only orphans are left."""

import pytest

from tests.fixtures.driver_jobs import Fault
from tests.fixtures.ingests import Ingest
from tests.fixtures.oracle import Oracle

pytestmark = pytest.mark.slow


def test_batch_that_spark_forgot_is_skipped(ingest: Ingest, oracle: Oracle) -> None:
    ingest.feed(10, 10, 10)
    assert ingest.run() is None
    ingest.forget_last_commit()

    driver = ingest.start()

    assert driver.end() is None
    assert "batch_replayed stream=s batch=2" in driver.log
    ingest.check(oracle, 2)
