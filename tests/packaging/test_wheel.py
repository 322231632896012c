"""The wheel as a user gets it: its names at top level, and that it works where the repository is not."""

import site
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest
from uv import find_uv_bin

PACKAGES = ("ducklake_core", "ducklake_sinks", "ducklake_sources", "ducklake_streaming")
MODULES = (*PACKAGES, "pyspark_ducklake")

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Path:
    """Build the wheel from the tree, with the hatchling that is already here."""
    directory = tmp_path_factory.mktemp("dist")
    _run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", directory, pytestconfig.rootpath)
    (built,) = directory.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def fresh_environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the wheel into a new environment that sees our dependencies, but not our editable install."""
    directory = tmp_path_factory.mktemp("fresh")
    venv.create(directory, symlinks=True)
    python = directory / "bin" / "python"
    _run(find_uv_bin(), "pip", "install", "--quiet", "--no-deps", "--python", python, wheel)
    # A path file adds the folder itself; the path files inside it, ours among them, are not followed.
    (own_packages,) = directory.glob("lib/python*/site-packages")
    (own_packages / "dependencies.pth").write_text("\n".join(site.getsitepackages()))
    return directory


def test_wheel_holds_our_names_at_top_level_and_no_other(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = {name.split("/")[0] for name in archive.namelist()}

    assert names == {*PACKAGES, "pyspark_ducklake.py", "ducklake_streaming-0.1.0.dist-info"}


def test_wheel_says_that_it_is_typed(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())

    assert {f"{package}/py.typed" for package in PACKAGES} <= names


@pytest.mark.parametrize("module", MODULES)
def test_installed_module_comes_from_the_wheel(module: str, fresh_environment: Path) -> None:
    location = _run(fresh_environment / "bin" / "python", "-c", f"import {module}; print({module}.__file__)")

    assert Path(location).is_relative_to(fresh_environment)


def test_installed_command_works(fresh_environment: Path) -> None:
    assert _run(fresh_environment / "bin" / "ducklake-stream", "--version") == "ducklake-stream 0.1.0"


def _run(*command: str | Path) -> str:
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd="/").stdout.strip()
