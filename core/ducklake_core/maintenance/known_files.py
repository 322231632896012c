"""Which files lakes know: those that no clean-up may remove. Sixteen bytes for each, however long its path.

Only hashes are kept. Two paths of one hash are both taken for known, which keeps a file that might go, and never the
other way round.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable
from typing import Self

import numpy as np

from ducklake_core.catalog.database import Database
from ducklake_core.catalog.file_paths import LakePath, registered_paths
from ducklake_core.catalog.other_lakes import OtherLake, lakes_beside, may_share_files, real_place
from ducklake_core.catalog.scheduled_files import read_scheduled
from ducklake_core.errors import DuckLakeError
from ducklake_core.log_lines import one_line
from ducklake_core.maintenance.run import Maintained
from ducklake_core.spec.paths import join_path, same_storage


class KnownFiles:
    """A set of paths, which is asked when all are in it."""

    def __init__(self, paths: Iterable[str]) -> None:
        self._hashes = np.sort(np.array(array("q", map(_hash, paths)), dtype=np.int64))

    def __contains__(self, path: str) -> bool:
        """Tell whether a file is known by its path, or, if that is written otherwise, by its name."""
        return self._has(_hash(path)) or self._has(_hash(_name_of(path)))

    def _has(self, value: int) -> bool:
        index = int(np.searchsorted(self._hashes, value))
        return index < len(self._hashes) and int(self._hashes[index]) == value


class Neighbours:
    """The lakes beside ours that share files with it, or may. Use in a `with` block."""

    def __init__(self, lake: Maintained) -> None:
        self._lake = lake
        self._others: list[OtherLake] = []

    def __enter__(self) -> Self:
        for other in lakes_beside(self._lake.database):
            if may_share_files(self._lake.data_path, other):
                self._others.append(other)
            else:
                other.database.close()
        return self

    def __exit__(self, *_: object) -> None:
        for other in self._others:
            other.database.close()

    def unreadable(self) -> str | None:
        """Say which lake keeps us from telling whose files are whose; None: none does."""
        for other in self._others:
            error = other.error or _reading_error(other.database)
            if error is not None:
                return f"another lake, '{other.shown}', may keep files here and cannot be read: {one_line(error)}"
        return None

    def directories(self) -> tuple[str, ...]:
        """Return the data paths of others that are below ours, as ours begins: nothing there is our business."""
        here = real_place(self._lake.data_path)
        placed = (other.data_path for other in self._others if other.data_path is not None and other.is_placed)
        below = (path.removeprefix(here) for path in map(real_place, placed) if path.startswith(here) and path != here)
        return tuple(self._lake.data_path + path for path in below)

    def known(self, *, scheduled: bool) -> KnownFiles:
        """Return what this lake and its neighbours have registered; `scheduled`: what is to be deleted, too."""
        places = [(self._lake.database, self._lake.data_path)]
        places += [(other.database, other.data_path) for other in self._others if other.data_path is not None]
        return KnownFiles(name for place in places for name in _names(*place, scheduled=scheduled))


def _names(database: Database, data_path: str, *, scheduled: bool) -> Iterable[str]:
    for path in registered_paths(database):
        yield from _spellings(path, data_path)
    if scheduled:
        for file in database.ask(read_scheduled):
            yield from _spellings(LakePath(file.path, file.is_relative), data_path)


def _spellings(path: LakePath, data_path: str) -> Iterable[str]:
    yield join_path(data_path, path.path, is_relative=path.is_relative)
    yield _name_of(path.path)  # others may write it otherwise: by a link, another scheme, './' or '../'


def _reading_error(database: Database) -> DuckLakeError | None:
    try:
        database.ask(lambda session: session.begin())
    except DuckLakeError as error:
        return error
    return None


def _name_of(path: str) -> str:
    return "*/" + path.rsplit("/", 1)[-1]


def _hash(path: str) -> int:
    return hash(re.sub("(?<!:)//+", "/", same_storage(path)))
