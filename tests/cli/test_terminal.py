"""Commands in a real terminal: colours, bars, live screens, and Ctrl-C."""

import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from ducklake_core import Epoch, Lake
from tests.fixtures.postgres import run_restarting_postgres
from tests.fixtures.terminal import COMMAND, Terminal

BOLD = "\x1b[1m"


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/lake.sqlite"


@pytest.fixture
def lake(url: str, tmp_path: Path) -> Iterator[Lake]:
    with Lake.create(url, f"{tmp_path}/data/") as lake:
        lake.set_option("data_inlining_row_limit", 100)
        lake.create_table("orders", {"id": "int64", "kind": "varchar"})
        lake.append("orders", rows(1))
        yield lake


def rows(*numbers: int) -> pa.Table:
    return pa.table({"id": list(numbers), "kind": [f"kind {i}" for i in numbers]})


@pytest.mark.usefixtures("lake")
def test_colours_are_for_terminals_that_want_them(url: str) -> None:
    with Terminal(["tables", "--catalog", url]) as terminal:
        assert terminal.end() == 0
    with Terminal(["tables", "--catalog", url], {"NO_COLOR": "1"}) as plain:
        assert plain.end() == 0
    piped = subprocess.run([*COMMAND, "tables", "--catalog", url], check=True, capture_output=True, text=True)

    assert BOLD in terminal.screen
    assert not any(f"\x1b[3{digit}" in plain.screen for digit in range(8))
    assert "\x1b" not in piped.stdout
    assert all("main.orders" in text for text in (terminal.text, plain.text, piped.stdout))


def test_status_is_a_live_screen_that_ctrl_c_ends(lake: Lake, url: str) -> None:
    with Terminal(["status", "--watch", "--interval", "0.1", "--catalog", url]) as terminal:
        terminal.wait_for("none has written to this lake")
        lake.commit_epoch(Epoch("live", 0, "query", "run"), lambda tx: tx.append("orders", rows(2)))
        terminal.wait_for("live")
        code = terminal.interrupt()

    assert code == 130
    assert "Traceback" not in terminal.screen
    assert "\x1b[?1049l" in terminal.screen, "the screen of before is back"


def test_a_live_tail_shows_changes_as_they_are_committed(lake: Lake, url: str) -> None:
    with Terminal(["changes", "orders", "--follow", "--interval", "0.1", "--start", "2", "--catalog", url]) as terminal:
        terminal.wait_for("kind 1")
        lake.append("orders", rows(2))
        terminal.wait_for("kind 2")
        lake.add_column("orders", "more", "int64")
        lake.delete("orders", "id = 1")
        terminal.wait_for("delete")
        code = terminal.interrupt()

    lines = [line.split() for line in terminal.text.splitlines() if line and not line.startswith("^C")]
    assert code == 130
    assert [line[0] for line in lines] == ["id", "1", "2", "id", "1"], "a header again where columns have changed"
    assert "more" in lines[3]
    assert "Traceback" not in terminal.screen


def test_bars_are_shown_where_rows_go_elsewhere(lake: Lake, url: str, tmp_path: Path) -> None:
    lake.append("orders", rows(*range(5000)))
    output = tmp_path / "orders.csv"
    with Terminal(["read", "orders", "--format", "csv", "--output", str(output), "--catalog", url]) as reading:
        assert reading.end() == 0
    with Terminal(["flush", "--all", "--catalog", url]) as flushing:
        assert flushing.end() == 0

    assert "5,001 rows" in reading.text
    assert len(output.read_text().splitlines()) == 5002
    assert "1/1" in flushing.text
    assert "main.orders" in flushing.text


def test_a_question_is_answered_by_hand(lake: Lake, url: str) -> None:
    for stream in ("one", "two"):
        lake.commit_epoch(Epoch(stream, 0, "query", "run"), lambda tx: tx.append("orders", rows(2)))
    for stream, answer, code in (("one", "n", 1), ("two", "y", 0)):
        with Terminal(["streams", "forget", stream, "--catalog", url]) as terminal:
            terminal.wait_for("[y/N]")
            terminal.type(f"{answer}\n")
            assert terminal.end() == code

    assert [entry.stream for entry in lake.ledger_entries()] == ["one"]


def test_a_reader_that_has_enough_ends_a_read_quietly(lake: Lake, url: str) -> None:
    lake.append("orders", rows(*range(100_000)))
    reading = subprocess.Popen(
        [*COMMAND, "read", "orders", "--format", "json", "--catalog", url],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert reading.stdout is not None
    first = json.loads(reading.stdout.readline())
    reading.stdout.close()
    assert reading.stderr is not None
    with reading.stderr:
        err = reading.stderr.read()

    assert first.keys() == {"id", "kind"}
    assert (reading.wait(), err) == (141, b"")


def test_ctrl_c_ends_a_read_without_a_traceback(lake: Lake, url: str) -> None:
    lake.append("orders", rows(*range(300_000)))
    with Terminal(["read", "orders", "--format", "json", "--catalog", url]) as terminal:
        terminal.wait_for("kind 10")
        terminal.process.send_signal(signal.SIGINT)
        assert terminal.end() == 130

    assert "Traceback" not in terminal.screen


def test_a_live_tail_outlives_a_restart_of_its_catalog(tmp_path: Path) -> None:
    with run_restarting_postgres() as server:
        url = server.create_database().url
        with Lake.create(url, f"{tmp_path}/data/") as lake:
            lake.create_table("orders", {"id": "int64", "kind": "varchar"})
            lake.append("orders", rows(1))
            options = ("--start", "2", "--interval", "0.1", "--timeout", "1s", "--catalog", url)
            with Terminal(["changes", "orders", "--follow", *options], columns=400) as terminal:
                terminal.wait_for("kind 1")
                server.stop()
                terminal.wait_for("catalog_unavailable")
                server.start()
                lake.append("orders", rows(2))
                terminal.wait_for("kind 2")
                code = terminal.interrupt()

    assert code == 130
    assert [terminal.text.count(f"kind {number} ") for number in (1, 2)] == [1, 1]
