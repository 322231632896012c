"""The lake's transaction of one batch: filled with its parts, and filled anew after a conflict. Runs on the driver."""

from __future__ import annotations

from collections.abc import Sequence

from ducklake_core import CommitResult, Transaction
from ducklake_core.errors import CommitConflict
from ducklake_core.files.parquet_writer import FileLayout
from ducklake_sinks.epoch import EpochStart
from ducklake_sinks.events import BatchRebuilt
from ducklake_sinks.modes.mode import Mode, OnConflict
from ducklake_sinks.part import Part, target_of
from ducklake_sinks.runtime import SinkRuntime
from ducklake_sinks.table_setup import TableSetup
from ducklake_sinks.task_writer import Target

MAX_REBUILDS = 4
MAX_REBUILDS_OF_CHANGES = 20  # each commit to their table is in their way, and what was read of it is not read again


class BatchCommit:
    """Commits the parts of a batch, by a mode.

    Files are made for tables as one transaction has them, so that one is committed; rows alone get a new one.
    """

    def __init__(self, runtime: SinkRuntime, start: EpochStart, mode: Mode, setup: TableSetup) -> None:
        self._runtime = runtime
        self._started = start
        self._mode = mode
        self._setup = setup
        self.core: Transaction | None = None

    @property
    def in_doubt(self) -> bool:
        """Tell whether the snapshot may exist although nobody knows: then its files must stay."""
        return self.core is not None and self.core.in_doubt

    def open(self) -> Transaction:
        """Return the transaction, before there are parts: executors must know its tables before they write."""
        return self.core or self._begin(fresh=self._mode.looks_for_rows)

    def discard(self) -> None:
        """End the transaction, if there is one; files of parts are not its own."""
        if self.core is not None:
            self.core.discard()

    def run(self, parts: Sequence[Part]) -> CommitResult:
        """Commit; where another writer has changed a table meanwhile, stage everything anew, a few times at most."""
        looks = self._mode.looks_for_rows
        core = self.open() if _has_files(parts) else self._begin(fresh=looks)
        moved = self._fill(core, parts)
        for _ in range(MAX_REBUILDS_OF_CHANGES if looks else MAX_REBUILDS):
            targets = [target_of(core, part.table) for part in parts if part.files]
            _refuse_other_places(core, parts)
            try:
                return _commit(core, moved)
            except CommitConflict as error:
                # Files that a snapshot may have must not get into another.
                if self._mode.on_conflict(error) is OnConflict.GIVE_UP or (_has_files(parts) and core.in_doubt):
                    raise
                core = self._begin_after(error)
                moved = self._fill(core, parts)
                if not all(_is_still(core, target) for target in targets):
                    raise
        return _commit(core, moved)

    def _begin_after(self, error: CommitConflict) -> Transaction:
        self.discard()
        self._runtime.definitions.expire()
        self._runtime.recorder.record(BatchRebuilt(self._started.names, error))
        return self._begin()

    def _begin(self, *, fresh: bool = False) -> Transaction:
        self._setup.created.clear()  # by a transaction that will not be committed
        self.core = self._runtime.begin_transaction(self._started, fresh=fresh)
        return self.core

    def _fill(self, core: Transaction, parts: Sequence[Part]) -> CommitConflict | None:
        """Stage all parts; return the conflict if another has moved rows that were to be ended. Others are raised."""
        try:
            self._mode.prepare(core, parts)
            for part in parts:
                self._mode.stage(core, part)
            self._mode.finish(core)
        except CommitConflict as error:
            if not error.rows_moved:
                raise
            return error
        return None


def _commit(core: Transaction, moved: CommitConflict | None) -> CommitResult:
    if moved is not None:
        raise moved
    return core.commit()


def _has_files(parts: Sequence[Part]) -> bool:
    return any(part.files for part in parts)


def _refuse_other_places(core: Transaction, parts: Sequence[Part]) -> None:
    """Raise CommitConflict where another process had files written for a table that is another one by now."""
    for part in parts:
        made_for = part.made_for
        if part.files and made_for is not None and not _is_still(core, made_for):
            raise CommitConflict(
                f"table '{part.table}' was created, altered or dropped by another while its rows were written: write "
                "them again",
                table=part.table,
            )


def _is_still(core: Transaction, made_for: Target) -> bool:
    """Tell whether a table is the one that files were made for; one that was to be created may be another's by now."""
    now = target_of(core, made_for.name)
    return made_for.table_uuid in (None, now.table_uuid) and _place(now.layout) == _place(made_for.layout)


def _place(layout: FileLayout) -> tuple[object, ...]:
    return layout.directory, layout.columns, layout.partitioning
