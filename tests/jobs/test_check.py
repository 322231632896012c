"""`ducklake-stream check job.toml` against each broken part, for real: it is told, and the rest is looked at."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import psycopg
import pytest

from ducklake_core import Lake
from ducklake_streaming.cli import main
from tests.fixtures.jobs import JobFolder
from tests.fixtures.kafka import Kafka
from tests.fixtures.postgres import PostgresServer, run_postgres

pytestmark = pytest.mark.slow
Check: TypeAlias = Callable[[JobFolder], tuple[int, dict[str, dict[str, Any]]]]  # Any: JSON


@pytest.fixture
def check(capsys: pytest.CaptureFixture[str]) -> Check:
    def check(folder: JobFolder) -> tuple[int, dict[str, dict[str, Any]]]:
        code = main(["check", str(folder.file), "--json"])
        results = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        return code, {result["check"]: result for result in results}

    return check


@pytest.fixture
def topic(kafka: Kafka) -> str:
    return kafka.create_topic(3)


def wrong(results: dict[str, dict[str, Any]]) -> dict[str, str]:
    return {name: result["text"] for name, result in results.items() if not result["ok"]}


def files_of(folder: Path) -> set[Path]:
    return {path for path in folder.rglob("*") if "jars" not in path.parts}


def by_pattern(folder: JobFolder, kafka: Kafka, pattern: str) -> dict[str, Any]:  # Any: see JobFolder
    """Return an input from the topics that match."""
    named = folder.kafka(kafka, "none", topic_pattern=pattern)
    return {key: value for key, value in named.items() if key != "topics"}


def test_a_job_that_can_run_is_all_ok_and_nothing_is_made(
    check: Check, job_folder: JobFolder, kafka: Kafka, topic: str
) -> None:
    (job_folder.folder / "incoming").mkdir()
    files = {"kind": "files", "path": f"{job_folder.folder}/incoming", "format": "json", "schema": "id bigint"}
    job_folder.write(
        {
            "a": job_folder.pipeline("a", job_folder.kafka(kafka, topic)),
            "b": job_folder.pipeline("b", by_pattern(job_folder, kafka, "topic.*")),
            "c": job_folder.pipeline("c", files),
        }
    )
    before = files_of(job_folder.folder)

    code, results = check(job_folder)

    assert (code, wrong(results)) == (0, {})
    assert results["a: topics"]["text"] == f"{topic} (3 partitions)"
    assert results["catalog"]["text"].endswith("no lake yet, the first batch creates it")
    assert results["jars"]["text"].startswith("connector 4.2.0 for Spark ")
    assert {"file", "java", "data path", "a: checkpoint", "b: topics", "c: files"} <= results.keys()
    assert files_of(job_folder.folder) == before


def test_every_broken_part_is_told_and_none_hides_another(
    check: Check, job_folder: JobFolder, kafka: Kafka, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = job_folder.folder
    (folder / "file").touch()
    (folder / "no-jars").mkdir()
    away = {**job_folder.kafka(kafka, topic), "servers": "127.0.0.1:1"}
    java_only = {"kafka.ssl.truststore.location": "/t.jks", "kafka.security.protocol": "SSL"}
    unread = {"kind": "files", "path": f"{folder}/nowhere", "format": "text"}
    pipelines = {
        "missing": job_folder.pipeline("missing", job_folder.kafka(kafka, "no-such-topic")),
        "pattern": job_folder.pipeline("pattern", by_pattern(job_folder, kafka, "nothing.*")),
        "away": {**job_folder.pipeline("away", away), "checkpoint": f"{folder}/file/checkpoint"},
        "java": job_folder.pipeline("java", job_folder.kafka(kafka, topic, options=java_only)),
        "letters": job_folder.pipeline(
            "letters", job_folder.kafka(kafka, topic, dead_letter_topic="no-such"), on_bad_row="quarantine"
        ),
        "files": job_folder.pipeline("files", unread),
        "feed": job_folder.pipeline("feed", {"kind": "ducklake", "table": "main.not_there"}),
    }
    Lake.create(job_folder.catalog, f"{folder}/file/data").close()
    job_folder.write(pipelines, spark={"jars": f"{folder}/no-jars"}, catalog={"data_path": f"{folder}/file/data"})
    monkeypatch.setenv("JAVA_HOME", f"{folder}/no-java")

    code, results = check(job_folder)

    found = wrong(results)
    assert code == 1, results
    assert {name for name in results if name not in found} == {
        "file",
        "catalog",
        *(f"{name}: checkpoint" for name in pipelines if name != "away"),
    }
    for name, said in {
        "java": "Spark needs Java 17 or newer",
        "jars": "there are no jars in the folder",
        "data path": "cannot be written to: Not a directory",
        "missing: topics": "there is no topic 'no-such-topic'",
        "pattern: topics": "no topic at",
        "away: topics": "Connection refused",
        "away: checkpoint": "let this user write there, or name another folder",
        "java: topics": "kafka.ssl.truststore.location: Spark's Kafka client understands this, ours",
        "letters: topics": "there is no topic 'no-such' for dead letters",
        "files: files": "there is no folder",
        "feed: table": "not_there",
    }.items():
        assert said in found[name], (name, found[name])


@pytest.fixture(scope="module")
def guarded() -> Any:  # Any: a generator, by pytest
    """Give a server with a user who may read only, and one who is asked for a password."""
    with run_postgres() as server:
        with psycopg.connect(server.maintenance.conninfo, autocommit=True) as connection:
            connection.execute("CREATE ROLE asked LOGIN PASSWORD 'right'")
            connection.execute("CREATE ROLE reads LOGIN; GRANT pg_read_all_data TO reads")
            rules = server.directory / "data" / "pg_hba.conf"
            rules.write_text(f"host all asked all scram-sha-256\n{rules.read_text()}")
            connection.execute("SELECT pg_reload_conf()")
        yield server


@pytest.mark.parametrize(
    ("user", "said"),
    [
        ("asked:planted-secret@", "password authentication failed"),
        ("reads@", "may not write to catalog"),
        ("lake@", None),
    ],
)
def test_a_catalog_that_does_not_let_us_in_or_write_is_told(
    check: Check,
    job_folder: JobFolder,
    guarded: PostgresServer,
    monkeypatch: pytest.MonkeyPatch,
    user: str,
    said: str | None,
) -> None:
    database = guarded.create_database()
    Lake.create(database.url, f"{job_folder.folder}/data/").close()
    monkeypatch.setenv("LAKE_URL", database.url.replace("lake@", user))
    job_folder.write({"p": job_folder.pipeline("p", {"kind": "rate"})}, catalog={"url": "${env:LAKE_URL}"})

    code, results = check(job_folder)

    assert (code, "catalog" in wrong(results)) == ((0, False) if said is None else (1, True))
    assert (said or "format 1.0, may be written to") in results["catalog"]["text"]
    assert "planted-secret" not in json.dumps(results)


def test_a_lake_of_an_unknown_format_is_told(check: Check, job_folder: JobFolder) -> None:
    import sqlite3  # noqa: PLC0415 # to break the lake

    Lake.create(job_folder.catalog, f"{job_folder.folder}/data/").close()
    with sqlite3.connect(f"{job_folder.folder}/lake.sqlite") as connection:
        connection.execute("UPDATE ducklake_metadata SET value = '99.0' WHERE key = 'version'")
    connection.close()
    job_folder.write({"p": job_folder.pipeline("p", {"kind": "rate"})})

    code, results = check(job_folder)

    assert code == 1
    assert "99.0" in wrong(results)["catalog"]


def test_mistakes_of_the_file_are_lines_and_another_code(
    job_folder: JobFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    pipeline = {**job_folder.pipeline("p", {"kind": "rate"}), "trigger": "now and then", "chekpoint": "x"}
    job_folder.write({"p": pipeline})

    assert main(["check", str(job_folder.file)]) == 2

    lines = capsys.readouterr().out.splitlines()
    assert all(line.startswith(f"wrong  file: {job_folder.file}: pipeline.p") for line in lines)
    assert ["trigger" in lines[0] or "trigger" in lines[1], len(lines)] == [True, 2]


@pytest.mark.parametrize(
    ("jars", "said"),
    [
        (["spark-sql-kafka-0-10_2.13-4.2.0.jar", "kafka-clients-3.9.2.jar"], "lacks spark-token-provider"),
        (
            [
                "spark-sql-kafka-0-10_2.13-3.5.0.jar",
                "spark-token-provider-kafka-0-10_2.13-3.5.0.jar",
                "kafka-clients-3.9.2.jar",
                "commons-pool2-2.12.1.jar",
            ],
            "the connector is 3.5.0, but Spark is 4.",
        ),
    ],
)
def test_jars_that_do_not_fit_are_told(
    check: Check, job_folder: JobFolder, kafka: Kafka, topic: str, jars: list[str], said: str
) -> None:
    folder = job_folder.folder / "other-jars"
    folder.mkdir()
    for jar in jars:
        (folder / jar).touch()
    job_folder.write({"p": job_folder.pipeline("p", job_folder.kafka(kafka, topic))}, spark={"jars": str(folder)})

    assert said in wrong(check(job_folder)[1])["jars"]


def test_people_get_a_line_for_each(job_folder: JobFolder, capsys: pytest.CaptureFixture[str]) -> None:
    job_folder.write({"p": job_folder.pipeline("p", {"kind": "rate"})})

    assert main(["check", str(job_folder.file)]) == 0

    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"ok     file: {job_folder.file}: 1 pipeline"
    assert all(line.startswith("ok     ") for line in lines)
