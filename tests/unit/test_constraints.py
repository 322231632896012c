"""The lock file: what `make` installs is what pyproject.toml asks for, and it names no place to get it from."""

import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
GROUPS = PROJECT["dependency-groups"]
REQUIREMENTS = [*PROJECT["project"]["dependencies"], *GROUPS["test"], *GROUPS["lint"]]
PINS = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.lstrip().startswith("#")]


@pytest.mark.parametrize("text", REQUIREMENTS)
def test_each_requirement_is_pinned_to_a_version_it_allows(text: str) -> None:
    requirement = Requirement(text)

    versions = [pin for pin in map(Requirement, PINS) if _is_same(pin, requirement)]

    assert versions
    for pin in versions:
        (version,) = (specifier.version for specifier in pin.specifier)
        assert requirement.specifier.contains(version)


def test_lock_file_names_versions_only() -> None:
    assert all(Requirement(pin).url is None and not pin.startswith("-") for pin in PINS)


def _is_same(pin: Requirement, requirement: Requirement) -> bool:
    return canonicalize_name(pin.name) == canonicalize_name(requirement.name)
