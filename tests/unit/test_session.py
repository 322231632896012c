"""Settings of a Spark session, without Spark."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ducklake_streaming.session import (
    LOCAL_CHECKPOINTS,
    PYTHON_VARIABLE,
    is_on_this_machine,
    session_settings,
    use_this_python,
)
from ducklake_streaming.spark_home import VARIABLE, use_unzipped_spark


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


@pytest.mark.parametrize(
    ("master", "is_here"),
    [("local", True), ("local[2]", True), ("local[*]", True), ("local-cluster[2,1,1024]", False), ("yarn", False)],
)
def test_pyspark_is_imported_as_installed_only_where_all_of_spark_is_here(master: str, *, is_here: bool) -> None:
    assert is_on_this_machine(master) is is_here
    assert not is_on_this_machine(None)  # Spark's own settings may name a cluster


def test_a_home_without_the_zip_has_all_else_of_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "")  # so that it is put back, even if it was not there
    monkeypatch.delenv(VARIABLE)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    use_unzipped_spark()
    home = Path(os.environ[VARIABLE])
    use_unzipped_spark()

    assert home.is_relative_to(tmp_path)
    assert (home / "bin" / "spark-submit").is_file()
    assert any((home / "jars").glob("spark-core_*.jar"))
    assert not (home / "python").exists()
    assert [one.name for one in home.parent.iterdir()] == [home.name]


def test_a_home_of_spark_that_is_named_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "/opt/spark")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    use_unzipped_spark()

    assert os.environ[VARIABLE] == "/opt/spark"
    assert not any(tmp_path.iterdir())


def test_spark_starts_as_ever_where_no_home_can_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "")
    monkeypatch.delenv(VARIABLE)
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))

    use_unzipped_spark()

    assert VARIABLE not in os.environ


def test_session_without_java_says_what_to_install(tmp_path: Path) -> None:
    code = "from ducklake_streaming import make_session; make_session('x', 'local[1]')"
    environment = {**os.environ, "JAVA_HOME": str(tmp_path)}
    environment.pop("SPARK_REMOTE", None)

    ended = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True, env=environment)

    assert ended.returncode == 1
    assert "InvalidInput: Spark needs Java 17 or newer, and none was found (JAVA_HOME is" in ended.stderr
    assert "sudo apt-get install openjdk-17-jre-headless" in ended.stderr
