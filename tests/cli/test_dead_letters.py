"""The commands `dead-letters`: what they list and show, and what a replay would feed in."""

import json
import logging
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException

from ducklake_core import Lake
from ducklake_sinks.dead_letters import DEAD_LETTER_SCHEMA
from ducklake_streaming.cli import main
from ducklake_streaming.jobs.replay import LetterReplay
from tests.fixtures.catalogs import Catalog

pytestmark = pytest.mark.parametrize("make_catalog", ["sqlite"], indirect=True)

JOB = """
[catalog]
url = "{url}"
[pipeline.orders]
checkpoint = "checkpoint"
input = {{ kind = "kafka", servers = "127.0.0.1:1", topics = ["orders"], schema = "id bigint" }}
sink = {{ table = "main.orders", dead_letter_table = "main.dead" }}
"""


def letter(offset: int | None, **others: object) -> dict[str, object]:
    at = datetime(2026, 1, 1 + (offset or 0), tzinfo=UTC)
    known = {"stream": "orders", "reason": f"why {offset}", "quarantined_at": at, "offset": offset}
    return {**known, "topic": "orders", "partition": 0, "value": b"\xff", "key": b"k", **others}


@pytest.fixture
def letters(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> Catalog:
    """Give a lake with four letters: two that wait, one that was replayed, one without a record."""
    monkeypatch.setenv("DUCKLAKE_CATALOG", catalog.url)
    rows = [letter(0), letter(1), letter(2, replayed_at=datetime(2026, 2, 1, tzinfo=UTC)), letter(None, topic=None)]
    with Lake.create(catalog.url, catalog.data_path) as lake:
        lake.create_table("main.orders", {"id": "int64"})
        lake.create_table("main.dead", DEAD_LETTER_SCHEMA)
        lake.append("main.dead", pa.Table.from_pylist(rows, DEAD_LETTER_SCHEMA))
    return catalog


def shown(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, Any]]:  # Any: JSON
    assert main(["dead-letters", *arguments, "--json"]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


@pytest.mark.usefixtures("letters")
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        pytest.param([], [None, 0, 1, 2], id="all"),
        pytest.param(["--reason", "%1"], [1], id="reason"),
        pytest.param(["--topic", "orders", "--limit", "2"], [0, 1], id="topic and limit"),
        pytest.param(["--since", "2026-01-02"], [1, 2], id="since"),
        pytest.param(["--since", "36500d"], [None, 0, 1, 2], id="since so long ago"),
        pytest.param(["--table", "main.dead", "--topic", "none"], [], id="none"),
    ],
)
def test_list_chooses_letters(
    capsys: pytest.CaptureFixture[str], options: list[str], expected: list[int | None]
) -> None:
    found = shown(capsys, "list", *options)

    assert sorted((one["offset"] for one in found), key=lambda offset: (offset is not None, offset)) == expected
    assert {one["table"] for one in found} <= {"main.dead"}


@pytest.mark.usefixtures("letters")
def test_without_a_command_letters_are_listed_with_times_to_the_second(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dead-letters"]) == 0

    out, err = capsys.readouterr()
    assert (len(out.splitlines()), err) == (5, "")
    assert "2026-01-02 00:00:00Z" in out
    assert "+00:00" not in out


@pytest.mark.usefixtures("letters")
def test_since_is_a_time_and_no_snapshot(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dead-letters", "list", "--since", "17"]) == 2
    assert "write a time" in capsys.readouterr().err


@pytest.mark.usefixtures("letters")
def test_show_tells_everything_of_a_letter(capsys: pytest.CaptureFixture[str]) -> None:
    [listed] = shown(capsys, "list", "--reason", "why 1")

    [found] = shown(capsys, "show", str(listed["id"]))

    assert (found["offset"], found["key"], found["value"]) == (1, "k", "base64:/w==")
    assert main(["dead-letters", "show", "99"]) == 2
    assert "no such dead letter" in capsys.readouterr().err


def test_dry_run_lists_what_waits_and_does_nothing(
    letters: Catalog, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    job = tmp_path / "job.toml"
    job.write_text(JOB.format(url=letters.url))

    found = shown(capsys, "replay", str(job), "--dry-run")

    assert [one["offset"] for one in found] == [0, 1]
    with Lake.open(letters.url) as lake:
        assert lake.table("main.dead").count("replayed_at IS NULL") == 3


def test_what_a_job_file_refers_to_is_not_shown_by_a_replay_that_fails(
    letters: Catalog, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLANTED", "planted")
    job = tmp_path / "job.toml"
    job.write_text(JOB.format(url=letters.url).replace("main.dead", "main.${env:PLANTED}"))

    assert main(["dead-letters", "replay", str(job), "--dry-run"]) == 2

    assert "there is no table 'main.***'" in (err := capsys.readouterr().err)
    assert "planted" not in err


def test_an_error_of_spark_in_a_replay_is_one_line_without_secrets(
    letters: Catalog, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    monkeypatch.setattr(logging.getLogger(), "level", logging.WARNING)
    monkeypatch.setenv("PLANTED", "planted")
    job = tmp_path / "job.toml"
    job.write_text(JOB.format(url=letters.url).replace('"orders"', '"${env:PLANTED}"'))

    def fail(*_: object) -> None:
        logging.getLogger("any").warning("planted")
        raise AnalysisException("no column 'planted'\n\nand a plan")

    monkeypatch.setattr(LetterReplay, "run", fail)

    assert main(["dead-letters", "replay", str(job)]) == 1

    err = capsys.readouterr().err
    assert "ducklake-stream: AnalysisException: no column '***'\n" in err
    assert ("planted" in err, "Traceback" in err) == (False, False)
