"""Writes what an image is made of, as CycloneDX: packages of Debian and Python, and jars. Runs while it is built."""

import hashlib
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import distributions
from pathlib import Path
from typing import Any, TypeAlias

Component: TypeAlias = dict[str, Any]  # Any: JSON
_JAR = re.compile(r"(.+?)-(\d+\.[^/]*)\.jar")
_FIELDS = "${binary:Package} ${Version} ${Architecture}\\n"


def bill(root: Path) -> dict[str, Any]:  # Any: JSON
    """Return the bill of an image whose environment of Python is in a folder."""
    components = [*debian_packages(), *python_packages(root), *jars(root)]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": {"type": "container", "name": "ducklake-stream"}},
        "components": sorted(components, key=lambda one: str(one["bom-ref"])),
    }


def debian_packages() -> Iterator[Component]:
    command = ["/usr/bin/dpkg-query", "--show", f"--showformat={_FIELDS}"]
    listed = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603 # Debian's own
    for line in listed.stdout.splitlines():
        name, version, architecture = line.split()
        plain = name.partition(":")[0]
        yield _component(plain, version, f"pkg:deb/debian/{plain}@{version}?arch={architecture}")


def python_packages(root: Path) -> Iterator[Component]:
    for one in distributions(path=[str(folder) for folder in root.glob("lib/python*/site-packages")]):
        name = re.sub(r"[-_.]+", "-", one.metadata["Name"]).lower()
        yield _component(name, one.version, f"pkg:pypi/{name}@{one.version}")


def jars(root: Path) -> Iterator[Component]:
    """Yield every jar with its checksum; its name tells the version, and not who made it."""
    for file in sorted(root.rglob("*.jar")):
        match = _JAR.fullmatch(file.name)
        name, version = (match[1], match[2]) if match else (file.stem, "")
        checksum = hashlib.sha256(file.read_bytes()).hexdigest()
        found = _component(name, version, f"pkg:generic/{name}@{version}?checksum=sha256:{checksum}")
        yield {**found, "hashes": [{"alg": "SHA-256", "content": checksum}]}


def _component(name: str, version: str, url: str) -> Component:
    return {"type": "library", "bom-ref": url, "name": name, "version": version, "purl": url}


if __name__ == "__main__":
    json.dump(bill(Path(sys.argv[1])), sys.stdout, indent=1)
