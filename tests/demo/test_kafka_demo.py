"""The demonstration with Kafka, with small numbers: a job that is killed in the middle loses and doubles nothing."""

import json
import re
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from ducklake_streaming.demo.kafka_run import KafkaDemo, run_kafka_demo
from ducklake_streaming.jobs.job_file import load_job
from tests.fixtures.kafka import require_kafka
from tests.fixtures.oracle import Oracle


class Display:
    """Keeps what the demo shows, and what the status page tells of pipelines each time that rows are in the lake."""

    def __init__(self) -> None:
        self.shown: list[str] = []
        self.pipelines: list[dict[str, Any]] = []  # Any: JSON

    def show(self, text: str) -> None:
        self.shown.append(text)
        if text.endswith(("█", "░")):
            [address] = re.findall(r"http://127\.0\.0\.1:\d+/", "\n".join(self.shown))
            with (
                suppress(OSError),
                urlopen(f"{address}facts.json", timeout=10) as answer,  # noqa: S310 # ours; it may have been killed
            ):
                self.pipelines += json.load(answer)["rows"]["pipeline"]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_kafka_demo_accounts_for_each_record(tmp_path: Path, oracle: Oracle) -> None:
    require_kafka()
    directory = tmp_path / "it's here"
    display = Display()

    run_kafka_demo(KafkaDemo(directory, "sqlite", seconds=2, backlog=600, per_second=50), display.show)

    text = "\n".join(display.shown)
    produced, stored, dead = (
        int(number.replace(",", "")) for number in re.findall(r"^  +([\d,]+)  (?=rec|are)", text, re.MULTILINE)
    )
    assert produced == stored + dead
    assert dead >= 600 // 50
    assert text.count("$ ducklake-stream run") == 2
    assert {(one["pipeline"], one["state"]) for one in display.pipelines} == {("orders", "running")}
    assert load_job(directory / "job.toml").job.pipeline.keys() == {"orders"}
    oracle.execute(next(line.strip() for line in text.splitlines() if line.strip().startswith("ATTACH")))
    assert oracle.query("SELECT count(DISTINCT id) FROM lake.orders") == [(stored,)]
    assert oracle.query("SELECT count(*) FROM lake.dead_letters") == [(dead,)]
