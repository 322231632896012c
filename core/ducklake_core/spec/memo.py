"""Remembers what was derived from a definition, such as the columns of a table. Pure; runs everywhere."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, TypeVarTuple

Key = TypeVar("Key")
Other = TypeVar("Other")
Rest = TypeVarTuple("Rest")
Value = TypeVar("Value")

_MAX_ENTRIES = 1024


def per_object(function: Callable[[Key, *Rest], Value]) -> Callable[[Key, *Rest], Value]:
    """Call a pure function once for each object, which must not change, and each value of the other arguments.

    An `lru_cache` would hash and compare a table's columns, which takes longer than most questions about them. The
    object is kept, so that nothing else gets its identity.
    """
    known: dict[tuple[Any, ...], tuple[Key, Value]] = {}  # Any: an id and the other arguments

    @wraps(function)
    def remembered(key: Key, *rest: *Rest) -> Value:
        found = known.get((id(key), *rest))
        if found is None:
            if len(known) >= _MAX_ENTRIES:
                known.clear()
            found = known[id(key), *rest] = (key, function(key, *rest))
        return found[1]

    return remembered


def per_object_while_same(
    is_same: Callable[[Other, Other], bool],
) -> Callable[[Callable[[Key, Other], Value]], Callable[[Key, Other], Value]]:
    """Call a pure function of an object, which must not change, and another value only when that is not as last time.

    For what comes as before nearly always and takes longer to hash than to compare, such as the schema of data for a
    table.
    """

    def decorate(function: Callable[[Key, Other], Value]) -> Callable[[Key, Other], Value]:
        known: dict[int, tuple[Key, Other, Value]] = {}

        @wraps(function)
        def remembered(key: Key, other: Other) -> Value:
            found = known.get(id(key))
            if found is None or not is_same(found[1], other):
                if len(known) >= _MAX_ENTRIES:
                    known.clear()
                found = known[id(key)] = (key, other, function(key, other))
            return found[2]

        return remembered

    return decorate
