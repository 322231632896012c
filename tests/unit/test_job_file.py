"""Job files: what they say becomes settings, and every mistake is told at once, with its key."""

from pathlib import Path

import pytest

from ducklake_core.errors import InvalidInput
from ducklake_streaming.jobs.job_file import load_job

SMALL = """
[catalog]
url = "sqlite:///lake.sqlite"
[pipeline.numbers]
checkpoint = "checkpoints/numbers"
input = { kind = "rate" }
sink = { table = "main.numbers" }
"""


def _mistakes(folder: Path, text: str) -> list[str]:
    file = folder / "job.toml"
    file.write_text(text)
    with pytest.raises(InvalidInput) as caught:
        load_job(file, {})
    found: list[str] = caught.value.problems
    return [problem.removeprefix(f"{file}: ") for problem in found]


def test_every_mistake_is_told_at_once(tmp_path: Path) -> None:
    text = SMALL.replace("table =", "tabel =").replace('"rate"', '"rat"').replace("checkpoint =", "chekpoint =")

    assert _mistakes(tmp_path, text) == [
        "pipeline.numbers.checkpoint is missing",
        "pipeline.numbers.input.kind is 'rat': did you mean 'rate'?",
        "pipeline.numbers.sink.tabel: there is no key 'tabel': did you mean 'table'?",
        "pipeline.numbers.chekpoint: there is no key 'chekpoint': did you mean 'checkpoint'?",
    ]
