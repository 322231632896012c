"""Finds what a commit is planned on: the head, the statistics of its tables, the ledger's entry.

Read in one round trip; while the database looks them up, the rows are measured and encoded, which do not depend on it.
Or assumed: whoever was the last to commit knows all of it, and lets the database check that with the commit itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from ducklake_core.catalog import ledger, queries, reader
from ducklake_core.catalog.session import Row, Session, Statement
from ducklake_core.model import LedgerEntry, Snapshot, TableId, TableStats
from ducklake_core.plan.commit_plan import CommitPlan, HeadState
from ducklake_core.plan.epochs import is_next
from ducklake_core.plan.staged import Staged

_MAX_TABLES = 256  # whose statistics are remembered


@dataclass(frozen=True, slots=True)
class LastCommit:
    """What our last commit left behind: it is there as long as the head is that commit's snapshot.

    Whatever writes statistics makes a snapshot, and its row, with its time, is no one else's. `entry`: what it wrote
    into the ledger, if it was an epoch. `in_a_row`: how many of ours came before it, since another's.
    """

    head: Snapshot
    stats: Mapping[TableId, TableStats] = field(default_factory=dict)
    entry: LedgerEntry | None = None
    in_a_row: int = 0


@dataclass(frozen=True, slots=True)
class CommitBasis:
    """What a commit is planned on. `guard`: the statement that fails where that was assumed wrongly; None: read."""

    head: HeadState
    entry: LedgerEntry | None
    guard: Statement | None = None

    @property
    def has_entry(self) -> bool:
        return self.entry is not None


def last_commit_after(
    plan: CommitPlan | None,
    basis: CommitBasis,
    before: LastCommit | None,
    staged: Staged,
    entry: LedgerEntry | None = None,
) -> LastCommit:
    """Return what to remember of a commit that was made: statistics only as long as nobody else commits.

    Among several writers they would never be of use, and a stale assumption costs a round trip. A change of definitions
    may write statistics in other ways. And a clock behind that of the head gives its time to every snapshot: after a
    restore from a backup another's might look like ours. An epoch without rows leaves everything as it was.
    """
    old = basis.head.snapshot
    known = before.stats if before is not None and before.head == old else None
    in_a_row = 0 if before is None or known is None else before.in_a_row + 1
    if plan is None:
        return LastCommit(old, known or {}, entry, in_a_row)
    new = replace(plan.snapshot, changes=None)
    is_plain = new.schema_version == old.schema_version
    has_own_time = new.snapshot_time > old.snapshot_time
    if known is None or not is_plain or not has_own_time:
        return LastCommit(new, {}, entry, in_a_row)
    touched = {table.newest.table_id for table in staged.tables}  # a flush writes statistics, too
    others = {i: stats for i, stats in known.items() if i not in touched} if len(known) < _MAX_TABLES else {}
    stats = others | {change.table.table_id: change.new for change in plan.stats_changes}
    return LastCommit(new, stats, entry, in_a_row)


def assume_head(session: Session, staged: Staged, last: LastCommit | None) -> CommitBasis | None:
    """Return what our last commit left behind, if the changes can follow on it in one round trip; None: read the head.

    Rows can be added to any later head. Whatever else is done to rows must have been made from that head itself.
    """
    if last is None or not last.stats or session.dialect.errors.is_stale_assumption is None:
        return None
    head, table_ids = last.head, _changed_tables(staged)
    is_later = head.snapshot_id >= staged.base.snapshot_id and head.schema_version == staged.base.schema_version
    may_follow = staged.is_append_only or (head == staged.base and staged.changes_rows_only)
    if not (table_ids and is_later and may_follow) or not all(
        session.dialect.inlined.takes_by_statement(session, rows.rows.num_rows) for rows in staged.inlined
    ):
        return None
    if not all(i in last.stats for i in table_ids):
        return None
    if staged.epoch is not None and not is_next(staged.epoch, last.entry):
        return None
    state = HeadState(head, {i: last.stats[i] for i in table_ids}, staged.base)
    entry = None if staged.epoch is None else last.entry
    return CommitBasis(state, entry, _guard(session, head, entry))


def _guard(session: Session, head: Snapshot, entry: LedgerEntry | None) -> Statement:
    values: dict[str, object] = {f"head_{name}": getattr(head, name) for name in queries.HEAD_COLUMNS}
    values["version"] = session.version.text
    if entry is None:
        return Statement(queries.guard(session.tables), values)
    values |= {f"entry_{name}": getattr(entry, name) for name in LedgerEntry.__slots__}
    return Statement(queries.guard(session.tables, ledger.ledger_of(session.database).epochs), values)


def read_head(session: Session, staged: Staged, last: LastCommit | None) -> CommitBasis:
    """Read what the staged changes are planned on; what our last commit left behind is not read while it holds."""
    known = last.stats if last and last.head.snapshot_id >= staged.base.snapshot_id else {}  # else others came since
    table_ids = _changed_tables(staged)
    missing = [i for i in table_ids if i not in known]
    statements = [_head_query(session, staged), *_stats_queries(session, missing)]
    if staged.epoch is not None:
        statements.append(ledger.entry_query(session, staged.epoch.stream))
    heads, *results = session.run(statements, while_waiting=lambda: _work_ahead(session, staged))
    snapshots = reader.head_and_base_of(queries.head_and_base(session.tables).named(heads))
    stats = _stats_of(session, missing, results) if missing else {}
    if len(missing) < len(table_ids):
        is_same = last is not None and last.head == snapshots[0]
        stats.update({i: s for i, s in known.items() if i in table_ids} if is_same else _read_stats(session, table_ids))
    for table_id in (i for i, known_stats in stats.items() if known_stats is None):
        stats[table_id] = reader.recover_table_stats(session, table_id)
    base = snapshots[-1] if snapshots[-1].snapshot_id == staged.base.snapshot_id else None
    entry = ledger.entry_of(results[-1]) if staged.epoch is not None else None
    return CommitBasis(HeadState(snapshots[0], stats, base), entry)


def _changed_tables(staged: Staged) -> list[TableId]:
    changed = (t for t in staged.tables if t.rewritten_bounds or not t.writes.is_empty)
    return [t.before.table_id for t in changed if t.before is not None]


def _head_query(session: Session, staged: Staged) -> Statement:
    return Statement(queries.head_and_base(session.tables).select, {"base": staged.base.snapshot_id})


def _stats_queries(session: Session, table_ids: Sequence[TableId]) -> list[Statement]:
    return [Statement(queries.table_stats(session.tables).select, {"table_id": i}) for i in table_ids]


def _stats_of(
    session: Session, table_ids: Sequence[TableId], results: Sequence[list[Row]]
) -> dict[TableId, TableStats | None]:
    query = queries.table_stats(session.tables)
    return {i: reader.table_stats_of(query.named(rows)) for i, rows in zip(table_ids, results, strict=False)}


def _read_stats(session: Session, table_ids: Sequence[TableId]) -> dict[TableId, TableStats | None]:
    return _stats_of(session, table_ids, session.run(_stats_queries(session, table_ids)))


def _work_ahead(session: Session, staged: Staged) -> None:
    for rows in staged.inlined:
        rows.measure()
        session.dialect.inlined.prepare(session, rows)
