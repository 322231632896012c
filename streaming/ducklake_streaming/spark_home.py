"""A Spark home whose Python processes start quickly. Runs on the driver, before Spark starts.

PySpark as pip installs it has its Python code twice, and Spark lets its Python processes import the one in a zip file.
A zip has no bytecode: each process compiles PySpark again, half a second of a core and more. A first read starts four.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

VARIABLE = "SPARK_HOME"
_LINKED = ("bin", "conf", "data", "jars", "sbin")  # all that Spark looks for in its home but the zip


def use_unzipped_spark() -> None:
    """Let a Spark that starts on this machine import PySpark as it is installed; a SPARK_HOME that is set stays.

    Does nothing where no folder can be made for it: Spark is slower then, and nothing else.
    """
    package = _package()
    if VARIABLE in os.environ or package is None or not (package / "python" / "lib" / "pyspark.zip").exists():
        return
    try:
        os.environ[VARIABLE] = str(make_home(_cache_folder() / _name_of(package)))
    except OSError:
        return


def make_home(home: Path) -> Path:
    """Make a Spark home of links to all of the installed package but its Python code, if it is not there yet."""
    package = _package()
    if not home.exists() and package is not None:
        home.parent.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(dir=home.parent))
        for name in _LINKED:
            (made / name).symlink_to(package / name)
        try:
            made.rename(home)
        except OSError:  # another process was faster
            shutil.rmtree(made)
    return home


def _package() -> Path | None:
    found = find_spec("pyspark")
    return Path(found.origin).parent if found and found.origin else None


def _cache_folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ducklake-streaming"


def _name_of(package: Path) -> str:
    """Return a name for the home of one installed package: each virtual environment has its own."""
    return f"spark-home-{sha256(f'{sys.prefix} {package}'.encode()).hexdigest()[:12]}"
