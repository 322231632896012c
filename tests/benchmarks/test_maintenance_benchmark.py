"""The benchmark of maintenance runs: tiny counts, so that it cannot rot. How long things take is not asserted."""

import json

import pytest

from benchmarks import maintenance


def test_all_contenders_are_measured(capsys: pytest.CaptureFixture[str]) -> None:
    sizes = ["--rows", "300", "--merged-files", "4", "--rewritten-files", "2", "--rounds", "1"]
    maintenance.main(["--catalog", "sqlite", *sizes, "--json"])

    merge, rewrite = json.loads(capsys.readouterr().out)["compactions"]
    assert (merge["operation"], merge["files"], rewrite["operation"], rewrite["files"]) == ("merge", 4, "rewrite", 2)
    assert all(one[f"{who}_seconds"] > 0 for one in (merge, rewrite) for who in ("ours", "extension", "floor"))
