"""The wheel as a user gets it: its names at top level, and that it works where the repository is not.

Dependencies come from uv's cache or from PyPI; without both, tests that need them are skipped and say so.
"""

import os
import shutil
import site
import subprocess
import sys
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest
from uv import find_uv_bin

PACKAGES = ("ducklake_core", "ducklake_sinks", "ducklake_sources", "ducklake_streaming")
MODULES = (*PACKAGES, "pyspark_ducklake")
PYTHONS = ("3.11", "3.12", "3.13", "3.14")  # the classifiers of pyproject.toml
WRITE_AND_READ = """
import sys
from ducklake_core import Lake
import ducklake_sinks, ducklake_sources, ducklake_streaming, pyspark_ducklake

with Lake.create(f"sqlite:///{sys.argv[1]}/lake.sqlite", f"{sys.argv[1]}/data/") as lake:
    lake.create_table("t", {"i": "int64", "s": "varchar"})
    for count in (3, 1000):  # inlined, then a file
        lake.append("t", {"i": list(range(count)), "s": ["x"] * count})
    lake.delete("t", "i < 2")
    print(lake.table("t").count(), sum(lake.table("t").read(["i"])["i"].to_pylist()))
"""

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


def test_wheel_holds_the_checksums_of_what_it_fetches(wheel: Path, pytestconfig: pytest.Config) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if name.endswith(".sha256")}

    folder = pytestconfig.rootpath / "streaming"
    assert names == {str(file.relative_to(folder)) for file in folder.rglob("*.sha256")} != set()


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


@pytest.mark.timeout(1800)  # the first time, the packages of each Python are fetched
@pytest.mark.parametrize("version", PYTHONS)
def test_wheel_works_on_each_python_that_can_be_had(version: str, wheel: Path, tmp_path: Path) -> None:
    python = _find_python(version)
    if python is None:
        pytest.skip(f"there is no Python {version} on this machine")
    _run(find_uv_bin(), "venv", "--quiet", "--python", python, tmp_path / "venv")
    installed = tmp_path / "venv" / "bin" / "python"
    _install(installed, wheel)

    assert _run(installed, "-c", WRITE_AND_READ, tmp_path) == f"999 {sum(range(2, 1000)) + 2}"


def test_classifiers_name_the_pythons_that_are_tried(pytestconfig: pytest.Config) -> None:
    project = tomllib.loads((pytestconfig.rootpath / "pyproject.toml").read_text())["project"]

    prefix = "Programming Language :: Python :: 3."
    assert tuple(f"3.{c.removeprefix(prefix)}" for c in project["classifiers"] if c.startswith(prefix)) == PYTHONS


def _install(python: Path, wheel: Path) -> None:
    """Install the wheel with its dependencies: from uv's cache, else from PyPI. Skip where it cannot be reached."""
    command = (find_uv_bin(), "pip", "install", "--quiet", "--python", str(python), str(wheel))
    if subprocess.run((*command, "--offline"), check=False, capture_output=True).returncode == 0:
        return
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if any(sign in done.stderr for sign in ("Failed to fetch", "error sending request", "dns error")):
        pytest.skip(f"not all dependencies are in uv's cache, and PyPI cannot be reached: {done.stderr.strip()[-300:]}")
    assert done.returncode == 0, done.stderr


def _find_python(version: str) -> Path | None:
    """Return a Python of this version on the path or of pyenv; a shim of pyenv may stand for nothing."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    on_path = shutil.which(f"python{version}")
    for candidate in [*([Path(on_path)] if on_path else []), *sorted(pyenv.glob(f"versions/{version}.*/bin/python3"))]:
        told = [str(candidate), "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
        found = subprocess.run(told, check=False, capture_output=True, text=True)
        if found.stdout.strip() == version:
            return candidate
    return None


def _run(*command: str | Path) -> str:
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd="/").stdout.strip()
