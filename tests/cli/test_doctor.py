"""The command `doctor`: what it shows, how it ends, and what it mends."""

import json
from collections.abc import Iterator

import pytest

from ducklake_core import Lake
from ducklake_streaming.cli import main
from tests.fixtures.broken_lakes import PLANTS, Healthy, fill
from tests.fixtures.catalogs import Catalog


@pytest.fixture
def healthy(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> Iterator[Healthy]:
    """Give a lake that the environment names."""
    monkeypatch.setenv("DUCKLAKE_CATALOG", catalog.url)
    with Lake.create(catalog.url, catalog.data_path) as lake:
        fill(lake)
        yield Healthy(lake, catalog)


@pytest.mark.usefixtures("healthy")
def test_a_healthy_lake_ends_with_0(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--full"]) == 0
    assert capsys.readouterr().out == "nothing is broken\n"
    assert main(["doctor", "--json"]) == 0
    assert capsys.readouterr().out == ""


def test_a_broken_lake_ends_with_1_and_is_told_of(healthy: Healthy, capsys: pytest.CaptureFixture[str]) -> None:
    PLANTS["missing-file"][0](healthy)

    assert main(["doctor"]) == 1

    shown = capsys.readouterr().out
    assert shown.startswith("error  missing-file  main.files\n  files that are not in the storage (1): ")
    assert "    SELECT data_file_id AS file_id" in shown
    assert shown.endswith("1 findings\n")


def test_machines_get_one_object_per_finding(healthy: Healthy, capsys: pytest.CaptureFixture[str]) -> None:
    PLANTS["stale-next-row-id"][0](healthy)
    PLANTS["orphan-inlined-table"][0](healthy)

    assert main(["doctor", "--json"]) == 1

    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(one["code"], one["severity"], one["table"]) for one in found] == [
        ("stale-next-row-id", "error", "main.files"),
        ("orphan-inlined-table", "info", None),
    ]
    assert {"found", "sql", "helps", "can_repair", "repaired"} <= found[0].keys()


def test_what_it_has_mended_it_does_not_find_again(healthy: Healthy, capsys: pytest.CaptureFixture[str]) -> None:
    PLANTS["stale-next-row-id"][0](healthy)

    assert main(["doctor", "--repair"]) == 1
    assert "  repaired: raised next_row_id above every row id in use" in capsys.readouterr().out
    assert main(["doctor"]) == 0
