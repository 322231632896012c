"""Secrets of inputs: Spark shows its settings, plans and events, and none of them has one."""

import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from ducklake_core import Lake
from ducklake_streaming.demo.local_postgres import HOST, USER
from tests.fixtures.kafka import Kafka, Record
from tests.fixtures.kafka_jars import connector_jars
from tests.fixtures.postgres import PostgresDatabase

DRIVER = Path(__file__).parents[1] / "fixtures" / "input_driver.py"
PLANTED = "hunter2"  # begins each secret; names of variables with "password" are hidden by Spark in any case
JOB = """
[catalog]
url = "postgresql://{user}:${{env:LAKE_LOGIN}}@{host}:{port}/{database}"
[spark]
master = "local[2]"
jars = "{jars}"
[pipeline.silver]
checkpoint = "checkpoints/silver"
input = {{ kind = "ducklake", table = "main.bronze" }}
sink = {{ table = "main.silver" }}
[pipeline.orders]
checkpoint = "checkpoints/orders"
[pipeline.orders.input]
kind = "kafka"
servers = "{servers}"
topic_pattern = "{topic}"
format = "raw"
max_records_per_trigger = 10
[pipeline.orders.input.options]
"kafka.sasl.jaas.config" = "org.apache.X required username=\\"u\\" password=\\"${{file:secret}}\\";"
"kafka.ssl.keystore.key" = "${{env:KEY}}"
"minPartitions" = 2
[pipeline.orders.sink]
table = "main.orders"
"""


@pytest.mark.slow
def test_secrets_of_inputs_are_in_nothing_that_spark_shows(
    tmp_path: Path, postgres_database: PostgresDatabase, kafka: Kafka
) -> None:
    jobs, jars, events = _folders(tmp_path)
    for jar in connector_jars():
        (jars / jar.name).symlink_to(jar)
    topic = kafka.create_topic()
    kafka.produce(topic, [Record(0, b"x"), Record(0, None), Record(0, b"z", b"key")])
    (jobs / "secret").write_text(f"{PLANTED}-kafka\n")
    names = {"user": USER, "host": HOST, "port": postgres_database.port, "database": postgres_database.name}
    (jobs / "job.toml").write_text(JOB.format(**names, jars=jars, servers=kafka.servers, topic=topic))
    with Lake.create(postgres_database.url, str(tmp_path / "data")) as lake, lake.transaction() as tx:
        tx.create_table("main.bronze", pa.schema([("id", pa.int64())]))
        tx.append("main.bronze", pa.table({"id": [1, 2]}))

    secrets = {"LAKE_LOGIN": f"{PLANTED}-lake", "KEY": f"{PLANTED}-key"}
    done = subprocess.run(
        [sys.executable, DRIVER, jobs / "job.toml", events],
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, **secrets, "PYTHONPATH": str(DRIVER.parents[2])},
    )

    assert done.returncode == 0, done.stderr
    assert [line for line in done.stdout.splitlines() if line in ("silver 2", "orders 3")] == ["silver 2", "orders 3"]
    assert "${env:LAKE_LOGIN}" in done.stdout, "plans were shown"
    assert PLANTED not in done.stdout + done.stderr
    assert _files_with(PLANTED, events, jobs / "checkpoints") == []


def _folders(folder: Path) -> tuple[Path, Path, Path]:
    found = folder / "jobs", folder / "jars", folder / "events"
    for one in found:
        one.mkdir()
    return found


def _files_with(text: str, *folders: Path) -> list[Path]:
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    assert files
    return [path for path in files if text.encode() in path.read_bytes()]
