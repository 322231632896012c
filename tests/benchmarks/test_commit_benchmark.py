"""The benchmark of commits runs: tiny counts, so that it cannot rot. How long things take is not asserted."""

import json

import pytest

from benchmarks import commit


@pytest.mark.parametrize("catalog", list(commit.CONTENDERS))
def test_every_contender_is_measured(catalog: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--catalogs", catalog, "--rows", "1", "70", "--rounds", "1", "--snapshots", "3", "--json"]

    commit.main(arguments)

    found = json.loads(capsys.readouterr().out)
    assert [(one["catalog"], one["rows"]) for one in found["appends"]] == [(catalog, 1), (catalog, 70)]
    assert all(set(one["milliseconds"]) == set(commit.CONTENDERS[catalog]) for one in found["appends"])
    assert found["histories"][0]["snapshots"] == [commit.YOUNG_SNAPSHOTS, 3]


def test_table_has_a_line_for_each_size(capsys: pytest.CaptureFixture[str]) -> None:
    commit.main(["--catalogs", "sqlite", "--rows", "1", "2", "--rounds", "1", "--snapshots", "0"])

    lines = capsys.readouterr().out.splitlines()
    assert [line.split("|")[1:3] for line in lines if line.startswith("| sqlite")] == [
        [" sqlite ", " 1 "],
        [" sqlite ", " 2 "],
    ]
