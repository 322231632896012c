"""Executors in processes of their own, which do not have the catalog's password: what the docs promise holds there."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.course import Plan
from tests.cluster.courses import run_course
from tests.fixtures.guarded import GuardedLake, guarded_lake
from tests.fixtures.postgres import PostgresServer

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]
ROWS = 20_000
TWICE = {"rows": 2 * ROWS, "different": 2 * ROWS}
STEPS = ["native", "tasks", "upserted", "routed", "reads", "feed_stream", "many_inlined", "merged"]


@pytest.fixture
def lake(postgres_server: PostgresServer, tmp_path: Path) -> Iterator[GuardedLake]:
    with guarded_lake(postgres_server, tmp_path) as found:
        yield found


def test_all_works_by_executors_that_have_no_password(lake: GuardedLake) -> None:
    plan = Plan("local-cluster[2,1,1024]", lake.url, str(lake.directory), STEPS, ROWS)

    found = run_course(plan, lake.environment)

    assert found["native"] == {**TWICE, "attempts": 2, "native": 2}
    assert found["tasks"] == {**TWICE, "attempts": 2, "native": 0}
    check_upserted(found["upserted"], ROWS)
    assert found["routed"] == {"even": ROWS // 2, "odd": 2 * ROWS // 5, "letters": ROWS // 10}
    assert found["reads"] == {"table": TWICE, "native": TWICE}
    assert found["feed_stream"] == TWICE
    check_many_inlined(found["many_inlined"], "no password supplied")
    assert not found["merged"]["failed"], found["merged"]
    assert found["merged"]["rows"] == found["merged"]["different"] == 2 * ROWS


def check_upserted(found: dict[str, Any], rows: int) -> None:  # Any: JSON
    """See that changes were applied once: of the second half and as many again, every third is gone."""
    first, end = rows // 20, rows // 20 + rows // 10
    left = first + sum(number % 3 != 0 for number in range(first, end))
    assert found == {"rows": left, "different": left, "read": {"rows": left, "different": left}, "attempts": 2}


def check_many_inlined(found: dict[str, Any], reason: str) -> None:  # Any: JSON
    """See that executors which may not ask the catalog say so, and need not once the rows are flushed.

    Changes of few rows travel with their tasks, however large they are.
    """
    assert found["before"]["feed"] == 70
    assert reason in found["before"]["table"]
    assert "each executor reads its own from the catalog: flush the table" in found["before"]["table"]
    assert found["after"] == {"table": 70, "feed": 70}
