"""Merges or rewrites the data files of one table. Runs on the driver; the work itself may be done elsewhere.

Files are written first, from what the head has, without any lock or open transaction; then one short commit puts them
in the place of their sources. Whoever deletes rows of the table, alters it or compacts it meanwhile makes that a
conflict: then those new files whose sources are still as they were are committed on the new head, and the others are
left for the next time. Nobody's change is lost, and little is written twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Protocol, TypeAlias, TypeVar

from ducklake_core import faults
from ducklake_core.catalog.commit import Commit
from ducklake_core.catalog.committer import Committer
from ducklake_core.catalog.compaction_reader import TableFiles, read_exact_basis, read_table_files
from ducklake_core.catalog.database import Database
from ducklake_core.catalog.file_reader import read_file_stats
from ducklake_core.catalog.reader import read_head
from ducklake_core.catalog.session import Session
from ducklake_core.clock import Clock
from ducklake_core.errors import CommitConflict
from ducklake_core.files.compaction import CompactionResult, CompactionTask, compact
from ducklake_core.files.open_file import FileLayout
from ducklake_core.files.statistics import leaf_paths
from ducklake_core.files.storage import Storage
from ducklake_core.files.written import WrittenFiles
from ducklake_core.maintenance.report import Operation, Work
from ducklake_core.model import Column, ColumnId, ColumnStats, DataFile, DataFileId, Snapshot, TableVersion
from ducklake_core.plan.compaction import Compaction, ExactStats, exact_stats, source_of
from ducklake_core.plan.file_groups import FileGroup, MergeLimits, deleted_rows, plan_merge, plan_rewrite
from ducklake_core.plan.moved_file import MovedFile, with_current_bounds
from ducklake_core.plan.staged import CommitInfo, Staged, StagedTable, TableWrites
from ducklake_core.retries import COMPACTION_STOP, conflict_retries
from ducklake_core.spec.changes import ChangeKind
from ducklake_core.spec.options import TableOptions
from ducklake_core.spec.paths import relative_to

Task = TypeVar("Task")
Result = TypeVar("Result")

_COMMITS = 5  # so often the files of one plan are offered, each time on the newest head
_LOOKS = 20  # for a moment in which nobody commits
_THREADS = 2


class Runner(Protocol):
    """Does tasks, here or elsewhere, and gives their results in the order of the tasks. Both pickle."""

    def __call__(self, function: Callable[[Task], Result], tasks: Sequence[Task]) -> Iterable[Result]: ...


def run_in_process(function: Callable[[Task], Result], tasks: Sequence[Task]) -> Iterator[Result]:
    """Do tasks in this process, two at a time."""
    with ThreadPoolExecutor(min(_THREADS, len(tasks)), thread_name_prefix="maintenance") as threads:
        yield from threads.map(function, tasks)


@dataclass(frozen=True, slots=True)
class TableAt:
    """A table as a snapshot has it, with the options in force."""

    base: Snapshot
    table: TableVersion
    options: TableOptions


@dataclass(frozen=True, slots=True)
class Merge:
    """Small files become large ones."""

    operation: ClassVar = Operation.MERGE
    kind: ClassVar = ChangeKind.MERGE_ADJACENT
    keeps_snapshots: ClassVar = True
    min_file_bytes: int = 0
    max_file_bytes: int | None = None
    max_groups: int | None = None

    def plan(self, found: TableFiles, options: TableOptions) -> tuple[FileGroup, ...]:
        target = options.files.target_file_bytes
        limits = MergeLimits(target, self.min_file_bytes, self.max_file_bytes, self.max_groups)
        return plan_merge(found.files, found.versions, limits)


@dataclass(frozen=True, slots=True)
class Rewrite:
    """Files with many deleted rows are written without them. `threshold` None: as the table's option says."""

    operation: ClassVar = Operation.REWRITE
    kind: ClassVar = ChangeKind.REWRITE_DELETE
    keeps_snapshots: ClassVar = False
    threshold: float | None = None

    def plan(self, found: TableFiles, options: TableOptions) -> tuple[FileGroup, ...]:
        threshold = options.rewrite_delete_threshold if self.threshold is None else self.threshold
        target = options.files.target_file_bytes
        return plan_rewrite(found.files, found.versions, target, threshold, with_crowds=self.threshold is None)


Method: TypeAlias = Merge | Rewrite


@dataclass(frozen=True, slots=True)
class _Done:
    """Files that were written anew, and what they became."""

    group: FileGroup
    result: CompactionResult

    def paths(self, table: TableVersion) -> list[str]:
        return [table.directory + moved.file.path for moved in self.result.files]


@dataclass(frozen=True, slots=True)
class Compactor:
    """Compacts one table. `look` finds it as the head has it now; it raises ObjectNotFound when it is gone."""

    database: Database
    storage: Storage
    committer: Committer
    clock: Clock
    look: Callable[[], TableAt]
    method: Method
    runner: Runner = run_in_process

    def run(self) -> Work:
        """Compact the table once; give up with CommitConflict when others change all its files time and again."""
        for attempt in conflict_retries(after=lambda _: True, stop=COMPACTION_STOP):
            with attempt:
                return self._run_once()
        raise AssertionError("unreachable")  # the policy re-raises

    def _run_once(self) -> Work:
        start = self.clock.seconds()
        at, found = self._look_at_head()
        groups = self.method.plan(found, at.options)
        if not groups:
            return Work(at.table.qualified_name)
        with WrittenFiles(self.storage) as written:
            all_done = list(self._write(at, groups, self._tasks(at, found, groups), written))
            done = [one for one in all_done if one.result.error is None and one.result.skipped is None]
            faults.at("after_compaction_write")
            snapshot, kept = self._commit(at, found, done, written) if done else (None, [])
        return _work(at, all_done, kept, snapshot, self.clock.seconds() - start)

    def _look_at_head(self) -> tuple[TableAt, TableFiles]:
        """Return the table and its files of one and the same head.

        A delete file may hold deletes of later snapshots than the one it is listed for: read at an older one, rows that
        were deleted since would be written anew, and nobody would notice.
        """
        for _ in range(_LOOKS):
            at = self.look()
            found, head = self.database.ask(partial(_files_and_head, at=at))
            if head == at.base:
                return at, found
        raise CommitConflict("cannot list the files of one snapshot: others commit all the time")

    def _read(self, at: TableAt) -> TableFiles:
        return self.database.ask(lambda session: read_table_files(session, at.table, at.base.snapshot_id))

    # ---- writing

    def _write(
        self, at: TableAt, groups: Sequence[FileGroup], tasks: Sequence[CompactionTask], written: WrittenFiles
    ) -> Iterator[_Done]:
        """Do the tasks. The files of each are noted at once: a runner may be stopped before it has done them all."""
        for group, result in zip(groups, self.runner(partial(compact, self.storage), tasks), strict=True):
            done = _Done(group, result)
            written.add(*done.paths(at.table))
            yield done

    def _tasks(self, at: TableAt, found: TableFiles, groups: Sequence[FileGroup]) -> list[CompactionTask]:
        columns = {leaf.column_id for group in groups for leaf in _floats(found.columns_of(group[0]))}
        stats = self.database.ask(lambda session: read_file_stats(session, at.table, sorted(columns)))
        return [self._task(at, found.columns_of(group[0]), group, stats) for group in groups]

    def _task(
        self,
        at: TableAt,
        columns: tuple[Column, ...],
        group: FileGroup,
        stats: dict[DataFileId, dict[ColumnId, ColumnStats]],
    ) -> CompactionTask:
        first, table = group[0], at.table
        is_partitioned = first.partition_id is not None and bool(first.partition_values)
        path, is_inside = relative_to(first.path, table.directory)
        values = tuple(first.partition_values[i] for i in sorted(first.partition_values))
        return CompactionTask(
            group,
            FileLayout(table.directory, columns, None, table.sort_order, at.options.files),
            table.columns,
            path[: path.rfind("/") + 1] if is_partitioned and is_inside else "",
            first.partition_id if is_partitioned else None,
            values if is_partitioned else None,
            None if self.method.keeps_snapshots else at.base.snapshot_id,
            _leaves_with_nan(columns, group, stats),
        )

    # ---- committing

    def _commit(
        self, at: TableAt, found: TableFiles, done: list[_Done], written: WrittenFiles
    ) -> tuple[Snapshot | None, list[_Done]]:
        """Commit what still fits; on a conflict look again, and leave out what others have changed."""
        for attempt in range(_COMMITS):
            commit = Commit(self._stage(at, found, done))
            try:
                return self.committer.run(commit).snapshot, done
            except CommitConflict:
                at = self.look()
                found = self._read(at)
                now = {file.data_file_id: file for file in found.files}
                changed = [one for one in done if any(now.get(f.data_file_id) != f for f in one.group)]
                self._remove(at, changed)
                done = [one for one in done if one not in changed]
                if not done or attempt + 1 == _COMMITS:
                    raise
            finally:
                if not commit.is_void:  # the snapshot exists, or may: its files must stay
                    written.keep()
        raise AssertionError("unreachable")  # the last attempt raises

    def _remove(self, at: TableAt, done: Iterable[_Done]) -> None:
        WrittenFiles(self.storage, [path for one in done for path in one.paths(at.table)]).remove()

    def _stage(self, at: TableAt, found: TableFiles, done: Sequence[_Done]) -> Staged:
        files = tuple(
            with_current_bounds(moved, found.columns_of(one.group[0]), at.table.columns)
            for one in done
            for moved in one.result.files
        )
        sources = [file for one in done for file in one.group]
        exact = None if self.method.keeps_snapshots else self._exact_stats(at, found, sources, files)
        of_table = tuple(source_of(file, self.committer.data_path) for file in sources)
        compaction = Compaction(self.method.kind, of_table, files, exact)
        what = f"{self.method.operation.value} files of {at.table.qualified_name}"
        info = CommitInfo(message=what if at.options.requires_message else None)
        return Staged(at.base, (StagedTable(at.table, at.table, TableWrites(moved=compaction)),), info=info)

    def _exact_stats(
        self, at: TableAt, found: TableFiles, sources: Sequence[DataFile], files: Sequence[MovedFile]
    ) -> ExactStats | None:
        """Work out the table's statistics, if no deleted row is left in its files and none of its rows is inlined."""
        gone = {file.data_file_id for file in sources}
        kept = [file for file in found.files if file.data_file_id not in gone]
        if any(deleted_rows(file) for file in kept):
            return None
        basis = self.database.ask(lambda session: read_exact_basis(session, at.table, at.base))
        if basis is None:
            return None
        stats, of_files = basis
        of_kept = [(file, of_files.get(file.data_file_id, {})) for file in kept]
        return exact_stats(stats, at.table.columns, of_kept, files)


def _files_and_head(session: Session, *, at: TableAt) -> tuple[TableFiles, Snapshot]:
    return read_table_files(session, at.table, at.base.snapshot_id), read_head(session)


def _floats(columns: Sequence[Column]) -> Iterator[Column]:
    return (leaf for column in columns for leaf in column.leaves() if leaf.type.startswith("float"))


def _leaves_with_nan(
    columns: Sequence[Column], group: FileGroup, stats: dict[DataFileId, dict[ColumnId, ColumnStats]]
) -> frozenset[str]:
    """Return the paths of the leaves in which some file may have a NaN: all of it would not go into one file else."""
    leaves = [leaf for column in columns for leaf in column.leaves()]
    paths = {leaf.column_id: path for leaf, path in zip(leaves, leaf_paths(columns), strict=True)}
    unknown = ColumnStats(ColumnId(-1))
    return frozenset(
        paths[leaf.column_id]
        for leaf in _floats(columns)
        for file in group
        if stats.get(file.data_file_id, {}).get(leaf.column_id, unknown).contains_nan is not False
    )


def _work(
    at: TableAt, all_done: Sequence[_Done], kept: Sequence[_Done], snapshot: Snapshot | None, seconds: float
) -> Work:
    sources = [file for one in kept for file in one.group]
    files = [moved.file for one in kept for moved in one.result.files]
    lost = sum(1 for one in all_done if one.result.files and one not in kept)
    skipped = [one.result.skipped for one in all_done if one.result.skipped is not None]
    skipped += [f"files of {lost} groups were changed meanwhile, and are left for the next time"] if lost else []
    errors = [one.result.error for one in all_done if one.result.error is not None]
    return Work(
        at.table.qualified_name,
        files_before=len(sources),
        files_after=len(files),
        bytes_before=sum(file.file_size_bytes for file in sources),
        bytes_after=sum(file.file_size_bytes for file in files),
        rows=sum(file.record_count for file in files),
        seconds=seconds,
        snapshot_id=None if snapshot is None else snapshot.snapshot_id,
        skipped="; ".join(skipped) or None,
        error="; ".join(errors) or None,
    )
