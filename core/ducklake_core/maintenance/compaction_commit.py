"""Commits new files of one table in the place of their sources. Runs on the driver.

A commit needs its sources as they were read, and the table as it was; all else that others do meanwhile is no matter.
Groups of which a source has changed are left out, and the rest is offered again: nobody's delete is lost, and who
deletes from other files all the time makes nobody start over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from ducklake_core.catalog.commit import Commit
from ducklake_core.catalog.committer import Committer
from ducklake_core.catalog.compaction_reader import TableFiles, read_exact_basis
from ducklake_core.catalog.database import Database
from ducklake_core.catalog.file_reader import read_some_data_files
from ducklake_core.errors import CatalogTableMissing, CommitConflict, CommitOutcomeUnknown, UnreadableFile
from ducklake_core.files.compaction import CompactionResult
from ducklake_core.files.storage import Storage
from ducklake_core.files.written import WrittenFiles
from ducklake_core.maintenance.compaction_method import Method, TableAt
from ducklake_core.model import Snapshot, TableVersion
from ducklake_core.plan.compaction import Compaction, ExactStats, exact_stats, source_of
from ducklake_core.plan.file_groups import FileGroup
from ducklake_core.plan.moved_file import MovedFile, with_current_bounds
from ducklake_core.plan.staged import CommitInfo, Staged, StagedTable, TableWrites
from ducklake_core.retries import COMMIT_STOP, conflict_retries
from ducklake_core.spec.paths import hide_password

_THREADS = 8  # storage by network takes its time for each file


@dataclass(frozen=True, slots=True)
class WrittenGroup:
    """Files that were written anew together, and what they became."""

    group: FileGroup
    result: CompactionResult

    def paths(self, table: TableVersion) -> list[str]:
        return [table.directory + moved.file.path for moved in self.result.files]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of written groups: the snapshot that has those that are `kept`, and what is wrong with others."""

    snapshot: Snapshot | None = None
    kept: tuple[WrittenGroup, ...] = ()
    errors: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CompactionCommit:
    """Commits written groups of one table. `look` finds it as the head has it now; it raises ObjectNotFound."""

    database: Database
    storage: Storage
    committer: Committer
    look: Callable[[], TableAt]
    method: Method

    def run(self, at: TableAt, found: TableFiles, groups: Sequence[WrittenGroup], written: WrittenFiles) -> Outcome:
        """Commit what still fits, on the newest head. `written` has the files of the groups.

        Raises CommitConflict when nothing fits any more, or when others alter the table again and again.
        """
        kept, errors = self._found(at, groups)
        for attempt in conflict_retries(
            after=lambda _: bool(kept),  # noqa: B023 # asked after each attempt, for what is left then
            stop=COMMIT_STOP,
        ):
            with attempt:
                if not kept:
                    return Outcome(errors=errors)
                try:
                    return Outcome(self._commit(self._stage(at, found, kept), written), kept, errors)
                except CommitConflict:
                    at = self.look()
                    kept = self._unchanged(at, kept)
                    raise
        raise AssertionError("unreachable")  # the policy re-raises

    def _commit(self, staged: Staged, written: WrittenFiles) -> Snapshot | None:
        commit = Commit(staged)
        try:
            return self.committer.run(commit).snapshot
        except CommitConflict as conflict:
            if commit.in_doubt:  # an earlier COMMIT of the same files may land yet: to offer them again could double it
                raise CommitOutcomeUnknown(f"cannot find out whether the snapshot exists: {conflict}") from conflict
            raise
        finally:
            if not commit.is_void:  # the snapshot exists, or may: its files must stay
                written.keep()

    # ---- what fits

    def _found(self, at: TableAt, groups: Sequence[WrittenGroup]) -> tuple[tuple[WrittenGroup, ...], tuple[str, ...]]:
        """Return the groups whose new files are all in storage, and what is wrong with the others.

        An upload may have been lost, or somebody has removed what no snapshot names. The sources stay then.
        """
        with ThreadPoolExecutor(_THREADS) as pool:
            reasons = list(pool.map(lambda one: self._missing(at.table, one), groups))
        found = [(one, reason) for one, reason in zip(groups, reasons, strict=True)]
        self._remove(at, [one for one, reason in found if reason is not None])
        kept = tuple(one for one, reason in found if reason is None)
        return kept, tuple(reason for _, reason in found if reason is not None)

    def _missing(self, table: TableVersion, one: WrittenGroup) -> str | None:
        for path, moved in zip(one.paths(table), one.result.files, strict=True):
            try:
                size, expected = self.storage.find_size(path), moved.file.file_size_bytes
            except UnreadableFile as error:
                return f"{error}: its sources stay, and the next run writes it again"
            if size != expected:
                what = "is not there any more" if size is None else f"has {size} bytes in place of {expected}"
                return f"new file '{hide_password(path)}' {what}: its sources stay, and the next run writes it again"
        return None

    def _unchanged(self, at: TableAt, groups: Sequence[WrittenGroup]) -> tuple[WrittenGroup, ...]:
        """Return the groups whose sources are as they were read; files of the others are removed."""
        ids = [file.data_file_id for one in groups for file in one.group]
        files = self.database.ask(lambda s: read_some_data_files(s, at.table, at.base.snapshot_id, ids))
        now = {file.data_file_id: file for file in files}
        changed = [one for one in groups if any(now.get(f.data_file_id) != f for f in one.group)]
        self._remove(at, changed)
        return tuple(one for one in groups if one not in changed)

    def _remove(self, at: TableAt, groups: Iterable[WrittenGroup]) -> None:
        WrittenFiles(self.storage, [path for one in groups for path in one.paths(at.table)]).remove()

    # ---- what is committed

    def _stage(self, at: TableAt, found: TableFiles, groups: Sequence[WrittenGroup]) -> Staged:
        files = _files(at, found, groups)
        sources = tuple(source_of(file, self.committer.data_path) for one in groups for file in one.group)
        exact = None if self.method.keeps_snapshots else self._exact_stats(found, groups)
        compaction = Compaction(self.method.kind, sources, files, exact)
        what = f"{self.method.operation.value} files of {at.table.qualified_name}"
        info = CommitInfo(message=what if at.options.requires_message else None)
        return Staged(at.base, (StagedTable(at.table, at.table, TableWrites(moved=compaction)),), info=info)

    def _exact_stats(self, found: TableFiles, groups: Sequence[WrittenGroup]) -> ExactStats | None:
        """Work out the table's statistics, if no deleted row is left in its files and none of its rows is inlined.

        From what the table has now: files that were committed before, of other groups, are among it.
        """
        at, gone = self.look(), {file.data_file_id for one in groups for file in one.group}
        try:
            basis = self.database.ask(lambda session: read_exact_basis(session, at.table, at.base, gone))
        except CatalogTableMissing:  # a flush has dropped a superseded table of inlined rows meanwhile
            return None
        if basis is None:
            return None
        return exact_stats(basis.stats, at.table.columns, basis.files, _files(at, found, groups))


def _files(at: TableAt, found: TableFiles, groups: Sequence[WrittenGroup]) -> tuple[MovedFile, ...]:
    return tuple(
        with_current_bounds(moved, found.columns_of(one.group[0]), at.table.columns)
        for one in groups
        for moved in one.result.files
    )
