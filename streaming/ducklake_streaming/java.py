"""Whether Spark finds a Java that it can run on, and what to do where it does not. Runs on the driver or a laptop."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from ducklake_core.errors import InvalidInput

OLDEST_JAVA = 17


def require_java() -> str:
    """Return the version of the Java that Spark finds; raise InvalidInput that says how to get one it can run on."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which(Path(home) / "bin" / "java" if home else "java")
    said = "" if java is None else _version_text(java)
    version = re.search(r'version "((\d+)[^"]*)', said)
    if version is None or int(version[2]) < OLDEST_JAVA:
        found = f"JAVA_HOME is {home!r}" if home else "it is looked for in JAVA_HOME and on the path"
        raise InvalidInput(
            f"Spark needs Java {OLDEST_JAVA} or newer, and none was found ({found}). Install it and try again:\n"
            "    Debian 12, Ubuntu:     sudo apt-get install openjdk-17-jre-headless\n"
            "    Debian 13:             sudo apt-get install openjdk-21-jre-headless\n"
            "    Fedora, RHEL:          sudo dnf install java-21-openjdk-headless\n"
            "    macOS with Homebrew:   brew install openjdk@17\n"
            "or, if you have one:       export JAVA_HOME=/path/to/java"
        )
    return version[1]


def _version_text(java: str) -> str:
    return subprocess.run([java, "-version"], check=False, capture_output=True, text=True).stderr  # noqa: S603 # found on the path
