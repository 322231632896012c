"""Merges or rewrites the data files of one table. Runs on the driver; the work itself may be done elsewhere.

Files are written first, from what the head has, without any lock or open transaction; then a short commit puts them
in the place of their sources. It is made as soon as all are written, or what there is has waited for a while: so much
is lost at most when somebody changes a source, or ends this process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial

from ducklake_core import faults
from ducklake_core.catalog.committer import Committer
from ducklake_core.catalog.compaction_reader import TableFiles, read_table_files
from ducklake_core.catalog.database import Database
from ducklake_core.catalog.file_reader import read_file_stats
from ducklake_core.catalog.reader import read_head
from ducklake_core.catalog.session import Session
from ducklake_core.clock import Clock
from ducklake_core.errors import CommitConflict, DuckLakeError, ObjectNotFound
from ducklake_core.files.compaction import CompactionResult, CompactionTask, compact
from ducklake_core.files.open_file import FileLayout
from ducklake_core.files.statistics import leaf_paths
from ducklake_core.files.storage import Storage
from ducklake_core.files.written import WrittenFiles
from ducklake_core.log_lines import one_line
from ducklake_core.maintenance.compaction_commit import CompactionCommit, Outcome, WrittenGroup
from ducklake_core.maintenance.compaction_method import Method, TableAt
from ducklake_core.maintenance.report import Work
from ducklake_core.model import Column, ColumnId, ColumnStats, DataFileId, Snapshot
from ducklake_core.plan.file_groups import FileGroup
from ducklake_core.retries import COMPACTION_STOP, conflict_retries
from ducklake_core.spec.paths import relative_to
from ducklake_core.tasks import Result, Runner, Task

PORTION_SECONDS = 30.0  # what was written so long ago is committed before more is written
DROPPED = "it was dropped or renamed meanwhile"
_LOOKS = 20  # for definitions and files of one and the same schema
_THREADS = 2


def run_in_process(function: Callable[[Task], Result], tasks: Sequence[Task]) -> Iterator[Result]:
    """Do tasks in this process, two at a time."""
    with ThreadPoolExecutor(min(_THREADS, len(tasks)), thread_name_prefix="maintenance") as threads:
        yield from threads.map(function, tasks)


@dataclass(slots=True)
class _Progress:
    """What became of the groups of a table so far: those that are committed, what was left, and what failed.

    `lost`: how many groups did not fit any more.
    """

    kept: list[WrittenGroup] = field(default_factory=list)
    lost: int = 0
    skipped: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    snapshot: Snapshot | None = None
    conflict: CommitConflict | None = None

    def add_results(self, results: Iterable[CompactionResult]) -> None:
        for result in results:
            self.skipped += [result.skipped] if result.skipped is not None else []
            self.errors += [result.error] if result.error is not None else []

    def add(self, outcome: Outcome, offered: int) -> None:
        self.snapshot = outcome.snapshot or self.snapshot
        self.kept += outcome.kept
        self.errors += outcome.errors
        self.lost += offered - len(outcome.kept) - len(outcome.errors)

    def end(self, error: DuckLakeError) -> None:
        """Note what keeps the rest from being done."""
        if isinstance(error, ObjectNotFound):
            self.skipped.append(DROPPED)
        else:
            self.errors.append(one_line(error))


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
        progress = _Progress()
        try:
            with WrittenFiles(self.storage) as written:
                for portion in self._portions(at, groups, self._tasks(at, found, groups), written):
                    self._commit(at, found, portion, written, progress)
        except DuckLakeError as error:
            if not progress.kept:
                raise
            progress.end(error)
        if progress.conflict is not None and not progress.kept:
            raise progress.conflict
        return _work(at, progress, self.clock.seconds() - start)

    def _look_at_head(self) -> tuple[TableAt, TableFiles]:
        """Return the table and its files of one and the same head.

        A delete file may hold deletes of later snapshots than the one it is listed for: read at an older one, rows that
        were deleted since would be written anew, and nobody would notice.
        """
        for _ in range(_LOOKS):
            at = self.look()
            found, head = self.database.ask(partial(_files_at_head, at=at))
            if head.schema_version == at.base.schema_version:
                return replace(at, base=head), found
        raise CommitConflict("cannot list the files of one snapshot: others change definitions all the time")

    # ---- writing

    def _portions(
        self, at: TableAt, groups: Sequence[FileGroup], tasks: Sequence[CompactionTask], written: WrittenFiles
    ) -> Iterator[list[WrittenGroup]]:
        """Do the tasks, and yield what is to be committed together.

        The files of each are noted at once: a runner may be stopped before it has done them all. The last portion does
        not wait for what the runner does after its last task.
        """
        portion, since = list[WrittenGroup](), self.clock.seconds()
        results = zip(groups, self.runner(partial(compact, self.storage), tasks), strict=True)
        for number, (group, result) in enumerate(results, start=1):
            portion.append(WrittenGroup(group, result))
            written.add(*portion[-1].paths(at.table))
            if number == len(groups) or self.clock.seconds() - since >= PORTION_SECONDS:
                yield portion
                portion, since = [], self.clock.seconds()

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
        self,
        at: TableAt,
        found: TableFiles,
        portion: Sequence[WrittenGroup],
        written: WrittenFiles,
        progress: _Progress,
    ) -> None:
        """Commit a portion, and note what became of it; of one that does not fit any more nothing is left."""
        faults.at("after_compaction_write")
        progress.add_results(one.result for one in portion)
        done = [one for one in portion if one.result.error is None and one.result.skipped is None]
        commit = CompactionCommit(self.database, self.storage, self.committer, self.look, self.method)
        try:
            progress.add(commit.run(at, found, done, written), len(done))
        except CommitConflict as conflict:
            progress.conflict = conflict
            progress.lost += len(done)
            written.remove()


def _files_at_head(session: Session, *, at: TableAt) -> tuple[TableFiles, Snapshot]:
    head = read_head(session)
    return read_table_files(session, at.table, head.snapshot_id), head


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


def _work(at: TableAt, progress: _Progress, seconds: float) -> Work:
    sources = [file for one in progress.kept for file in one.group]
    files = [moved.file for one in progress.kept for moved in one.result.files]
    left = f"files of {progress.lost} groups were changed meanwhile, and are left for the next time"
    skipped = [*progress.skipped, left] if progress.lost else progress.skipped
    return Work(
        at.table.qualified_name,
        files_before=len(sources),
        files_after=len(files),
        bytes_before=sum(file.file_size_bytes for file in sources),
        bytes_after=sum(file.file_size_bytes for file in files),
        rows=sum(file.record_count for file in files),
        seconds=seconds,
        snapshot_id=None if progress.snapshot is None else progress.snapshot.snapshot_id,
        skipped="; ".join(skipped) or None,
        error="; ".join(progress.errors) or None,
    )
