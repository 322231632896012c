"""Removes files that no snapshot sees any more and that were scheduled for deletion some time ago.

A file is removed first and forgotten then: who dies between leaves a row of a file that is gone, and the next run
forgets it. Runs on the driver.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta

from ducklake_core import faults
from ducklake_core.catalog.scheduled_files import ScheduledFile, forget_scheduled, read_scheduled
from ducklake_core.errors import InvalidInput, UnreadableFile
from ducklake_core.maintenance.ages import Age, age_of, option_age
from ducklake_core.maintenance.data_path import misplaced
from ducklake_core.maintenance.known_files import Neighbours
from ducklake_core.maintenance.removal import Removal, in_batches, removal_work, remove_files, told
from ducklake_core.maintenance.run import Done, Maintained, Pause, no_pause
from ducklake_core.spec.paths import hide_password, is_below, join_path

DEFAULT_AGE = timedelta(days=2)  # the reference's, where neither argument nor option tells another


def deletion_limit(lake: Maintained, older_than: Age | None, *, cleanup_all: bool) -> datetime | None:
    """Return before when a file must have been scheduled or written to be removed; None: whenever. InvalidInput."""
    if cleanup_all and older_than is not None:
        raise InvalidInput(
            f"cleanup_all takes files of every age, and older_than is {older_than!r}: leave one of them out"
        )
    if cleanup_all:
        return None
    age = age_of("older_than", older_than) if older_than is not None else option_age(lake, "delete_older_than")
    return lake.clock.now() - (DEFAULT_AGE if age is None else age)


def cleanup_old_files(
    lake: Maintained, before: datetime | None, named: Collection[str], *, dry_run: bool, pause: Pause = no_pause
) -> Done:
    """Remove what was scheduled before a time, but nothing outside of the data path, unless it is `named`."""
    due = [file for file in lake.database.ask(read_scheduled) if before is None or file.since < before]
    if not due:
        return Done()
    with Neighbours(lake) as neighbours:
        reason = misplaced(lake) or neighbours.unreadable()
        if reason is not None:
            return Done(held_back=(reason,))
        return _Cleanup(lake, neighbours, named, pause).run(due, dry_run=dry_run)


class _Cleanup:
    """One run: which files may go, and what became of them."""

    def __init__(self, lake: Maintained, neighbours: Neighbours, named: Collection[str], pause: Pause) -> None:
        self._pause = pause
        self._lake = lake
        self._neighbours = neighbours
        self._named = frozenset(named)
        self._removed: list[Removal] = []
        self._errors: list[UnreadableFile] = []

    def run(self, due: list[ScheduledFile], *, dry_run: bool) -> Done:
        outside = [file for file in due if not self._is_ours(file)]
        wanted = [file for file in due if self._is_ours(file)]
        used: list[ScheduledFile] = []
        for batch in in_batches(wanted):
            # Asked for each batch: a file may have been registered again meanwhile.
            known = self._neighbours.known(scheduled=False)
            used += (again := [file for file in batch if self._path(file) in known])
            kept = {file.path for file in again}
            self._remove([file for file in batch if file.path not in kept], dry_run=dry_run)
            self._pause()
        held_back = (
            *told(self._shown(outside), lambda f: f"outside of the data path, so not removed unless named: {f}"),
            *told(self._shown(used), lambda f: f"registered again, so not removed: {f}"),
        )
        paths = tuple(hide_password(file.path) for file in self._removed)
        return Done((removal_work(self._removed, self._errors),), paths, held_back)

    def _remove(self, batch: Sequence[ScheduledFile], *, dry_run: bool) -> None:
        files = [Removal(self._path(file)) for file in batch]
        if dry_run:
            self._removed += files
            return
        errors = remove_files(self._lake.storage, files)
        faults.at("files_removed")
        gone = [file for file, error in zip(batch, errors, strict=True) if error is None]
        forget_scheduled(self._lake.database, gone)
        self._removed += [file for file, error in zip(files, errors, strict=True) if error is None]
        self._errors += [error for error in errors if error is not None]

    def _is_ours(self, file: ScheduledFile) -> bool:
        path = self._path(file)
        return is_below(path, self._lake.data_path) or path in self._named

    def _path(self, file: ScheduledFile) -> str:
        return join_path(self._lake.data_path, file.path, is_relative=file.is_relative)

    def _shown(self, files: list[ScheduledFile]) -> list[str]:
        return [hide_password(self._path(file)) for file in files]
