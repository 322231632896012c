"""Removes files from storage, many at a time, and tells which could not be. Runs on the driver."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from ducklake_core.errors import UnreadableFile
from ducklake_core.files.storage import Storage
from ducklake_core.log_lines import one_line
from ducklake_core.maintenance.report import Work

BATCH_FILES = 1000  # that are removed before the catalog is told
_THREADS = 8  # storage by network takes its time for each
_MOST_NAMED = 10

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Removal:
    """A file to be removed: its full path, and its size where that is known."""

    path: str
    size_bytes: int = 0


def remove_files(storage: Storage, files: Sequence[Removal]) -> list[UnreadableFile | None]:
    """Remove files; return for each the error that kept it, None for those that are gone, if only since before."""

    def remove(file: Removal) -> UnreadableFile | None:
        try:
            storage.remove_if_there(file.path)
        except UnreadableFile as error:
            return error
        return None

    with ThreadPoolExecutor(_THREADS) as pool:
        return list(pool.map(remove, files))


def in_batches(items: Sequence[Item]) -> Iterator[Sequence[Item]]:
    for first in range(0, len(items), BATCH_FILES):
        yield items[first : first + BATCH_FILES]


def removal_work(removed: Sequence[Removal], errors: Sequence[UnreadableFile]) -> Work:
    """Return what was done to the lake by removals."""
    error = f"{len(errors)} files could not be removed, such as: {one_line(errors[0])}" if errors else None
    return Work(files_before=len(removed), bytes_before=sum(file.size_bytes for file in removed), error=error)


def told(kept: Sequence[str], say: Callable[[str], str]) -> tuple[str, ...]:
    """Return a sentence about files that are kept, none where there are none; a few of them are named."""
    if not kept:
        return ()
    more = f" and {len(kept) - _MOST_NAMED} more" if len(kept) > _MOST_NAMED else ""
    return (say(", ".join(f"'{path}'" for path in kept[:_MOST_NAMED]) + more),)
