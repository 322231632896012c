"""The committer: the only place that opens a write transaction for a snapshot.

One attempt is one transaction: find the head, decide by ledger and conflicts, plan, write, commit. Losing the snapshot
id to another commit is contention: a new attempt on the new head. Files are written before, never under a lock; only
delete files that name their snapshot are written again, between two transactions, when it became another one.

An attempt whose COMMIT got no answer may have landed, or may land still. A new one looks for it by the ledger or by its
snapshot. If it is not there, both want the same snapshot id, and only one can have it.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from ducklake_core import faults
from ducklake_core.catalog import ledger, queries, reader
from ducklake_core.catalog.commit import Commit, CommitResult, UnconfirmedCommit
from ducklake_core.catalog.database import Database
from ducklake_core.catalog.file_reader import read_some_data_files
from ducklake_core.catalog.head import CommitBasis, LastCommit, assume_head, last_commit_after, read_head
from ducklake_core.catalog.session import Session, Statement
from ducklake_core.catalog.statements import claim_version, share_version, statements_of_all
from ducklake_core.clock import SYSTEM_CLOCK, Clock
from ducklake_core.errors import (
    CatalogError,
    CommitOutcomeUnknown,
    ContentionError,
    DuckLakeError,
    TerminalError,
)
from ducklake_core.model import Epoch, LedgerEntry, Snapshot, SnapshotId, TableId, TableVersion
from ducklake_core.observe import (
    LOG_RECORDER,
    CommitDoubted,
    CommitMade,
    CommitRetried,
    EpochReplayed,
    Event,
    Recorder,
    Resolution,
)
from ducklake_core.plan.commit_plan import CommitPlan, HeadState, MadeCommit, plan_commit
from ducklake_core.plan.compaction import Compaction, source_of
from ducklake_core.plan.epochs import EpochDecision, decide_epoch
from ducklake_core.plan.rebase import (
    Changes,
    Drift,
    NeedsFiles,
    Rebased,
    Refused,
    find_drift,
    is_redefined,
    needs_changes,
    rebase,
)
from ducklake_core.plan.staged import CommitInfo, Staged
from ducklake_core.plan.writes import InsertInlined
from ducklake_core.retries import retry_while_unavailable

# For so many ids an attempt writes delete files, one time after the other, when others take those ids meanwhile. With
# files for several of the next ids it has them when its turn comes. After the last time it waits, as after any
# contention: the patience with the catalog bounds the whole.
_STAGED_IDS = (1, 4, 16)
_ALONE_COMMITS = 8


class Committer:
    """Makes snapshots in one catalog database. It knows its last one, and assumes that no other came since."""

    def __init__(
        self, database: Database, data_path: str, clock: Clock = SYSTEM_CLOCK, recorder: Recorder = LOG_RECORDER
    ) -> None:
        self.database = database
        self.data_path = data_path
        self._clock = clock
        self._recorder = recorder
        self._last: LastCommit | None = None

    @property
    def last_head(self) -> Snapshot | None:
        """The snapshot that our last commit has made; None: another's commit may well have followed on it."""
        last = self._last  # another thread may commit meanwhile
        return last.head if last is not None and last.stats else None

    @property
    def is_alone(self) -> bool:
        """Whether nobody else has committed for some time, so that even what costs much may be based on `last_head`."""
        last = self._last
        return last is not None and last.in_a_row >= _ALONE_COMMITS

    def run(self, commit: Commit) -> CommitResult:
        """Make one snapshot of the changes, or find that their epoch is committed already."""
        database, start = self.database, self._clock.seconds()
        try:
            result = retry_while_unavailable(
                lambda: self._attempt(commit), database.patience, database.url.shown, CommitRetried
            )
        except Exception as error:  # whatever it is, the doubt remains; only what is certain is passed on
            self._tell_doubt(commit, Resolution.UNRESOLVED if commit.in_doubt else Resolution.REPEATED)
            if not commit.in_doubt or _is_certain(error):
                raise
            raise CommitOutcomeUnknown(f"cannot find out whether the snapshot exists: {error}") from error
        self._tell_doubt(commit, Resolution.COMMITTED if commit.was_found else Resolution.REPEATED)
        self._recorder.record(_event_of(commit.staged.epoch, result, self._clock.seconds() - start))
        return result

    def _tell_doubt(self, commit: Commit, resolution: Resolution) -> None:
        """Say what was found out about a COMMIT that got no answer, if there was one."""
        if commit.lost_answers:
            self._recorder.record(CommitDoubted(resolution, commit.attempts))

    def _attempt(self, commit: Commit) -> CommitResult:
        """Try once; where files must name another snapshot than they do, write those and look at the head again."""
        commit.attempts += 1
        for count in (*_STAGED_IDS, 0):
            outcome = self._in_transaction(commit)
            if isinstance(outcome, CommitResult):
                commit.result = outcome if commit.attempts == 1 else replace(outcome, attempts=commit.attempts)
                return commit.result
            if count:
                commit.stage(outcome.snapshot_id, count)
        raise ContentionError(
            f"others committed to catalog '{self.database.url.shown}' whenever delete files had been written for the "
            "next snapshot; retries are exhausted"
        )

    def _in_transaction(self, commit: Commit, *, assumes: bool = True) -> CommitResult | NeedsFiles:
        try:
            with self.database.write() as session:
                return self._commit_once(session, commit, assumes=assumes)
        except DuckLakeError as error:
            if assumes and self.database.dialect.is_stale_assumption(error):
                return self._in_transaction(commit, assumes=False)
            raise

    def _commit_once(self, session: Session, commit: Commit, *, assumes: bool) -> CommitResult | NeedsFiles:
        last, self._last = self._last, None  # whatever fails from here on leaves nothing to assume
        assumed = assume_head(session, commit.staged, last) if assumes else None
        basis = assumed or read_head(session, commit.staged, last)
        faults.at("after_head_read")
        known = _find_committed(session, commit, basis)
        if known is not None:
            return known
        rebased = self._rebase(session, commit, basis.head)
        if isinstance(rebased, NeedsFiles) and commit.take_ready(rebased.snapshot_id):
            rebased = Rebased(commit.staged)
        match rebased:
            case NeedsFiles() as needed:
                return needed
            case Refused() as refused:
                raise refused.to_error()
            case Rebased(staged):
                return self._make_snapshot(session, commit, staged, basis, last)

    def _rebase(self, session: Session, commit: Commit, head: HeadState) -> Rebased | NeedsFiles | Refused:
        """Ask for what others did, as far as it matters, and let the changes follow on it."""
        staged = commit.staged
        drift = find_drift(staged, head)
        redefined = self._redefined_tables(session, staged, head) if drift is Drift.DEFINITIONS else {}
        others = _changes_since(session, staged) if needs_changes(staged, drift, redefined) else None
        found = rebase(staged, head, redefined, others)
        if not isinstance(found, Refused):
            return found
        with_sources = self._tables_with_sources(session, staged, head)
        apart = frozenset() if commit.find_apart is None else commit.find_apart(session, head.snapshot.snapshot_id)
        return rebase(staged, head, redefined, others, with_sources, apart)

    def _tables_with_sources(self, session: Session, staged: Staged, head: HeadState) -> frozenset[int]:
        """Return the tables that are compacted and whose sources the head has as they were; few files are read."""
        return frozenset(
            table.newest.table_id
            for table in staged.tables
            if isinstance(table.writes.moved, Compaction)
            and self._has_sources(session, table.newest, table.writes.moved, head.snapshot.snapshot_id)
        )

    def _has_sources(self, session: Session, table: TableVersion, compaction: Compaction, snapshot: SnapshotId) -> bool:
        ids = [source.data_file_id for source in compaction.sources]
        files = read_some_data_files(session, table, snapshot, ids)
        return {source_of(file, self.data_path) for file in files} == set(compaction.sources)

    def _redefined_tables(
        self, session: Session, staged: Staged, head: HeadState
    ) -> dict[TableId, TableVersion | None]:
        redefined = {}
        for before in (t.before for t in staged.tables if t.before is not None):
            now = reader.find_table_by_id(session, before.table_id, head.snapshot.snapshot_id, self.data_path)
            if is_redefined(before, now):
                redefined[before.table_id] = now
        return redefined

    def _make_snapshot(
        self, session: Session, commit: Commit, staged: Staged, basis: CommitBasis, last: LastCommit | None
    ) -> CommitResult:
        head = basis.head.snapshot
        now = max(self._clock.now(), head.snapshot_time)
        plan = None if staged.is_empty else plan_commit(staged, basis.head, now)
        entry = None if staged.epoch is None else _ledger_entry(staged.epoch, staged, plan, now)
        snapshot = None if plan is None else plan.snapshot
        made = None if plan is None else MadeCommit(head, staged, plan)
        self._write(session, commit, basis, made, UnconfirmedCommit(snapshot, entry, now > head.snapshot_time))
        self._last = last_commit_after(plan, basis, last, staged, entry)
        commit.made = made
        return CommitResult(snapshot, base_is_gone=basis.head.base is None)

    def _write(
        self,
        session: Session,
        commit: Commit,
        basis: CommitBasis,
        made: MadeCommit | None,
        attempt: UnconfirmedCommit,
    ) -> None:
        """Send the plan and the ledger's entry, and COMMIT.

        Inlined rows come after what ends others, and statistics after them: meanwhile the database is busy with those.
        """
        plan = None if made is None else made.plan
        rest = None if plan is None else _send_bulk_rows(session, plan)
        rows, second_half = (rest.rows, rest.closing) if rest else ((), list)
        inlined = [write for write in rows if isinstance(write, InsertInlined)]
        closing = [] if attempt.entry is None else [ledger.entry_write(session, attempt.entry, exists=basis.has_entry)]
        closing += [] if plan is None else _version_locks(session, plan, by_copy=rest is not plan)
        faults.at("before_commit")
        with commit.sending(attempt):
            session.write_and_commit(
                statements_of_all(session, [write for write in rows if not isinstance(write, InsertInlined)]),
                [
                    lambda: statements_of_all(session, inlined),
                    lambda: [*statements_of_all(session, second_half()), *closing],
                ],
                basis.guard,
                while_waiting=lambda: None if made is None else commit.foresee(made),
            )
        faults.at("after_commit")


def _send_bulk_rows(session: Session, plan: CommitPlan) -> CommitPlan | None:
    """Send the rows that go by COPY and return the rest of the plan; None: all of it had to go before them.

    They are many: the snapshot's row, for which every other commit to the lake would wait, follows them. What they lock
    meanwhile is their own table against being dropped, and of the newest columns none ever is. The price: who loses its
    id to another has sent them in vain. Few rows travel behind the snapshot's row instead.
    """
    store, inlined = session.dialect.inlined, (w for w in plan.rows if isinstance(w, InsertInlined))
    bulk = [w for w in inlined if not store.takes_by_statement(session, len(w.row_ids))]
    if not bulk:
        return plan
    rest = replace(plan, rows=tuple(w for w in plan.rows if w not in bulk))
    is_into_new_table = any(w.name in plan.created_inlined_tables for w in bulk)
    if is_into_new_table:
        session.run(statements_of_all(session, [*rest.rows, *rest.closing()]))
    for rows in bulk:
        store.insert(session, rows)
    return None if is_into_new_table else rest


def _version_locks(session: Session, plan: CommitPlan, *, by_copy: bool) -> list[Statement]:
    """Return what keeps a commit and a migration of the lake apart where they can run at the same time.

    A migration renames columns of every table of inlined rows: whoever writes to one waits for it there, and is
    refused, but for COPY, which names no columns. Whoever makes one would leave it with its old names, and the others
    would not notice the migration.
    """
    if not session.dialect.concurrent_writers:
        return []
    if plan.created_inlined_tables:
        return [claim_version(session)]
    names_columns = plan.writes_to_inlined_tables and not by_copy
    return [] if names_columns else [share_version(session)]


def _find_committed(session: Session, commit: Commit, basis: CommitBasis) -> CommitResult | None:
    """Return what became of the commit if that is decided: by an earlier attempt, or by another run of its epoch."""
    epoch = commit.staged.epoch
    if epoch is None:
        return _find_landed(session, commit, basis.head.snapshot)
    if decide_epoch(epoch, basis.entry) is EpochDecision.COMMIT:
        return None
    mine = commit.find_by_entry(basis.entry)
    if mine is not None:
        commit.was_found = True
        return CommitResult(mine.snapshot)  # a COMMIT whose reply was lost has landed
    return CommitResult(None, replayed=True)


def _find_landed(session: Session, commit: Commit, head: Snapshot) -> CommitResult | None:
    """Return the snapshot of an attempt whose COMMIT has landed; None when another has its id, or no one so far."""
    if not commit.unconfirmed:
        return None
    for attempt in commit.unconfirmed:
        if attempt.snapshot is None or not attempt.is_until(head):
            continue
        snapshot_id = attempt.snapshot.snapshot_id
        rows = queries.snapshot_and_changes(session.tables).ask(session, snapshot=snapshot_id)
        if rows and reader.told_snapshot_of(rows[0]) != _as_stored(attempt.snapshot, commit.staged.info):
            continue
        if not rows or not attempt.has_own_time:
            reason = "looks like ours, but may be another's" if rows else "has expired, if it was there"
            raise CommitOutcomeUnknown(f"the connection was lost at COMMIT, and snapshot {snapshot_id} {reason}")
        commit.was_found = True
        return CommitResult(attempt.snapshot)
    commit.forget_beaten(head)
    return None


def _as_stored(snapshot: Snapshot, info: CommitInfo) -> Snapshot:
    return replace(snapshot, author=info.author, message=info.message, extra_info=info.extra_info)


def _changes_since(session: Session, staged: Staged) -> list[Changes]:
    rows = queries.changes_since(session.tables).ask(session, base=staged.base.snapshot_id)
    return [(row.snapshot_id, row.changes_made) for row in rows]


def _ledger_entry(epoch: Epoch, staged: Staged, plan: CommitPlan | None, now: datetime) -> LedgerEntry:
    rows = sum(r.rows.num_rows for t in staged.tables for r in t.writes.inlined)
    rows += sum(f.record_count for t in staged.tables for f in t.writes.files)
    snapshot_id = plan.snapshot.snapshot_id if plan else None
    return LedgerEntry(epoch.stream, epoch.query_id, epoch.run_id, epoch.batch_id, snapshot_id, rows, now)


def _event_of(epoch: Epoch | None, result: CommitResult, seconds: float) -> Event:
    if result.replayed and epoch is not None:
        return EpochReplayed(epoch.stream, epoch.batch_id)
    return CommitMade(None if result.snapshot is None else result.snapshot.snapshot_id, result.attempts, seconds)


def _is_certain(error: Exception) -> bool:
    """Tell whether an error settles what became of a COMMIT; what the database refuses us afterwards does not."""
    return isinstance(error, (TerminalError, CommitOutcomeUnknown)) and not isinstance(error, CatalogError)
