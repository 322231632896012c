"""Reads files beside each other: Arrow decodes and compares without Python's lock. Runs on the driver."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

_THREADS = 4
Item = TypeVar("Item")
Answer = TypeVar("Answer")


def beside_each_other(act: Callable[[Item], Answer], items: Sequence[Item]) -> list[Answer]:
    """Return what an act makes of each item, in their order; one alone needs no thread, which takes time to start."""
    if len(items) <= 1:
        return [act(item) for item in items]
    with ThreadPoolExecutor(_THREADS) as pool:
        return list(pool.map(act, items))
