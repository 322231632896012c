"""The runbook: its commands run on a real lake and a real server of metrics, its SQL on a real PostgreSQL."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import psycopg
import pyarrow as pa
import pytest

from ducklake_core import Lake
from ducklake_core.model import Consumer, SnapshotId
from ducklake_sinks.dead_letters import DEAD_LETTER_SCHEMA
from ducklake_sinks.events import FlushFailed
from ducklake_streaming.cli import main
from ducklake_streaming.jobs.events import PipelineStarted
from ducklake_streaming.kafka.events import RecordsMissing
from ducklake_streaming.metrics import declared
from ducklake_streaming.metrics.exporter import Exporter
from ducklake_streaming.metrics.lake_poll import LakePoll
from ducklake_streaming.metrics.server import Address
from tests.docs.console_blocks import commands_of, make_lake_of_orders
from tests.fixtures.postgres import PostgresDatabase

PAGE = (Path(__file__).parents[2] / "docs" / "runbook.md").read_text()
SQL = re.findall(r"^```sql\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
ADDRESS = "localhost:9464"
# No broker answers here: `check` says so, after what the page shows of it.
MAY_END_WITH = {"ducklake-stream check job.toml": 1}
JOB = """
[catalog]
url = "sqlite:///lake.sqlite"
[pipeline.orders]
checkpoint = "checkpoint"
input = { kind = "kafka", servers = "127.0.0.1:1", topics = ["orders"], schema = "id bigint", timeout = "1s" }
sink = { table = "main.orders", on_bad_row = "quarantine", dead_letter_table = "main.dead" }
"""


@pytest.fixture
def lake_folder(tmp_path: Path) -> Path:
    """Give a folder with a lake, a job file, a dead letter and a consumer that reads no more."""
    make_lake_of_orders(tmp_path)
    (tmp_path / "job.toml").write_text(JOB)
    now = datetime.now(UTC)
    letter = {"stream": "orders", "reason": "broken", "quarantined_at": now, "topic": "orders", "partition": 0}
    with Lake.open(f"sqlite:///{tmp_path}/lake.sqlite") as lake:
        lake.create_table("main.dead", DEAD_LETTER_SCHEMA)
        lake.append("main.dead", pa.Table.from_pylist([{**letter, "offset": 7, "value": b"{"}], DEAD_LETTER_SCHEMA))
        lake.record_consumer(Consumer("billing", lake.table("orders").version.table_uuid, SnapshotId(1), now, None))
        lake.merge_adjacent_files()
    return tmp_path


@pytest.fixture
def exporter(lake_folder: Path) -> Iterator[Exporter]:
    """Give a server of metrics that has seen the lake, a failed flush and a loss."""
    with Exporter(Address(port=0)) as made:
        recorder = made.pipeline_recorder("orders", 1.0)
        recorder.record(PipelineStarted("orders"))
        recorder.record(RecordsMissing("orders", "orders", 0, 5, 10, 15, 20, "retention"))
        made.lake_recorder().record(FlushFailed({"table": "main.orders"}, 1, OSError("full")))
        made.numbers.set(declared.SINK_LAST_PROGRESS, 1.0, "orders")
        poll = LakePoll(lambda: Lake.open(f"sqlite:///{lake_folder}/lake.sqlite"), made.numbers)
        poll()
        poll.close()
        yield made.start()


def test_commands_show_what_the_page_says(
    lake_folder: Path, exporter: Exporter, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(lake_folder)
    monkeypatch.setenv("DUCKLAKE_CATALOG", "sqlite:///lake.sqlite")
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    address = exporter.url.removeprefix("http://").rstrip("/")
    found = list(dict.fromkeys(commands_of(PAGE)))
    assert len(found) >= 30
    for command, shown in found:
        code = run_command(command.replace(ADDRESS, address))

        told = capfd.readouterr()
        assert code in {0, MAY_END_WITH.get(command, 0)}, f"{command}: {told.err}"
        assert told.out.split()[: len(shown.split())] == shown.split() or told.out.startswith(shown), command


def run_command(command: str) -> int:
    """Run it as the shell does; one of ours alone in this process, which saves a second each."""
    words = shlex.split(command)
    if words[0] == "ducklake-stream" and "|" not in words:
        return main(words[1:])
    return subprocess.run(["/bin/bash", "-c", command], check=False).returncode


def test_statements_run_on_the_catalog(postgres_database: PostgresDatabase, tmp_path: Path) -> None:
    assert len(SQL) >= 3
    with Lake.create(postgres_database.url, f"{tmp_path}/data/") as lake:
        lake.create_table("orders", {"id": "int64"})
        lake.append("orders", {"id": [1]})

        with psycopg.connect(postgres_database.conninfo) as connection:
            for statement in SQL:
                assert connection.execute(statement.encode()).fetchall(), statement
