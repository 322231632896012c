"""A job and its catalog in production: few connections, a password that changes, a primary that crashes.

The job has a user with the rights of deploy/postgres, and a pipeline that reads what the other writes.
"""

import signal
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from ducklake_core import Lake
from tests.fixtures.failover import ReplicatedPostgres, run_replicated_postgres
from tests.fixtures.jobs import JobFolder, JobProcess
from tests.fixtures.postgres import PostgresDatabase
from tests.fixtures.roles import MAINTENANCE, PASSWORDS, make_guarded_lake

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

MOST_CONNECTIONS = 8  # of a job with two pipelines, one of them a feed, metrics and maintenance: see docs/postgres.md
BATCHES = 3


@pytest.fixture
def server() -> Iterator[ReplicatedPostgres]:
    with run_replicated_postgres() as made:
        yield made


def prepare(server: ReplicatedPostgres, folder: Path) -> PostgresDatabase:
    """Make a lake with roles, a user who is asked for a password, and a standby of all that."""
    lake = make_guarded_lake(server, folder)
    rules = server.directory / "data" / "pg_hba.conf"
    rules.write_text(f"host all {MAINTENANCE} all scram-sha-256\n{rules.read_text()}")
    ask(server, lake.database, "SELECT pg_reload_conf()")
    with Lake.open(lake.database.url) as opened:
        opened.create_table("main.numbers", {"timestamp": "timestamptz", "value": "int64"})
    ask(server, lake.database, "ALTER TABLE ducklake_inlined_data_2_2 OWNER TO lake_sink")
    server.begin_standby()
    return lake.database


def ask(server: ReplicatedPostgres, database: PostgresDatabase, statement: str) -> list[tuple[object, ...]]:
    with psycopg.connect(server.now(database).conninfo, autocommit=True) as connection:
        found = connection.execute(statement.encode())
        return found.fetchall() if found.description else []


def write_job(folder: JobFolder, database: PostgresDatabase) -> None:
    (folder.folder / "password").write_text(PASSWORDS["maintenance_password"])
    url = database.url.replace("lake@", f"{MAINTENANCE}:${{file:password}}@")
    feed = {"kind": "ducklake", "table": "main.numbers", "consumer_id": "copied"}
    folder.write(
        {
            # Most batches are files, so that maintenance has some to merge however fast the job is.
            "numbers": folder.pipeline("numbers", {"kind": "rate", "rows_per_second": 20}, "300ms", inline_rows=10),
            "copied": folder.pipeline("copied", feed, "300ms"),
        },
        catalog={"url": url},
        metrics={"port": 0, "every": "1s"},
        maintenance={"every": "1s", "share": 1.0, "keep_last": 5},
    )


def wait_for_more(job: JobProcess, server: ReplicatedPostgres, database: PostgresDatabase) -> int:
    """Wait until both pipelines have written again; return the most connections that the job had meanwhile."""
    batches, most = "SELECT batch_id FROM ducklake_streaming_epochs ORDER BY stream", 0
    connections = f"SELECT count(*) FROM pg_stat_activity WHERE usename = '{MAINTENANCE}'"
    before = [batch for [batch] in ask(server, database, batches)]

    def has_more() -> bool:
        nonlocal most
        most = max(most, int(str(ask(server, database, connections)[0][0])))
        now = [batch for [batch] in ask(server, database, batches)]
        return len(now) == 2 and all(
            int(str(b)) >= int(str(a)) + BATCHES for a, b in zip(before or [0, 0], now, strict=True)
        )

    job.wait_for(has_more)
    return most


def test_job_outlives_a_new_password_and_a_failover_with_few_connections(
    server: ReplicatedPostgres, job_folder: JobFolder
) -> None:
    database = prepare(server, job_folder.folder)
    write_job(job_folder, server.at_address(database))
    job = job_folder.start("--verbose")
    most = wait_for_more(job, server, database)
    job.wait_for_line("maintenance_done")

    ask(server, database, f"ALTER ROLE {MAINTENANCE} PASSWORD 'changed-since'")
    ask(server, database, f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{MAINTENANCE}'")
    job.wait_for_line("password authentication failed")
    (job_folder.folder / "password").write_text("changed-since\n")
    most = max(most, wait_for_more(job, server, database))

    server.crash()
    job.wait_for_line("it is a standby")
    server.promote()
    most = max(most, wait_for_more(job, server, database))
    job.signal(signal.SIGTERM)
    assert job.wait() == 0, job.log[-5000:]

    job_folder.catalog = server.now(database).url
    numbers = [value for [value] in job_folder.rows("numbers", "value")]
    copied = [value for [value] in job_folder.rows("copied", "value")]
    assert numbers == [*range(len(numbers))], "each row once"
    assert copied == [*range(len(copied))], "each row once"
    assert 0 < len(copied) <= len(numbers)
    assert not job.lines("pipeline_failed"), job.log[-5000:]
    assert most <= MOST_CONNECTIONS
    assert "changed-since" not in job.log
    with Lake.open(job_folder.catalog) as lake:
        assert lake.doctor(full=True) == []
