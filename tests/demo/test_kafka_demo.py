"""The demonstration with Kafka, with small numbers: a job that is killed in the middle loses and doubles nothing."""

import re
from pathlib import Path

import pytest

from ducklake_streaming.demo.kafka_run import KafkaDemo, run_kafka_demo
from ducklake_streaming.jobs.job_file import load_job
from tests.fixtures.kafka import require_kafka
from tests.fixtures.oracle import Oracle


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_kafka_demo_accounts_for_each_record(tmp_path: Path, oracle: Oracle) -> None:
    require_kafka()
    directory = tmp_path / "it's here"
    shown: list[str] = []

    run_kafka_demo(KafkaDemo(directory, "sqlite", seconds=2, backlog=600, per_second=50), shown.append)

    text = "\n".join(shown)
    produced, stored, dead = (
        int(number.replace(",", "")) for number in re.findall(r"^  +([\d,]+)  (?=rec|are)", text, re.MULTILINE)
    )
    assert produced == stored + dead
    assert dead >= 600 // 50
    assert text.count("$ ducklake-stream run") == 2
    assert load_job(directory / "job.toml").job.pipeline.keys() == {"orders"}
    oracle.execute(next(line.strip() for line in text.splitlines() if line.strip().startswith("ATTACH")))
    assert oracle.query("SELECT count(DISTINCT id) FROM lake.orders") == [(stored,)]
    assert oracle.query("SELECT count(*) FROM lake.dead_letters") == [(dead,)]
