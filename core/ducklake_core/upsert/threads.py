"""Works on files beside each other: Arrow and storages do most of it without Python's lock. Runs on the driver.

The threads are kept, as to start one takes longer than to write a small file. Each process has its own.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import TypeVar

_THREADS = 4
_NAME = "ducklake-files"
Item = TypeVar("Item")
Answer = TypeVar("Answer")


def beside_each_other(act: Callable[[Item], Answer], items: Sequence[Item]) -> list[Answer]:
    """Return what an act makes of each item, in their order; one alone needs no thread, nor do those of a thread."""
    if len(items) <= 1 or threading.current_thread().name.startswith(_NAME):
        return [act(item) for item in items]
    futures = [_pool(os.getpid()).submit(act, item) for item in items]
    try:
        return [future.result() for future in futures]
    finally:  # after a failure nothing goes on behind the caller's back
        for future in futures:
            if not future.cancel():
                future.exception()


@lru_cache(maxsize=1)  # a process that was forked has none of its parent's threads
def _pool(_process: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_THREADS, thread_name_prefix=_NAME)
