"""The soak in short: a few hundred commits, with flushes and maintenance beside them. Counts, and no times."""

import json

import pytest

from benchmarks import soak

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def test_a_lake_that_is_maintained_has_few_files_and_snapshots_however_many_commits(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(soak, "KEPT_SNAPSHOTS", 50)
    monkeypatch.setattr(soak, "FLUSHED_ROWS", 100)
    monkeypatch.setattr(soak, "_QUERIES", 1)

    soak.main(["--compare", "100", "--commits", "600", "--rate", "1000", "--json"])

    found = json.loads(capsys.readouterr().out)
    early, late = found["early"], found["late"]
    assert (early["rows"], late["rows"]) == (1000, 6000)
    for state in (early, late):
        assert state["files"] <= 5
        assert state["stored_files"] <= 10
        assert 50 <= state["snapshots"] <= 60
    assert found["ratios"].keys() == soak.MEASURED.keys()
    assert found["failures"] == []
