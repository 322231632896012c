"""The benchmark of upserts runs: tiny counts, so that it cannot rot. How long things take is not asserted."""

import json

import pytest

from benchmarks import upsert, upsert_contention


def test_all_contenders_are_measured(capsys: pytest.CaptureFixture[str]) -> None:
    sizes = ["--rows", "2000", "--batch", "40", "--rounds", "2", "--small-rows", "2000", "--inlined-rounds", "2"]
    upsert.main(["--catalog", "sqlite", *sizes, "--batches", "10", "--json"])

    found = json.loads(capsys.readouterr().out)
    clustered, spread, wide = found["merges"]
    assert clustered["files_opened"] < 20 <= spread["files_opened"]
    assert wide["columns"] == 40
    assert all(one[f"{who}_seconds"] > 0 for one in found["merges"] for who in ("ours", "extension"))
    assert [one["keys"] for one in found["inlined"]] == ["new", "clustered", "spread"]
    assert found["course"]["batches"] == 10


def test_upserts_beside_appends_are_measured(capsys: pytest.CaptureFixture[str]) -> None:
    upsert_contention.main(["--catalog", "sqlite", "--rows", "100", "--seconds", "0", "--json"])

    found = json.loads(capsys.readouterr().out)
    assert [one["neighbour"] for one in found] == [*upsert_contention.NEIGHBOURS]
    assert all((one["upserts"], one["given_up"]) == (1, 0) for one in found)
