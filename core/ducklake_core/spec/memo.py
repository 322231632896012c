"""Remembers what was derived from a definition, such as the columns of a table. Pure; runs everywhere."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")

_MOST = 512


def per_object(function: Callable[[Key], Value]) -> Callable[[Key], Value]:
    """Call a pure function once for each object: an `lru_cache` would hash a table's columns, which takes longer.

    The object is kept, so that its identity stays its own. Threads may compute the same value twice.
    """
    known: dict[int, tuple[Key, Value]] = {}

    @wraps(function)
    def remembered(key: Key) -> Value:
        found = known.get(id(key))
        if found is None:
            if len(known) >= _MOST:
                known.clear()
            found = known[id(key)] = (key, function(key))
        return found[1]

    return remembered
