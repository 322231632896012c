"""The committer: the only place that opens a write transaction for a snapshot.

One attempt is one transaction: read the head, decide by ledger and conflicts, plan, write, commit. Losing the snapshot
id to another commit is contention: a new attempt on the new head. Files are written before, never under a lock; only
delete files that name their snapshot are written again, when it became another one.

An attempt whose COMMIT got no answer may have landed, or may land still. A new one looks for it by the ledger or by its
snapshot. If it is not there, both want the same snapshot id, and only one can have it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Protocol

from tenacity import Retrying

from ducklake_core import faults
from ducklake_core.catalog import ledger, queries, reader
from ducklake_core.catalog.database import Database
from ducklake_core.catalog.driver_errors import is_stale_assumption
from ducklake_core.catalog.head import LastCommit, assume_head, last_commit_after, read_head
from ducklake_core.catalog.inlined_insert import insert_rows, is_bulk
from ducklake_core.catalog.session import Session, Statement
from ducklake_core.catalog.statements import claim_version, statements_of_all
from ducklake_core.errors import (
    CatalogError,
    CatalogUnavailable,
    CommitConflict,
    CommitOutcomeUnknown,
    ContentionError,
    DuckLakeError,
    TerminalError,
    TransientError,
)
from ducklake_core.log_lines import log_event
from ducklake_core.model import Epoch, LedgerEntry, Snapshot, SnapshotId, TableId, TableVersion
from ducklake_core.plan.commit import HeadState, changes_of, plan_commit
from ducklake_core.plan.conflicts import find_conflict, mark_renames
from ducklake_core.plan.epochs import EpochDecision, decide_epoch
from ducklake_core.plan.staged import CommitInfo, Staged, StagedTable
from ducklake_core.plan.writes import CommitPlan, CreateInlinedTable, InsertInlined
from ducklake_core.retries import Outage
from ducklake_core.spec.changes import parse_changes

log = logging.getLogger(__name__)

_MOST_FINISHES = 3  # then it waits, as after any contention


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


@dataclass(frozen=True, slots=True)
class NeedsFiles:
    """An attempt found another head: delete files must be written for this id, when the write lock is released."""

    snapshot_id: SnapshotId


class Pending(Protocol):
    """A transaction that is ready: its changes, with the delete files that name their snapshot finished for its id."""

    in_doubt: bool  # a COMMIT was sent and nobody knows whether it has landed: the files must stay

    def finish(self, snapshot_id: SnapshotId) -> Staged: ...


class Committer:
    """Commits staged changes to one catalog database."""

    def __init__(
        self,
        database: Database,
        data_path: str,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        retries: Retrying | None = None,
    ) -> None:
        self.database = database
        self.data_path = data_path
        self._clock = clock
        self._retries = retries
        self._last: LastCommit | None = None

    def commit(self, staged: Staged, pending: Pending) -> CommitResult:
        """Make one snapshot of the staged changes, or find that their epoch is committed already."""
        attempted: list[UnconfirmedCommit] = []
        outage = Outage(self.database.url.shown, self.database.patience)
        try:
            return self._attempt(staged, pending, attempted)
        except TransientError as error:
            return self._retry(error, outage, staged, pending, attempted)

    def _retry(
        self,
        first: TransientError,
        outage: Outage,
        staged: Staged,
        pending: Pending,
        attempted: list[UnconfirmedCommit],
    ) -> CommitResult:
        """Try again as the policy says; its first attempt has been made, and failed."""
        retries = outage.policy() if self._retries is None else self._retries.copy(before_sleep=outage.tell)
        try:
            for attempt in retries:
                with attempt:
                    number = attempt.retry_state.attempt_number
                    if number == 1:
                        raise first  # noqa: TRY301 # for the policy to see
                    result = replace(self._attempt(staged, pending, attempted), attempts=number)
                    outage.end()
                    return result
        except Exception as error:  # whatever it is, the doubt remains; only what is certain is passed on
            if not pending.in_doubt or _is_certain(error):
                raise
            raise CommitOutcomeUnknown(f"cannot find out whether the snapshot exists: {error}") from error
        raise AssertionError("unreachable")  # the policy re-raises

    def _attempt(self, staged: Staged, pending: Pending, attempted: list[UnconfirmedCommit]) -> CommitResult:
        """Try once; where files must name another snapshot than they do, write those and look at the head again."""
        for _ in range(_MOST_FINISHES):
            result = self._in_transaction(staged, pending, attempted)
            if isinstance(result, CommitResult):
                return result
            staged = pending.finish(result.snapshot_id)
        raise ContentionError(
            f"others committed to catalog '{self.database.url.shown}' whenever delete files had been written for the "
            "next snapshot; retries are exhausted"
        )

    def _in_transaction(
        self, staged: Staged, pending: Pending, attempted: list[UnconfirmedCommit], *, assumes: bool = True
    ) -> CommitResult | NeedsFiles:
        try:
            with self.database.write() as session:
                return self._commit_once(session, staged, pending, attempted, assumes=assumes)
        except DuckLakeError as error:
            if assumes and is_stale_assumption(error):
                return self._in_transaction(staged, pending, attempted, assumes=False)
            raise

    def _commit_once(
        self, session: Session, staged: Staged, pending: Pending, attempted: list[UnconfirmedCommit], *, assumes: bool
    ) -> CommitResult | NeedsFiles:
        last, self._last = self._last, None
        assumed = assume_head(session, staged, last) if assumes else None
        basis = assumed or read_head(session, staged, last)
        head, entry = basis.state, basis.entry
        faults.at("after_head_read")
        if staged.epoch is not None and decide_epoch(staged.epoch, entry) is EpochDecision.REPLAY:
            mine = next((a for a in attempted if a.entry == entry), None)
            if mine is not None:
                return CommitResult(mine.snapshot)  # a COMMIT whose reply was lost has landed
            log_event(log, logging.INFO, "epoch_replayed", stream=staged.epoch.stream, batch=staged.epoch.batch_id)
            return CommitResult(None, replayed=True)
        if staged.epoch is None:
            own = _find_own(session, staged.info, head.snapshot, attempted)
            if own is not None:
                return CommitResult(own)
            if attempted and all(a.is_until(head.snapshot) for a in attempted):
                attempted.clear()  # others have their ids: none of them can land any more
                pending.in_doubt = False
        staged = self._rebase(session, staged, head)
        next_id = SnapshotId(head.snapshot.snapshot_id + 1)
        if not staged.fits(next_id):
            return NeedsFiles(next_id)
        now = max(self._clock(), head.snapshot.snapshot_time)
        plan = None if staged.is_empty else plan_commit(staged, head, now)
        written = None if staged.epoch is None else _ledger_entry(staged.epoch, staged, plan, now)
        closing = [] if written is None else [ledger.entry_write(session, written, exists=entry is not None)]
        try:
            _write(session, plan, pending, basis.guard, closing)
        except CommitOutcomeUnknown as error:
            snapshot = None if plan is None else plan.snapshot
            attempted.append(UnconfirmedCommit(snapshot, written, now > head.snapshot.snapshot_time))
            raise CatalogUnavailable(str(error)) from error  # a new attempt looks for it
        self._last = last_commit_after(plan, basis, last, staged, written)
        return CommitResult(plan.snapshot if plan else None, base_is_gone=head.base is None)

    def _rebase(self, session: Session, staged: Staged, state: HeadState) -> Staged:
        """Return the changes as they follow on the head; refuse when what happened since their base forbids it."""
        head = state.snapshot
        if head.snapshot_id < staged.base.snapshot_id or state.base not in (None, staged.base):
            raise CommitConflict(
                f"cannot commit on snapshot {staged.base.snapshot_id}: it is not the one that was read, the lake is at "
                f"{head.snapshot_id}, so its catalog was restored from a backup; begin again from what is there",
                snapshot_id=head.snapshot_id,
                base=staged.base.snapshot_id,
            )
        if head.snapshot_id == staged.base.snapshot_id:
            return staged
        same_definitions = state.base is not None and head.schema_version == staged.base.schema_version
        if same_definitions and staged.is_append_only:
            return staged
        redefined = {} if same_definitions else self._redefined_tables(session, staged, head)
        if staged.is_append_only and all(_takes_same_rows(t.before, redefined) for t in staged.tables):
            # Whatever else changed does not touch new rows, but they go where rows go now.
            return replace(staged, tables=tuple(_at_newest(t, redefined) for t in staged.tables))
        rows = session.query(queries.changes_since(session.tables), base=staged.base.snapshot_id)
        if len(rows) != head.snapshot_id - staged.base.snapshot_id:
            raise CommitConflict(
                f"cannot commit on snapshot {staged.base.snapshot_id}: snapshots since then have expired, so nobody "
                "knows what they changed; begin again from what is there",
                snapshot_id=head.snapshot_id,
                base=staged.base.snapshot_id,
            )
        renamed: dict[tuple[str | None, str | None], int] = {
            (t.schema_name, t.name): i for i, t in redefined.items() if t is not None
        }
        others = [(SnapshotId(r[0]), mark_renames(parse_changes(r[1]), renamed)) for r in rows]
        checked = frozenset(t.newest.table_id for t in staged.tables if t.was_checked_against_rows)
        conflict = find_conflict(changes_of(staged), others, _names(staged), checked)
        if conflict is not None:
            raise CommitConflict(
                f"cannot commit on snapshot {staged.base.snapshot_id}: {conflict.describe()}",
                snapshot_id=conflict.snapshot_id,
                base=staged.base.snapshot_id,
                is_flush=conflict.is_flush,
            )
        if redefined:
            name = _names(staged)[next(iter(redefined))]
            raise CommitConflict(
                f"cannot commit on snapshot {staged.base.snapshot_id}: table '{name}' has another definition now",
                snapshot_id=head.snapshot_id,
                base=staged.base.snapshot_id,
            )
        return staged

    def _redefined_tables(self, session: Session, staged: Staged, head: Snapshot) -> dict[TableId, TableVersion | None]:
        """Return the touched tables whose definition is another one now; None for a dropped one."""
        redefined = {}
        for before in (t.before for t in staged.tables):
            if before is None:
                continue
            now = reader.find_table_by_id(session, before.table_id, head.snapshot_id, self.data_path)
            if now is None or _definition(now) != _definition(before):
                redefined[before.table_id] = now
        return redefined


def _ledger_entry(epoch: Epoch, staged: Staged, plan: CommitPlan | None, now: datetime) -> LedgerEntry:
    rows = sum(r.rows.num_rows for t in staged.tables for r in t.writes.inlined)
    rows += sum(f.record_count for t in staged.tables for f in t.writes.files)
    snapshot_id = plan.snapshot.snapshot_id if plan else None
    return LedgerEntry(epoch.stream, epoch.query_id, epoch.run_id, epoch.batch_id, snapshot_id, rows, now)


def _find_own(
    session: Session, info: CommitInfo, head: Snapshot, attempted: Sequence[UnconfirmedCommit]
) -> Snapshot | None:
    """Return the snapshot of an attempt whose COMMIT has landed; None when another has its id, or no one so far."""
    for one in attempted:
        if one.snapshot is None or not one.is_until(head):
            continue
        snapshot_id = one.snapshot.snapshot_id
        rows = session.query(queries.snapshot_and_changes(session.tables), snapshot=snapshot_id)
        own = replace(one.snapshot, author=info.author, message=info.message, extra_info=info.extra_info)
        if rows and reader.snapshot_of(rows[0]) != own:
            continue
        if not rows or not one.has_own_time:
            reason = "looks like ours, but may be another's" if rows else "has expired, if it was there"
            raise CommitOutcomeUnknown(f"the connection was lost at COMMIT, and snapshot {snapshot_id} {reason}")
        return one.snapshot
    return None


def _write(
    session: Session,
    plan: CommitPlan | None,
    pending: Pending,
    guard: Statement | None,
    closing: Sequence[Statement],
) -> None:
    writes = plan.writes if plan else ()
    created = {w.name for w in writes if isinstance(w, CreateInlinedTable)}
    bulk = [w for w in writes if isinstance(w, InsertInlined) and is_bulk(session, w)]
    others = [w for w in writes if w not in bulk]
    if any(w.name in created for w in bulk):
        session.run(statements_of_all(session, others))
        others = []
    # Rows that go by COPY are many: the snapshot's row, for which every other commit to the lake would wait, follows
    # them. What they lock meanwhile is their own table against being dropped, and of the newest columns none ever is.
    # The price: who loses its id to another has sent them in vain. Few rows travel behind the snapshot's row instead.
    for rows in bulk:
        insert_rows(session, rows)
    claims = [claim_version(session)] if created and session.dialect.has_pipeline else []
    # While the server inserts the rows, which takes it longest, the rest is worked out.
    count = 1 + max((i for i, w in enumerate(others) if isinstance(w, InsertInlined)), default=len(others) - 1)
    first, rest = others[:count], others[count:]
    faults.at("before_commit")
    was_in_doubt, pending.in_doubt = pending.in_doubt, True
    try:
        session.write_and_commit(
            statements_of_all(session, first), lambda: [*statements_of_all(session, rest), *closing, *claims], guard
        )
    except CommitOutcomeUnknown:
        raise
    except Exception:  # the database refused; an interrupt is no Exception and leaves the doubt
        pending.in_doubt = was_in_doubt
        raise
    faults.at("after_commit")


def _is_certain(error: Exception) -> bool:
    """Tell whether an error settles what became of a COMMIT; what the database refuses us afterwards does not."""
    return isinstance(error, (TerminalError, CommitOutcomeUnknown)) and not isinstance(error, CatalogError)


def _definition(table: TableVersion) -> TableVersion:
    """Return what an append rests on: comments and sort order may change beneath it, older inlined tables vanish."""
    newest = table.newest_inlined_table
    columns = tuple(replace(c, comment=None) for c in table.columns)
    return replace(
        table, comment=None, sort_order=None, columns=columns, inlined_tables=() if newest is None else (newest,)
    )


def _takes_same_rows(before: TableVersion | None, redefined: Mapping[TableId, TableVersion | None]) -> bool:
    """Tell whether a table has the columns it had; its rows may be inlined elsewhere since another's first insert."""
    if before is None or before.table_id not in redefined:
        return True
    now = redefined[before.table_id]
    return now is not None and replace(_definition(now), inlined_tables=()) == replace(
        _definition(before), inlined_tables=()
    )


def _at_newest(table: StagedTable, redefined: Mapping[TableId, TableVersion | None]) -> StagedTable:
    now = None if table.before is None else redefined.get(table.before.table_id)
    return table if now is None else replace(table, before=now, after=now)


def _names(staged: Staged) -> Mapping[int, str]:
    names: dict[int, str] = {s.schema_id: s.name for s in staged.dropped_schemas}
    for table in staged.tables:
        names[table.newest.table_id] = table.newest.qualified_name
        names[table.newest.schema_id] = table.newest.schema_name
    return names
