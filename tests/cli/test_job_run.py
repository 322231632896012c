"""`status --job`: what the job's own process tells of its pipelines, if one answers."""

import json
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from ducklake_core import Lake
from ducklake_core.errors import CommitConflict
from ducklake_core.observe import Recorders
from ducklake_sinks.report import BatchFailed
from ducklake_streaming.cli import main
from ducklake_streaming.metrics.answers import JSON, Answer
from ducklake_streaming.metrics.status_page import StatusPage
from tests.fixtures.pages import serving

JOB = """
[catalog]
url = "{url}"
[metrics]
port = {port}
[pipeline.orders]
checkpoint = "checkpoint"
input.kind = "rate"
sink.table = "orders"
"""
ERROR = "table 'main.orders' was dropped"


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    """Write a job file whose metrics are at an address."""
    monkeypatch.delenv("DUCKLAKE_CATALOG", raising=False)
    url = f"sqlite:///{tmp_path}/lake.sqlite"
    Lake.create(url, f"{tmp_path}/data/").close()

    def write(address: str) -> str:
        file = tmp_path / "job.toml"
        file.write_text(JOB.format(url=url, port=urlsplit(address).port))
        return str(file)

    return write


def test_status_of_a_job_shows_what_its_process_tells(
    job: Callable[[str], str], capsys: pytest.CaptureFixture[str]
) -> None:
    page = StatusPage()
    failed = BatchFailed({"stream": "orders", "batch": 1}, CommitConflict(ERROR))
    Recorders(page.run, page.run.recorder("orders")).record(failed)

    with serving(page.routes()) as address:
        codes = [main(["status", "--job", job(address), *more]) for more in ((), ("--json",))]
    out = capsys.readouterr().out
    [pipeline] = [json.loads(line) for line in out.splitlines() if line.startswith('{"kind": "pipeline"')]

    assert codes == [0, 0]
    assert (pipeline["pipeline"], pipeline["state"], pipeline["error"]) == ("orders", "failed", ERROR)
    for words in ("Pipelines\n", "Last warnings of the run\n", "batch_failed"):
        assert words in out


def test_status_of_a_job_that_does_not_run_says_so(
    job: Callable[[str], str], capsys: pytest.CaptureFixture[str]
) -> None:
    with serving({}) as address:
        file = job(address)

    assert main(["status", "--job", file]) == 0
    assert f"no process of this job answers at {address}facts.json: [Errno 111]" in capsys.readouterr().out


@pytest.mark.parametrize("body", [b"<html>", b"[]", b'{"rows": 1}'], ids=["no JSON", "a list", "no rows"])
def test_another_server_at_the_port_is_no_process_of_the_job(
    job: Callable[[str], str], capsys: pytest.CaptureFixture[str], body: bytes
) -> None:
    with serving({"/facts.json": lambda: Answer(body, JSON)}) as address:
        assert main(["status", "--job", job(address)]) == 0

    assert "no process of this job answers" in capsys.readouterr().out
