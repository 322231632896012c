"""The page on Kafka: its job file and its commands run in an empty folder, in their order, against a real broker."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ducklake_core import Lake
from ducklake_streaming.jobs.job_file import load_job
from tests.fixtures.kafka import Kafka, Record

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "ingest-from-kafka.md").read_text()
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"^```(toml|sh)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
ORDERS = [
    b'{"id": 1, "customer": "Ann", "amount": 9.5, "ordered_at": "2026-01-31T12:00:00Z"}',
    b'{"id": 2, "customer": "Bob", "amount": 7, "ordered_at": "2026-02-01T12:00:00Z"}',
    b'{"id": 3, "customer": ',
    None,
]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_job_of_the_page_runs(kafka: Kafka, tmp_path: Path) -> None:
    topic = kafka.create_topic()
    kafka.produce(topic, [Record(0, order) for order in ORDERS])
    whole = next(text for _, text in BLOCKS if text.startswith("[catalog]"))
    for kind, text in BLOCKS:
        if kind == "sh":
            _run(text, tmp_path)
        elif text == whole:
            ours = text.replace("localhost:9092", kafka.servers).replace('topics = ["orders"]', f'topics = ["{topic}"]')
            (tmp_path / "job.toml").write_text(ours)

    with Lake.open(f"sqlite:///{tmp_path}/lake.sqlite") as lake:
        assert lake.table("main.orders").read().column("id").to_pylist() == [1, 2]
        assert lake.table("main.dead_letters").read().column("offset").to_pylist() == [2, 3]


def test_other_parts_of_job_files_are_valid_beside_it(tmp_path: Path) -> None:
    whole, *others = (text for kind, text in BLOCKS if kind == "toml")
    file = tmp_path / "job.toml"
    file.write_text("\n".join([whole, *others]))

    job = load_job(file, {}).job

    assert len(job.pipeline) == 1 + len(others) > 1


def test_the_job_of_the_readme_is_valid(tmp_path: Path) -> None:
    [job] = re.findall(r"^```toml\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    (tmp_path / "job.toml").write_text(job)

    assert load_job(tmp_path / "job.toml", {}).job.pipeline.keys() == {"orders"}


def _run(commands: str, folder: Path) -> None:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        ["/bin/bash", "-euc", commands],
        check=False,
        cwd=folder,
        env={**os.environ, "PATH": path},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
