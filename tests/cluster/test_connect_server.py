"""A Spark Connect server in a process of its own, and a client in another: what works there, and who needs what."""

from pathlib import Path

import pytest

from tests.cluster.connect_course import ROWS
from tests.cluster.courses import run_steps
from tests.fixtures.clusters import run_connect_server
from tests.fixtures.guarded import guarded_lake
from tests.fixtures.postgres import PostgresServer

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]


def test_sink_feed_and_reads_work_through_a_connect_server(postgres_server: PostgresServer, tmp_path: Path) -> None:
    with guarded_lake(postgres_server, tmp_path) as lake, run_connect_server(tmp_path, lake.environment) as remote:
        course = ["tests.cluster.connect_course", remote, lake.url, str(tmp_path), str(lake.password_file)]
        found = run_steps(course, {})

    streamed = {"rows": ROWS + 10, "different": ROWS + 10}
    assert found["streamed"] == streamed
    assert found["fed"] == {**streamed, "changes": ROWS + 10}
    assert "CatalogForbidden" in found["refused"]["append"]
    assert "PGPASSFILE" in found["refused"]["append"]
    assert "metrics need a classic Spark session" in found["refused"]["metrics"]
    assert found["appended"] == {"rows": ROWS + 10, "different": ROWS}
    assert found["native"] == {"rows": ROWS + 10}
    assert found["merged"] == {"failed": False, **streamed}
