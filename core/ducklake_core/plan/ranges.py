"""Ids as ranges, so that many rows are one condition. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import TypeVar

Id = TypeVar("Id", bound=int)


def ranges_between(chosen: Sequence[Id], others: Sequence[Id]) -> list[tuple[Id, Id]]:
    """Return the first and last id of each range that has chosen ids alone; both are sorted and have none in common."""
    found: list[tuple[Id, Id]] = []
    position = 0
    for other in chain(others, [None]):
        first = position
        while position < len(chosen) and (other is None or chosen[position] < other):
            position += 1
        if position > first:
            found.append((chosen[first], chosen[position - 1]))
    return found
