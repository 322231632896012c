"""Which data files of a table are written anew, and which of them together. Pure: files in, groups out.

A merge costs the more, the larger its files are, so a large one waits until small ones together are worth it: a file is
merged only into one that is half as large again at least, or while it is tiny. So each row is written O(log n) times
before its file is full, however often maintenance runs, and O(log n) files are left in each partition.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from ducklake_core.model import DataFile, SnapshotId

FileGroup: TypeAlias = tuple[DataFile, ...]  # written together, in this order; of one partition and one set of columns

GROWTH = 2  # a file is merged with smaller ones that together have half its size at least
_TINY_SHARE = 8192  # of the target: files so small are always merged, since that costs next to nothing
_CROWD = 8  # so many small files with deletes, which no merge takes, are worth a rewrite


@dataclass(frozen=True, slots=True)
class MergeLimits:
    """Which files are merged: those below `max_file_bytes` (None: below the target), from `min_file_bytes` on."""

    target_bytes: int
    min_file_bytes: int = 0
    max_file_bytes: int | None = None
    max_groups: int | None = None

    def has(self, file: DataFile) -> bool:
        largest = self.target_bytes if self.max_file_bytes is None else min(self.max_file_bytes, self.target_bytes)
        return self.min_file_bytes <= file.file_size_bytes < largest


def plan_merge(files: Iterable[DataFile], versions: Sequence[SnapshotId], limits: MergeLimits) -> tuple[FileGroup, ...]:
    """Return which files become one each. `versions`: the snapshots that changed the table's columns, in order.

    A file with deleted rows is left alone, as by the reference: `plan_rewrite` has those.
    """
    candidates = [f for f in files if limits.has(f) and not deleted_rows(f)]
    groups = [
        group
        for alike in _alike(candidates, versions)
        for run in _similar_runs(alike, limits.target_bytes // _TINY_SHARE)
        for group in _bins(run, limits.target_bytes)
        if len(group) > 1
    ]
    return tuple(groups[: limits.max_groups])


def plan_rewrite(
    files: Iterable[DataFile],
    versions: Sequence[SnapshotId],
    target_bytes: int,
    threshold: float,
    *,
    with_crowds: bool = False,
) -> tuple[FileGroup, ...]:
    """Return which files are written without their deleted rows: those of which at least a share is deleted.

    `with_crowds`: also small files with fewer deletes, where there are many. Upserts leave such: no merge takes them.
    """
    with_deletes = [f for f in files if deleted_rows(f)]
    groups: list[FileGroup] = []
    for alike in _alike(with_deletes, versions):
        wanted = [f for f in alike if deleted_rows(f) >= threshold * f.record_count]
        if with_crowds:
            known = {f.data_file_id for f in wanted}
            small = [f for f in alike if f.data_file_id not in known and f.file_size_bytes < target_bytes]
            runs = _similar_runs(small, target_bytes // _TINY_SHARE)
            wanted += [f for run in runs if len(run) >= _CROWD for f in run]
        groups += _bins(sorted(wanted, key=_age), target_bytes)
    return tuple(groups)


def deleted_rows(file: DataFile) -> int:
    """Return how many rows of a file are deleted; no position is in two places."""
    return sum(d.delete_count for d in file.delete_files) + len(file.inlined_deletes)


def live_bytes(file: DataFile) -> int:
    """Return about how large a file would be without its deleted rows."""
    if not file.record_count:
        return 0
    return file.file_size_bytes * max(0, file.record_count - deleted_rows(file)) // file.record_count


def _alike(files: Iterable[DataFile], versions: Sequence[SnapshotId]) -> Iterator[list[DataFile]]:
    """Yield files of one partition, written under one set of columns, oldest first."""
    found: dict[tuple[object, ...], list[DataFile]] = {}
    for file in sorted(files, key=_age):
        version = bisect_right(versions, file.begin_snapshot)
        key = version, file.partition_id, *sorted(file.partition_values.items())
        found.setdefault(key, []).append(file)
    yield from found.values()


def _age(file: DataFile) -> tuple[int, int, int]:
    return file.begin_snapshot, -1 if file.row_id_start is None else file.row_id_start, file.data_file_id


def _similar_runs(files: Iterable[DataFile], tiny_bytes: int) -> Iterator[FileGroup]:
    """Yield files in runs, each oldest first: none is larger than tiny, or than twice all smaller ones of its run."""
    run: list[DataFile] = []
    run_bytes = 0
    for file in sorted(files, key=lambda f: (f.file_size_bytes, _age(f))):
        if run and file.file_size_bytes > max(tiny_bytes, GROWTH * run_bytes):
            yield tuple(sorted(run, key=_age))
            run, run_bytes = [], 0
        run.append(file)
        run_bytes += file.file_size_bytes
    if run:
        yield tuple(sorted(run, key=_age))


def _bins(files: Iterable[DataFile], target_bytes: int) -> Iterator[FileGroup]:
    """Yield files together until they fill one of the target size."""
    group: list[DataFile] = []
    group_bytes = 0
    for file in files:
        group.append(file)
        group_bytes += live_bytes(file)
        if group_bytes >= target_bytes:
            yield tuple(group)
            group, group_bytes = [], 0
    if group:
        yield tuple(group)
