"""`status --job`: how far a job's pipelines are behind their topics, by a real broker."""

import json
from pathlib import Path

import pyarrow as pa
import pytest

from ducklake_core import Epoch, Lake
from ducklake_streaming.cli import main
from tests.fixtures.kafka import Kafka, Record

JOB = """
[catalog]
url = "${{env:LAKE_URL}}"
[pipeline.orders]
checkpoint = "checkpoint"
[pipeline.orders.input]
kind = "kafka"
servers = "{servers}"
topics = ["{topic}"]
schema = "id bigint"
[pipeline.orders.sink]
table = "orders"
[pipeline.late]
checkpoint = "late"
[pipeline.late.input]
kind = "kafka"
servers = "{servers}"
topics = ["no-such-topic"]
schema = "id bigint"
[pipeline.late.sink]
table = "late"
"""


def test_lag_is_what_the_topic_has_and_the_lake_has_not(
    kafka: Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"sqlite:///{tmp_path}/lake.sqlite"
    monkeypatch.setenv("LAKE_URL", url)
    monkeypatch.delenv("DUCKLAKE_CATALOG", raising=False)
    topic = kafka.create_topic(partitions=2)
    kafka.produce(topic, [Record(number % 2, b"{}") for number in range(10)])
    job = tmp_path / "job.toml"
    job.write_text(JOB.format(servers=kafka.servers, topic=topic))
    with Lake.create(url, f"{tmp_path}/data/") as lake:
        lake.create_table("orders", {"id": "int64"})
        told = json.dumps({"stream": "orders", "batch_id": 0, "offsets": [{topic: {"0": 5, "1": 2}}]})
        with lake.transaction(epoch=Epoch("orders", 0, "query", "run"), extra_info=told) as tx:
            tx.append("orders", pa.table({"id": [1]}))

    code = main(["status", "--job", str(job), "--json"])

    out, err = capsys.readouterr()
    lags = [row for row in map(json.loads, out.splitlines()) if row["kind"] == "lag"]
    assert (code, err) == (0, "")
    assert [(row["partition"], row["lag_records"]) for row in lags if row["stream"] == "orders"] == [(0, 0), (1, 3)]
    assert "no-such-topic" in next(row["problem"] for row in lags if row["stream"] == "late")
