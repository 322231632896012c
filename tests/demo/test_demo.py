"""The demonstration, as a newcomer meets it: run by the command line, opened in DuckDB."""

from pathlib import Path

import pytest

from ducklake_streaming.cli import main
from tests.fixtures.oracle import Oracle


def test_duckdb_reads_what_the_demo_wrote(tmp_path: Path, capsys: pytest.CaptureFixture[str], oracle: Oracle) -> None:
    code = main(["demo", "--directory", str(tmp_path / "it's here"), "--batches", "3", "--rows-per-batch", "10"])

    attach, per_vehicle, snapshots = _pasted_statements(capsys.readouterr().out)
    oracle.execute(attach)
    assert code == 0
    assert sum(count for _, count, _ in oracle.query(per_vehicle)) == 5030
    assert len(oracle.query(snapshots)) == 6


def test_demo_says_what_is_inlined_and_what_is_in_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["demo", "--directory", str(tmp_path / "lake"), "--batches", "3", "--rows-per-batch", "10"])

    shown = capsys.readouterr().out
    assert "inlined rows  30 " in shown
    assert "files         1 with 5,000 rows" in shown


def test_demo_is_made_anew(tmp_path: Path) -> None:
    arguments = ["demo", "--directory", str(tmp_path / "lake"), "--batches", "1"]

    assert [main(arguments), main(arguments)] == [0, 0]


def test_demo_leaves_a_foreign_directory_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    precious = tmp_path / "thesis.tex"
    precious.touch()

    code = main(["demo", "--directory", str(tmp_path)])

    assert code == 1
    assert precious.exists()
    assert "--directory" in capsys.readouterr().err


def test_usage_errors_exit_with_two(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_info:
        main(["demo", "--batches", "0"])

    assert exit_info.value.code == 2
    assert "--batches" in capsys.readouterr().err


def _pasted_statements(shown: str) -> list[str]:
    """Return the printed statements, without INSTALL: the oracle has its extensions from elsewhere."""
    _, pasted = shown.split("paste:")
    return [line.strip() for line in pasted.strip().splitlines() if "INSTALL" not in line]
