"""The benchmark of flushes runs: tiny counts, so that it cannot rot. How long things take is not asserted."""

import json

import pytest

from benchmarks import flush


@pytest.mark.parametrize("catalog", ["postgres", "sqlite"])
def test_all_contenders_are_measured(catalog: str, capsys: pytest.CaptureFixture[str]) -> None:
    flush.main(["--catalogs", catalog, "--rows", "70", "--rounds", "2", "--json"])

    [found] = json.loads(capsys.readouterr().out)["flushes"]
    assert (found["catalog"], found["rows"], found["data_files"]) == (catalog, 70, 1)
    assert found["ours_seconds"] > 0
    assert found["extension_seconds"] > 0
    assert (found["server_seconds"] is None) == (catalog == "sqlite")


def test_table_has_a_line_for_each_size(capsys: pytest.CaptureFixture[str]) -> None:
    flush.main(["--catalogs", "sqlite", "--rows", "1", "2", "--rounds", "1"])

    lines = capsys.readouterr().out.splitlines()
    assert [line.split("|")[2] for line in lines if line.startswith("| sqlite")] == [" 1 ", " 2 "]
