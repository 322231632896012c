"""Removes orphans: files below the data path that the catalog does not know. Runs on the driver.

Files of a commit that is under way look the same: only their age tells them apart. So none that is younger than
`LEAST_AGE` is removed, unless all are asked for. Storage is listed after the catalog was read, and what was found is
looked for in the catalog again right before it goes: files are written before they are registered.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from ducklake_core import faults
from ducklake_core.errors import UnreadableFile
from ducklake_core.files.storage import StoredFile
from ducklake_core.maintenance.data_path import misplaced
from ducklake_core.maintenance.known_files import KnownFiles, Neighbours
from ducklake_core.maintenance.removal import BATCH_FILES, Removal, in_batches, removal_work, remove_files, told
from ducklake_core.maintenance.run import Done, Maintained, Pause, no_pause
from ducklake_core.spec.paths import hide_password, is_below

LEAST_AGE = timedelta(hours=1)  # longer than any batch should be under way
MOST_FILES = 100_000  # of one run: so many paths are in memory


def delete_orphaned_files(lake: Maintained, before: datetime | None, *, dry_run: bool, pause: Pause = no_pause) -> Done:
    """Remove orphans that were written before a time; None: whenever that was."""
    limit = None if before is None else min(before, lake.clock.now() - LEAST_AGE)
    with Neighbours(lake) as neighbours:
        reason = misplaced(lake) or neighbours.unreadable()
        if reason is not None:
            return Done(held_back=(reason,))
        return _Orphans(lake, neighbours, before, limit, pause).run(dry_run=dry_run)


class _Orphans:
    """One run: what was found, what became of it, and what is kept and why."""

    def __init__(
        self, lake: Maintained, neighbours: Neighbours, before: datetime | None, limit: datetime | None, pause: Pause
    ) -> None:
        self._pause = pause
        self._lake = lake
        self._neighbours = neighbours
        self._before, self._limit = before, limit
        self._young: list[str] = []
        self._ageless: list[str] = []
        self._removed: list[Removal] = []
        self._errors: list[UnreadableFile] = []

    def run(self, *, dry_run: bool) -> Done:
        found = self._find()
        faults.at("orphans_found")
        for batch in in_batches(found):
            self._remove(batch, dry_run=dry_run)
            self._pause()
        paths = tuple(hide_password(file.path) for file in self._removed)
        return Done((removal_work(self._removed, self._errors),), paths, self._held_back(len(found)))

    def _find(self) -> list[Removal]:
        known, found = self._neighbours.known(scheduled=True), list[Removal]()
        for file in self._unknown(known):
            if self._is_old(file):
                found.append(Removal(file.path, file.size_bytes))
            if len(found) == MOST_FILES:
                break
        return found

    def _is_old(self, file: StoredFile) -> bool:
        """Tell whether a file may go by its age; note those that are old enough for the caller and not for us."""
        if self._before is None or self._limit is None:
            return True
        if file.modified is None:
            self._ageless.append(hide_password(file.path))
            return False
        if self._limit <= file.modified < self._before:
            self._young.append(hide_password(file.path))
        return file.modified < self._limit

    def _unknown(self, known: KnownFiles) -> Iterator[StoredFile]:
        others = self._neighbours.directories()
        for number, file in enumerate(self._lake.storage.walk(self._lake.data_path), start=1):
            if number % BATCH_FILES == 0:
                self._pause()
            is_data = file.path.endswith(".parquet") and not any(is_below(file.path, other) for other in others)
            if is_data and file.path not in known:
                yield file

    def _remove(self, batch: Sequence[Removal], *, dry_run: bool) -> None:
        if dry_run:
            self._removed += batch
            return
        known = self._neighbours.known(scheduled=True)  # again: some may have been registered meanwhile
        wanted = [file for file in batch if file.path not in known]
        errors = remove_files(self._lake.storage, wanted)
        faults.at("files_removed")
        self._removed += [file for file, error in zip(wanted, errors, strict=True) if error is None]
        self._errors += [error for error in errors if error is not None]

    def _held_back(self, found: int) -> tuple[str, ...]:
        more = (f"there are more than {MOST_FILES} orphans: run it again",) if found == MOST_FILES else ()
        return (
            *told(self._young, lambda f: f"younger than {LEAST_AGE}, so a commit under way may need them: {f}"),
            *told(self._ageless, lambda f: f"the storage does not tell when they were written: {f}"),
            *more,
        )
