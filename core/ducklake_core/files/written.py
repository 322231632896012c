"""Files that were written and that no snapshot names yet. Runs on driver and executors.

Whoever writes such files adds them here; when what they were written for fails, all of them are removed. One that
cannot be removed is logged and stays as an orphan: it never hides why it was to go, nor keeps the others.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType
from typing import Self

from ducklake_core.files.storage import Storage


class WrittenFiles:
    """Use as `with WrittenFiles(storage) as written:`; a block that fails removes what was added, any other keeps it.

    Paths are full ones; one that ends with a slash is a directory, which goes with all that is in it.
    """

    def __init__(self, storage: Storage, paths: Iterable[str] = ()) -> None:
        self._storage = storage
        self._paths = list(paths)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if kind is not None:  # an interrupt must leave no file behind, either
            self.remove()

    def add(self, *paths: str) -> None:
        self._paths += paths

    def keep(self) -> None:
        """Leave the files alone, whatever comes: a snapshot names them, or may."""
        self._paths.clear()

    def remove(self) -> None:
        """Remove all files now; what is gone already is as it should be."""
        while self._paths:
            self._storage.remove_quietly(self._paths.pop())
