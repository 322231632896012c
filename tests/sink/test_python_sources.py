"""A source in Python is read once per batch and never cut short, whether its batches become rows or files."""

from collections import Counter

import pytest

from tests.fixtures.driver_jobs import Fault
from tests.fixtures.ingests import Ingest
from tests.fixtures.oracle import Oracle
from tests.fixtures.python_source import PARTITIONS

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]


@pytest.mark.parametrize("make_catalog", ["postgres"], indirect=True)
def test_python_source_is_read_once_per_batch(ingest: Ingest, oracle: Oracle) -> None:
    ingest.feed(100, 10, 10, 100, 100, 10)
    driver = ingest.start(source="python", runs_on=True)
    ingest.wait_for_batch(driver, 5)
    driver.stop_query()
    driver.end()

    ingest.check(oracle, 5)
    reads = Counter(file.name.split(".")[0] for file in (ingest.input / "reads").iterdir())
    assert reads == dict.fromkeys(map(str, range(6)), PARTITIONS)


@pytest.mark.parametrize("make_catalog", ["postgres"], indirect=True)
def test_python_source_is_read_again_by_the_next_driver_and_nothing_is_doubled(ingest: Ingest, oracle: Oracle) -> None:
    ingest.feed(10, 100)
    ingest.run_until_killed(Fault("after_commit", "kill", 1), source="python", runs_on=True)
    ingest.feed(100, 10)

    driver = ingest.start(source="python", runs_on=True)
    ingest.wait_for_batch(driver, 3)
    driver.stop_query()
    driver.end()

    ingest.check(oracle, 3)
