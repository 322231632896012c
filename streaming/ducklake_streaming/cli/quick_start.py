"""Lets a command that needs no Spark start quickly. For processes that do nothing else, and no library."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.machinery import ModuleSpec


def leave_out_pandas() -> None:
    """Let PyArrow find no pandas in this process.

    It imports pandas, which takes longer than all else together, when it makes its first array of Python values: to
    see whether it was given a Series, which nothing here does. Spark does, so a process that runs Spark must have it.
    """
    if "pandas" not in sys.modules:
        sys.meta_path.insert(0, _NoPandas())


class _NoPandas:
    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: object = None) -> ModuleSpec | None:  # noqa: ARG004 # Python's
        if name == "pandas":
            raise ImportError("pandas is left out of commands that need no Spark")
        return None


@contextmanager
def without_collections() -> Iterator[None]:
    """Import without looking for garbage meanwhile: there is none, and it takes a tenth of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
