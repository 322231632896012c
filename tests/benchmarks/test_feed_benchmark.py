"""The benchmark of change feeds runs: tiny counts, so that it cannot rot. How long things take is not asserted."""

import json

import pytest

from benchmarks import feed

TINY = ["--rows", "40", "--snapshots", "4", "--rounds", "1", "--history", "3", "30", "--plans", "2"]


@pytest.mark.parametrize(("catalog", "changes"), [("postgres", "updates"), ("sqlite", "inserts")])
def test_every_contender_is_measured(catalog: str, changes: str, capsys: pytest.CaptureFixture[str]) -> None:
    feed.main(["--catalogs", catalog, "--changes", changes, *TINY, "--json"])

    found = json.loads(capsys.readouterr().out)
    [reading] = found["readings"]
    assert (reading["catalog"], reading["changes"], reading["rows"]) == (catalog, changes, 40)
    assert min(reading[f"{name}_seconds"] for name in ("ours", "two_processes", "extension")) > 0
    assert [planning["snapshots"] for planning in found["plannings"]] == [3, 30]


def test_tables_have_a_line_for_each(capsys: pytest.CaptureFixture[str]) -> None:
    feed.main(["--catalogs", "sqlite", "--changes", *TINY])

    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| sqlite")]
    assert [line.split("|")[2].strip() for line in lines] == ["3", "30"]
