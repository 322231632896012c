"""What was read lately, by a key, up to so many bytes: what was asked for last stays. Any thread may ask."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from threading import Lock
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class Recent(Generic[Key, Value]):
    """Values with their sizes. What is longer than all that may be kept is not kept."""

    def __init__(self, most_bytes: int) -> None:
        self._values: OrderedDict[Key, tuple[Value, int]] = OrderedDict()
        self._most_bytes = most_bytes
        self._bytes = 0
        self._lock = Lock()

    def find(self, key: Key) -> Value | None:
        with self._lock:
            found = self._values.get(key)
            if found is None:
                return None
            self._values.move_to_end(key)
            return found[0]

    def keep(self, key: Key, value: Value, size_bytes: int) -> None:
        """Keep a value, in place of what was kept by that key."""
        with self._lock:
            self._bytes -= self._values.pop(key, (None, 0))[1]
            if size_bytes > self._most_bytes:
                return
            self._values[key] = value, size_bytes
            self._bytes += size_bytes
            while self._bytes > self._most_bytes:
                self._bytes -= self._values.popitem(last=False)[1][1]
