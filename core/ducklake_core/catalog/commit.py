"""A commit while it is made: its changes, and what is known of its attempts. No I/O; runs on the driver.

Whoever wants a snapshot makes a `Commit` and gives it to the committer. What became of it stands here afterwards, so
that files which no snapshot names can be removed, and those which one may name are left alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from ducklake_core.catalog.session import Session
from ducklake_core.errors import CatalogUnavailable, CommitOutcomeUnknown
from ducklake_core.model import LedgerEntry, Snapshot, SnapshotId
from ducklake_core.plan.commit_plan import MadeCommit
from ducklake_core.plan.staged import Staged


@dataclass(frozen=True, slots=True)
class CommitResult:
    """What became of a commit. `snapshot` None: nothing to write, or a replay.

    `base_is_gone`: the snapshot that it was made from has expired, so what is remembered of it cannot be checked again.
    """

    snapshot: Snapshot | None
    replayed: bool = False
    attempts: int = 1
    base_is_gone: bool = False


@dataclass(frozen=True, slots=True)
class UnconfirmedCommit:
    """What a COMMIT that got no answer was to leave: a snapshot, the ledger's entry of an epoch, or both.

    `has_own_time`: the snapshot is later than the one before, so that no one else's is the same, two clocks that agree
    to the microsecond aside.
    """

    snapshot: Snapshot | None
    entry: LedgerEntry | None
    has_own_time: bool

    def is_until(self, head: Snapshot) -> bool:
        """Tell whether its snapshot id is taken by now, by itself or by another."""
        return self.snapshot is not None and self.snapshot.snapshot_id <= head.snapshot_id


@dataclass(slots=True)
class Commit:
    """One commit, from its first attempt to its result.

    `stage_for` writes the delete files that name their snapshot for the id that it is given, and returns the changes
    with them; None: no file of these changes names one. `find_apart` returns the tables whose rows the changes rest on
    and whose new rows since the base, up to a snapshot, are of no concern to them; None: there are none such.
    `foresee` is told what is on its way to the database while its answer is waited for; it does not fail.
    `in_doubt`: a COMMIT was sent, and it is not certain that it has failed. `lost_answers`: how many got none;
    `was_found`: one of those has made the snapshot. `ready`: the changes with files that name their snapshot, by its
    id. `made`: what was committed, where an answer told so.
    """

    staged: Staged
    stage_for: Callable[[SnapshotId], Staged] | None = None
    find_apart: Callable[[Session, SnapshotId], frozenset[int]] | None = None
    foresee: Callable[[MadeCommit], None] = lambda _: None
    attempts: int = 0
    in_doubt: bool = False
    unconfirmed: list[UnconfirmedCommit] = field(default_factory=list)
    result: CommitResult | None = None
    lost_answers: int = 0
    was_found: bool = False
    ready: dict[SnapshotId, Staged] = field(default_factory=dict)
    made: MadeCommit | None = None

    @property
    def is_void(self) -> bool:
        """Tell whether no snapshot has its files, nor may have: it has failed, or its epoch was committed before."""
        return not self.in_doubt and (self.result is None or self.result.replayed)

    def stage(self, snapshot_id: SnapshotId, count: int = 1) -> None:
        """Make its files those of a snapshot id, and of the next ones, so many; while no transaction is open."""
        if self.stage_for is None:
            return
        for next_id in range(snapshot_id, snapshot_id + count):
            self.ready[SnapshotId(next_id)] = self.stage_for(SnapshotId(next_id))
        self.staged = self.ready[snapshot_id]

    def take_ready(self, snapshot_id: SnapshotId) -> bool:
        """Make its files those of a snapshot id if they have been written; tell whether they have."""
        if snapshot_id not in self.ready:
            return False
        self.staged = self.ready[snapshot_id]
        return True

    @contextmanager
    def sending(self, attempt: UnconfirmedCommit) -> Iterator[None]:
        """Send a COMMIT in this block. Whatever interrupts it leaves a doubt, but for an error of the database.

        Raises CatalogUnavailable for a COMMIT that gets no answer: a new attempt looks for it.
        """
        was_in_doubt, self.in_doubt = self.in_doubt, True
        try:
            yield
        except CommitOutcomeUnknown as error:
            self.unconfirmed.append(attempt)
            self.lost_answers += 1
            raise CatalogUnavailable(str(error)) from error
        except Exception:  # the database refused; an interrupt is no Exception and leaves the doubt
            self.in_doubt = was_in_doubt
            raise

    def find_by_entry(self, entry: LedgerEntry | None) -> UnconfirmedCommit | None:
        """Return the attempt that has left this entry in the ledger; None: it is another's."""
        return next((attempt for attempt in self.unconfirmed if attempt.entry == entry), None)

    def forget_beaten(self, head: Snapshot) -> None:
        """End the doubt when the head shows that others have the ids of all attempts: none can land any more."""
        if self.unconfirmed and all(attempt.is_until(head) for attempt in self.unconfirmed):
            self.unconfirmed.clear()
            self.in_doubt = False
