"""The benchmark of scaling runs: tiny counts, so that it cannot rot. How long things take is not asserted."""

import json
import shutil
from pathlib import Path

import pytest

from benchmarks import scaling
from benchmarks.scaling_page import PAGE, with_tables


def test_everything_that_the_model_needs_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(scaling, "MEASURED", tmp_path / "measured.json")
    page = Path(shutil.copy(PAGE, tmp_path))
    before = page.read_text()
    monkeypatch.setattr(scaling, "PAGE", page)

    scaling.main(["--streams", "1", "2", "--seconds", "0.2", "--rounds", "1", "--scale", "0.02", "--write"])

    measured = json.loads((tmp_path / "measured.json").read_text())
    assert set(measured["commits_per_second"]) == {"1", "2"}
    assert all(measured["attempts_per_commit"][n] >= 1 for n in ("1", "2"))
    assert "| 1,000 streams |" in capsys.readouterr().out
    assert page.read_text() == with_tables(before, measured) != before
