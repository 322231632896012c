"""A job that logs in JSON and sends spans: each line is an object, each batch a trace, and no secret is in either."""

import json
from datetime import UTC, datetime
from typing import Any, TypeAlias

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Status

from tests.fixtures.collector import Collector, attributes_of, run_collector
from tests.fixtures.driver import SETTINGS as DRIVER_SETTINGS
from tests.fixtures.jobs import JobFolder, JobProcess
from tests.fixtures.kafka import Kafka, Record

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

SECRET = "planted_column"  # noqa: S105 # planted to be looked for
SETTINGS = {name: value for name, value in DRIVER_SETTINGS.items() if name != "spark.python.daemon.module"}
DEPRECATED = {"spark.kryoserializer.buffer.mb": "1"}  # of which Spark's Java warns


Line: TypeAlias = dict[str, Any]  # Any: whatever JSON may hold


def lines_of(process: JobProcess) -> list[Line]:
    """Return the lines of a log, each of which is an object; those that Java writes before it has a log are not."""
    lines = [line for line in process.log.splitlines() if not line.startswith("WARNING: Using incubator modules")]
    return [dict(json.loads(line)) for line in lines]


def test_logs_are_json_and_batches_are_traces(kafka: Kafka, job_folder: JobFolder) -> None:
    topic = kafka.create_topic(2)
    kafka.produce(topic, [Record(number % 2, b"%d" % number) for number in range(10)])
    good = job_folder.pipeline("orders", job_folder.kafka(kafka, topic, max_records_per_trigger=4))
    broken = job_folder.pipeline("broken", job_folder.kafka(kafka, topic))
    with run_collector() as collector:
        job_folder.write(
            {"orders": good, "broken": {**broken, "transform": {"sql": "SELECT ${env:PLANTED} FROM input"}}},
            job={"on_failure": "continue"},
            spark={"settings": {**SETTINGS, **DEPRECATED}},
            log={"format": "json", "file": "job.log"},
            tracing={"endpoint": collector.url, "service_name": "orders job"},
        )
        job = job_folder.run(PLANTED=SECRET)

    assert job.process.returncode == 2, job.log
    everything = (job_folder.folder / "job.log").read_text()
    lines = lines_of(job)
    committed = [line for line in lines if line.get("event") == "batch_committed"]
    assert sum(line["rows"] for line in committed) == 10
    check_failure(lines)
    check_lines_of_java(lines)
    check_debug([json.loads(line) for line in everything.splitlines()])
    check_traces(collector, committed, topic)
    shown = [job.log, everything, *(str(span) for span in collector.spans)]
    assert [text for text in shown if SECRET in text] == []


def check_failure(lines: list[Line]) -> None:
    """See that what failed is told once, in one line, without its stack."""
    [failed] = [line for line in lines if line.get("event") == "batch_failed"]
    [ended] = [line for line in lines if line.get("event") == "pipeline_failed"]
    assert (failed["stream"], failed["batch"], failed["level"]) == ("broken", 0, "ERROR")
    assert failed["error_type"] == ended["error_type"] == "InvalidInput"
    assert "***" in failed["error"]
    assert (ended["pipeline"], ended["exit_code"]) == ("broken", 2)
    assert [line["failed"] for line in lines if line.get("event") == "job_ended"] == ["broken"]
    assert not any("traceback" in line for line in lines)


def check_lines_of_java(lines: list[Line]) -> None:
    """See that Spark's own warnings have the form of ours."""
    java, *_ = [line for line in lines if line["logger"] == "org.apache.spark.SparkConf"]
    assert (java["level"], set(java)) == ("WARNING", {"time", "level", "logger", "message"})
    assert "spark.kryoserializer.buffer.mb" in java["message"]
    assert all(datetime.fromisoformat(line["time"]).tzinfo == UTC for line in lines)


def check_debug(lines: list[Line]) -> None:
    """See that the file has the stacks, and what is at DEBUG."""
    told = [line["event"] for line in lines if "traceback" in line and "event" in line]
    assert told == ["batch_failed", "pipeline_failed"]
    assert [line for line in lines if line["level"] == "DEBUG" and line.get("event") == "commit_made"]


def check_traces(collector: Collector, committed: list[Line], topic: str) -> None:
    """See that each batch is a trace with its snapshot and its offsets, and that the failed one is an error."""
    batches = sorted(collector.named("ducklake.batch"), key=lambda span: span.start_time_unix_nano)
    orders = [facts for span in batches if (facts := attributes_of(span))["ducklake.stream"] == "orders"]
    [failed] = [span for span in batches if attributes_of(span)["ducklake.stream"] == "broken"]
    assert collector.services == {"orders job"}
    assert [one["ducklake.batch"] for one in orders] == [line["batch"] for line in committed]
    assert [one["ducklake.snapshot_id"] for one in orders] == [line["snapshot"] for line in committed]
    assert [one["ducklake.rows"] for one in orders] == [line["rows"] for line in committed]
    ends = [one["ducklake.kafka.end_offsets"] for one in orders]
    assert ends[-1] == [f"{topic}-0:5", f"{topic}-1:5"]
    assert [one["ducklake.kafka.start_offsets"] for one in orders] == [[], *ends[:-1]]
    assert failed.status.code == Status.STATUS_CODE_ERROR
    assert failed.status.message.startswith("InvalidInput: pipeline 'broken'")
    assert {span.name for span in collector.spans} >= {"ducklake.collect", "ducklake.commit"}
