"""The map of the code names what is there."""

import re
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text()
PACKAGES = {"sinks": "ducklake_sinks", "sources": "ducklake_sources", "streaming": "ducklake_streaming"}
FOLDERS = {
    "core": "core",
    "docs": "docs",
    "grafana": "grafana",
    "tests": "tests",
    "sinks": "sinks/ducklake_sinks",
    "sources": "sources/ducklake_sources",
    "streaming": "streaming/ducklake_streaming",
}

NAMED = sorted(
    set(re.findall(r"`([a-z_/]+\.[A-Za-z_.]+)`", PAGE)) - set(re.findall(r"`([a-z_/]+\.(?:py|toml|md))`", PAGE))
)
FILES = sorted(set(re.findall(r"`([a-z_/]+\.py|[a-z_/]+/)`", PAGE)))


@pytest.mark.parametrize("name", NAMED)
def test_function_on_the_page_exists(name: str) -> None:
    path, *attributes = name.split(".")
    head, _, rest = path.partition("/")
    module = f"{PACKAGES[head]}.{rest}" if head in PACKAGES else f"ducklake_core.{path}"

    found: object = import_module(module.replace("/", "."))
    for attribute in attributes:
        assert hasattr(found, attribute)
        found = getattr(found, attribute)


@pytest.mark.parametrize("name", FILES)
def test_file_on_the_page_exists(name: str) -> None:
    head, _, rest = name.partition("/")
    path = ROOT / FOLDERS[head] / rest if head in FOLDERS else ROOT / "core" / "ducklake_core" / name

    assert path.exists()
