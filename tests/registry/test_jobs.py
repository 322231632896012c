"""Topics of a real broker with schemas of a real registry, by a job file: evolution, poison, and no secret anywhere."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.jobs import JobFolder
from tests.fixtures.kafka import Kafka, Record
from tests.fixtures.registered import avro, header, record
from tests.fixtures.registry import Registry

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

PASSWORD = "open-sesame-4711"  # noqa: S105 # planted, to be found nowhere
V1 = record(("id", "int"), ("amount", "float"))
V2 = record(("id", "long"), ("amount", "double"), ("note", ["null", "string"]))
V3 = record(("id", "long"), ("note", ["null", "string"]), ("tags", {"type": "array", "items": "string"}))
PROTO = 'syntax = "proto3"; message Order { int64 id = 1; optional string name = 2; }'
JSON_SCHEMA = {"type": "object", "properties": {"id": {"type": "integer"}, "at": {"type": "string", "format": "date"}}}


def test_records_of_every_format_are_in_their_tables_or_dead_letters(
    kafka: Kafka, registry: Registry, job_folder: JobFolder
) -> None:
    topics = {name: kafka.create_topic(name=f"{registry.new_topic()}-{name}") for name in ("avro", "protobuf", "json")}
    subjects = {name: f"{topic}-value" for name, topic in topics.items()}
    first = registry.register(subjects["avro"], V1)
    protobuf = header(registry.register(subjects["protobuf"], PROTO, "PROTOBUF"))
    checked = header(registry.register(subjects["json"], JSON_SCHEMA, "JSON"))
    _produce(kafka, topics["avro"], avro(first, V1, {"id": 1, "amount": 0.5}), b"poison", None)
    _produce(
        kafka, topics["protobuf"], protobuf + b"\0\x08\x01\x12\x01a", protobuf + b"\0\x08\x02", protobuf + b"\0\x08"
    )
    _produce(kafka, topics["json"], checked + b'{"id": 1, "at": "2026-01-31"}', checked + b'{"id": "one"}')
    _write_job(job_folder, kafka, registry, topics)

    run = job_folder.run(REGISTRY_PASSWORD=PASSWORD)

    assert run.wait() == 0, run.log[-5000:]
    assert job_folder.rows("avro", "id", "amount") == [(1, 0.5)]
    assert job_folder.rows("protobuf", "id", "name") == [(1, "a"), (2, None)]
    assert [str(at) for _, at in job_folder.rows("json", "id", "at")] == ["2026-01-31"]
    assert _dead(job_folder, "avro") == [(1, b"poison"), (2, None)]
    assert _dead(job_folder, "protobuf") == [(2, protobuf + b"\0\x08")]
    assert _dead(job_folder, "json") == [(1, checked + b'{"id": "one"}')]

    # The newest schema has lost a field that the one before had: no value of it may be lost.
    second, third = (registry.register(subjects["avro"], schema) for schema in (V2, V3))
    _produce(
        kafka,
        topics["avro"],
        avro(first, V1, {"id": 2, "amount": 1.5}),
        avro(second, V2, {"id": 2**40, "amount": 0.1, "note": "n"}),
        header(987654) + b"x",
        avro(third, V3, {"id": 4, "note": None, "tags": ["a", "b"]}),
    )

    again = job_folder.run(REGISTRY_PASSWORD=PASSWORD)

    assert again.wait() == 0, again.log[-5000:]
    assert job_folder.rows("avro", "id", "amount", "note", "tags") == [
        (1, 0.5, None, None),
        (2, 1.5, None, None),
        (4, None, None, ["a", "b"]),
        (2**40, 0.1, "n", None),
    ]
    assert [offset for offset, _ in _dead(job_folder, "avro")] == [1, 2, 5]
    assert _files_with(job_folder.folder, PASSWORD.encode()) == []


def _write_job(job_folder: JobFolder, kafka: Kafka, registry: Registry, topics: dict[str, str]) -> None:
    (job_folder.folder / "events").mkdir()
    pipelines: dict[str, Any] = {}  # Any: TOML
    for name, topic in topics.items():
        options = {"user": "lake", "password": "${env:REGISTRY_PASSWORD}"}
        source = job_folder.kafka(kafka, topic, format=name, registry=registry.url, registry_options=options)
        sink: Any = {"merge_schema": True, "on_bad_row": "quarantine", "dead_letter_table": f"main.{name}_dead"}  # TOML
        pipelines[name] = job_folder.pipeline(name, source, **sink)
    file = job_folder.write(pipelines)
    events = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",  # so that a secret in it would be found
        "spark.eventLog.dir": f"file://{job_folder.folder}/events",
    }
    lines = "".join(f"{json.dumps(name)} = {json.dumps(value)}\n" for name, value in events.items())
    head = '["spark"."settings"]\n'
    assert head in file.read_text()
    file.write_text(file.read_text().replace(head, head + lines))


def _produce(kafka: Kafka, topic: str, *values: bytes | None) -> None:
    kafka.produce(topic, [Record(0, value) for value in values])


def _dead(job_folder: JobFolder, name: str) -> list[tuple[int, bytes | None]]:
    return [(offset, value) for offset, value in job_folder.rows(f"{name}_dead", "offset", "value")]


def _files_with(folder: Path, text: bytes) -> list[Path]:
    files = {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}
    assert any("SparkListenerApplicationStart" in content.decode(errors="replace") for content in files.values())
    return [file for file, content in files.items() if text in content]
