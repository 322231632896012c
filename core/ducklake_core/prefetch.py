"""Fetches one item before it is asked for: a thread makes the next while the last is used. Runs where many rows move.

Worth it where both wait for something, or run in libraries that let other threads run meanwhile.
"""

from __future__ import annotations

from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

T = TypeVar("T")
_END: Final = object()


def prefetched(items: Generator[T, None, None]) -> Generator[T, None, None]:
    """Yield the items of a generator that runs in a thread of its own from the first `next` on; close both together."""
    with ThreadPoolExecutor(1, thread_name_prefix="prefetch") as thread:
        try:
            coming = thread.submit(next, items, _END)
            while (item := coming.result()) is not _END:
                coming = thread.submit(next, items, _END)
                yield item  # type: ignore[misc] # what is not the end is an item
        finally:
            thread.submit(items.close).result()
