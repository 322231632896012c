"""Prometheus' own tools on the rule files: they are well-formed, and each case of an alert comes out as it says."""

import subprocess
from pathlib import Path

import pytest

from tests.fixtures.prometheus import find_programs
from tests.fixtures.rule_files import CASE_FILES, FILES, FOLDER

PROMETHEUS_FILE = FOLDER.parent / "prometheus.yml"


def promtool(*arguments: str | Path) -> str:
    command = [find_programs() / "promtool", *arguments]
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=FOLDER)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_prometheus_takes_the_rules(path: Path) -> None:
    assert "SUCCESS" in promtool("check", "rules", "--lint=all", "--lint-fatal", path)


def test_prometheus_takes_the_example_of_its_settings() -> None:
    assert f"{len(FILES)} rule files found" in promtool("check", "config", PROMETHEUS_FILE)


@pytest.mark.parametrize("path", CASE_FILES, ids=lambda path: path.stem)
def test_alerts_fire_and_are_quiet_as_their_cases_say(path: Path) -> None:
    assert "SUCCESS" in promtool("test", "rules", path)
