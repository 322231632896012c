"""The lake's transaction of one batch: filled with its parts, and filled anew after a conflict. Runs on the driver."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack

from ducklake_core import CommitResult, Transaction
from ducklake_core.errors import CommitConflict
from ducklake_sinks.epoch import EpochStart
from ducklake_sinks.events import BatchRebuilt
from ducklake_sinks.modes.mode import Mode, OnConflict
from ducklake_sinks.part import Part
from ducklake_sinks.runtime import SinkRuntime
from ducklake_sinks.table_setup import TableSetup

MAX_REBUILDS = 4


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
        self.core = self.core or self._runtime.begin_transaction(self._started)
        return self.core

    def discard(self) -> None:
        """End the transaction, if there is one; files of parts are not its own."""
        if self.core is not None:
            self.core.discard()

    def run(self, parts: Sequence[Part]) -> CommitResult:
        """Commit; where another writer has changed a table meanwhile, stage everything anew, a few times at most."""
        has_files = any(part.files for part in parts)
        if self.core is not None and has_files:
            self._fill(self.core, parts)
            core = self.core
        else:
            core = self.core = self._build(parts)
        for _ in range(MAX_REBUILDS):
            places = _places_of_files(core, parts)
            try:
                return core.commit()
            except CommitConflict as error:
                # Files that a snapshot may have must not get into another.
                if self._mode.on_conflict(error) is OnConflict.GIVE_UP or (has_files and core.in_doubt):
                    raise
                core = self._rebuild_after(error, parts)
                if _places_of_files(core, parts) != places:
                    core.discard()
                    raise
                self.core = core
        return core.commit()

    def _rebuild_after(self, error: CommitConflict, parts: Sequence[Part]) -> Transaction:
        self._runtime.definitions.expire()
        self._runtime.recorder.record(BatchRebuilt(self._started.names, error))
        return self._build(parts)

    def _build(self, parts: Sequence[Part]) -> Transaction:
        self._setup.created.clear()  # by a transaction that will not be committed
        core = self._runtime.begin_transaction(self._started)
        with ExitStack() as stack:
            stack.callback(core.discard)  # of files that it has written, whatever comes between
            self._fill(core, parts)
            stack.pop_all()
        return core

    def _fill(self, core: Transaction, parts: Sequence[Part]) -> None:
        self._mode.prepare(core, parts)
        for part in parts:
            self._mode.stage(core, part)
        self._mode.finish(core)


def _places_of_files(core: Transaction, parts: Sequence[Part]) -> list[tuple[object, ...]]:
    """Return what files that are written rest on, of the tables that they are for."""
    layouts = [core.file_layout(part.table) for part in parts if part.files]
    return [(layout.directory, layout.columns, layout.partitioning) for layout in layouts]
