"""Settings of a Spark session, without Spark."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ducklake_streaming.session import LOCAL_CHECKPOINTS, PYTHON_VARIABLE, session_settings, use_this_python


def test_checkpoint_manager_is_changed_only_when_asked_for() -> None:
    assert not LOCAL_CHECKPOINTS.keys() & session_settings().keys()
    assert LOCAL_CHECKPOINTS.items() <= session_settings(local_checkpoints=True).items()


def test_tasks_run_this_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PYTHON_VARIABLE, "")  # so that it is put back, even if it was not there
    monkeypatch.delenv(PYTHON_VARIABLE)

    use_this_python()

    assert os.environ[PYTHON_VARIABLE] == sys.executable


def test_tasks_run_the_python_that_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PYTHON_VARIABLE, "/opt/python")

    use_this_python()

    assert os.environ[PYTHON_VARIABLE] == "/opt/python"


def test_session_without_java_says_what_to_install(tmp_path: Path) -> None:
    code = "from ducklake_streaming import make_session; make_session('x', 'local[1]')"
    environment = {**os.environ, "JAVA_HOME": str(tmp_path)}
    environment.pop("SPARK_REMOTE", None)

    ended = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True, env=environment)

    assert ended.returncode == 1
    assert "InvalidInput: Spark needs Java 17 or newer, and none was found (JAVA_HOME is" in ended.stderr
    assert "sudo apt-get install openjdk-17-jre-headless" in ended.stderr
