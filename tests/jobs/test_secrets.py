"""Secrets of a job reach nothing that anybody can read: output, logs, Spark's UI, event log, checkpoint, processes."""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import psycopg
import pytest

from ducklake_core import Lake
from ducklake_streaming.cli import main
from ducklake_streaming.demo.local_postgres import free_port
from tests.fixtures.driver import SETTINGS
from tests.fixtures.jobs import JobFolder, JobProcess
from tests.fixtures.kafka import Kafka, Record
from tests.fixtures.postgres import PostgresServer, run_postgres
from tests.fixtures.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

CATALOG, SASL, REGISTRY = SECRETS = ("planted-of-the-catalog", "planted-of-sasl", "planted-of-the-registry")
LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"


@pytest.fixture
def guarded() -> Iterator[PostgresServer]:
    """Give a server whose user `writer` is asked for a password."""
    with run_postgres() as server:
        with psycopg.connect(server.maintenance.conninfo, autocommit=True) as connection:
            connection.execute(f"CREATE ROLE writer LOGIN SUPERUSER PASSWORD '{CATALOG}'".encode())
            rules = server.directory / "data" / "pg_hba.conf"
            rules.write_text(f"host all writer all scram-sha-256\n{rules.read_text()}")
            connection.execute("SELECT pg_reload_conf()")
        yield server


def test_planted_secrets_are_found_nowhere(
    guarded: PostgresServer,
    kafka: Kafka,
    job_folder: JobFolder,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    port = _write_job(job_folder, kafka)
    url = guarded.create_database().url.replace("lake@", f"writer:{CATALOG}@")
    for name, value in {"LAKE_URL": url, "REGISTRY_PASSWORD": REGISTRY}.items():
        monkeypatch.setenv(name, value)
    with Lake.create(url, f"{job_folder.folder}/data/") as lake:
        lake.create_table("main.source", {"id": "int64"})
        lake.append("main.source", {"id": [1]})

    assert main(["check", str(job_folder.file)]) == 1  # the registry is away
    job = job_folder.start("--verbose", "--log-file", f"{job_folder.folder}/job.log")
    job.wait_for_line("batch_committed", "stream=records")
    job.wait_for_line("pipeline_failed pipeline=broken")
    job.wait_for_line("pipeline_failed pipeline=registered")
    job.wait_for_line("batch_committed", "stream=copied")
    pages = "".join(_pages(port))
    processes = "".join(_command_lines(job))
    job.signal(signal.SIGTERM)
    assert job.wait() == 1, job.log[-5000:]

    shown = capfd.readouterr()
    texts = {"output": shown.out + shown.err, "pages": pages, "processes": processes, **_files(job_folder.folder)}
    assert "spark.app.name" in pages
    assert "SparkSubmit" in processes
    assert any("events" in name and "SparkListenerApplicationEnd" in text for name, text in texts.items())
    assert any("checkpoints" in name and "batchWatermarkMs" in text for name, text in texts.items())
    found = [(name, secret) for name, text in texts.items() for secret in SECRETS if secret in text]
    assert found == []


def _write_job(folder: JobFolder, kafka: Kafka) -> int:
    """Write a job that works in part, with all that Spark can show; return the port of its UI."""
    topic = kafka.create_topic()
    kafka.produce(topic, [Record(0, b'{"id": %d}' % number) for number in range(5)])
    (folder.folder / "sasl").write_text(f"{SASL}\n")
    (folder.folder / "events").mkdir()
    port = free_port()
    shows = {
        "spark.ui.enabled": "true",
        "spark.ui.port": str(port),
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": f"{folder.folder}/events",
        "spark.eventLog.compress": "false",
        "spark.local.dir": f"{folder.folder}/local",
    }
    settings = {name: value for name, value in SETTINGS.items() if name != "spark.python.daemon.module"}
    login = {"kafka.sasl.jaas.config": f'{LOGIN} username="u" password="${{file:sasl}}";'}
    records = folder.kafka(kafka, topic, options=login)
    registered = {
        **folder.kafka(kafka, topic),
        "format": "avro",
        "registry": "http://127.0.0.1:1",
        "registry_options": {"user": "u", "password": "${env:REGISTRY_PASSWORD}", "timeout": "1s"},
    }
    broken = folder.pipeline("broken", records)
    folder.write(
        {
            "records": folder.pipeline("records", records, "1 second"),
            "copied": folder.pipeline("copied", {"kind": "ducklake", "table": "main.source"}, "1 second"),
            "broken": {**broken, "transform": {"sql": "SELECT no_such_column FROM input"}},
            "registered": folder.pipeline("registered", registered),
        },
        catalog={"url": "${env:LAKE_URL}"},
        spark={"settings": {**settings, **shows}},
        job={"on_failure": "continue"},
    )
    return port


def _pages(port: int) -> Iterator[str]:
    """Yield what Spark's UI shows."""
    root = f"http://127.0.0.1:{port}"
    wait_until(lambda: _get(f"{root}/api/v1/applications"))
    [application] = json.loads(_get(f"{root}/api/v1/applications"))
    yield from (_get(f"{root}/{page}/") for page in ("environment", "SQL", "jobs", "StreamingQuery"))
    api = f"{root}/api/v1/applications/{application['id']}"
    yield from (_get(f"{api}/{page}") for page in ("environment", "sql?details=true&planDescription=true", "jobs"))


def _get(url: str) -> str:
    with urlopen(url, timeout=30) as answer:  # noqa: S310 # an address of this test
        return str(answer.read().decode())


def _command_lines(job: JobProcess) -> Iterator[str]:
    """Yield how the processes were called that the job has started."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if f"\nPPid:\t{job.process.pid}\n" in (folder / "status").read_text():
                yield (folder / "cmdline").read_text().replace("\0", " ")
        except OSError:
            continue


def _files(folder: Path) -> dict[str, str]:
    """Return all that is in a folder, but the secret itself and the jars."""
    found = {}
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name != "jars"]
        for name in names:
            if name != "sasl":
                path = Path(place) / name
                found[str(path)] = path.read_bytes().decode(errors="replace")
    return found
