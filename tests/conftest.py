"""Fixtures for every test, and how long the random walks are."""

import os
from collections.abc import Generator

import pytest
from hypothesis import HealthCheck, settings

pytest_plugins = [
    "tests.fixtures.postgres",
    "tests.fixtures.kafka",
    "tests.fixtures.registry",
    "tests.fixtures.catalogs",
    "tests.fixtures.certificates",
    "tests.fixtures.failing",
    "tests.fixtures.oracle",
    "tests.fixtures.pairs",
    "tests.fixtures.sinks",
    "tests.fixtures.s3",
    "tests.fixtures.spark",
    "tests.fixtures.drivers",
    "tests.fixtures.ingests",
    "tests.fixtures.jobs",
    "tests.fixtures.pipelines",
    "tests.fixtures.pulls",
    "tests.fixtures.lives",
    "tests.fixtures.logs",
    "tests.fixtures.other_database",
    "tests.fixtures.browser",
]

_WORKER_BYTES = 4 * 2**30  # seen of one with its Spark, the drivers it starts, PostgreSQL and DuckDB, at its worst

# Time limits belong to pytest-timeout: a step that starts DuckDB or PostgreSQL is slow the first time only.
short = settings(deadline=None, max_examples=50, print_blob=True, suppress_health_check=[HealthCheck.too_slow])
# The tests draw the same examples every time, so that they fail for those who changed something and for nobody else.
# `make fuzz` draws new ones and remembers in .hypothesis what failed.
settings.register_profile("test", short, derandomize=True, database=None)
settings.register_profile("check", short, derandomize=True, database=None, max_examples=10)
settings.register_profile("fuzz", short, max_examples=int(os.environ.get("FUZZ_EXAMPLES", "2000")))
settings.load_profile("test")


@pytest.hookimpl(wrapper=True)
def pytest_xdist_auto_num_workers() -> Generator[None, int, int]:
    """As many workers as processors, and no more than memory has room for: else the machine would only swap."""
    processors = yield
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return max(1, min(processors, memory // _WORKER_BYTES))
