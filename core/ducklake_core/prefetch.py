"""Runs an iterator in a thread of its own, one item ahead: reading the catalog goes on while files are written."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


def prefetched(items: Iterator[T]) -> Iterator[T]:
    """Yield the same items. All of them are made in one other thread, each while the one before it is in use.

    An error comes out where its item would have. At most two items exist at a time, one of them unfinished.
    """
    with ThreadPoolExecutor(max_workers=1) as thread:
        try:
            following = thread.submit(next, items, None)
            while (item := following.result()) is not None:
                following = thread.submit(next, items, None)
                yield item
                del item
        finally:
            thread.submit(_close, items).result()


def _close(items: Iterator[T]) -> None:
    close = getattr(items, "close", None)
    if close is not None:
        close()
