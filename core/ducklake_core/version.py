"""The version of the package that is installed: all of ours have the same. Runs everywhere."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


def package_version() -> str:
    """Return the version of ducklake-streaming; `unknown` where it runs from a source tree."""
    try:
        return version("ducklake-streaming")
    except PackageNotFoundError:
        return "unknown"
