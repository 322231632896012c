"""Expires snapshots: one short transaction for many of them, which decides and writes. It makes no snapshot.

Commits beside it do not mind: they end rows that we do not touch, and what was staged on a snapshot that is gone is
checked by the commit itself. Of two that expire at once one finds rows gone, and looks again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import Executable

from ducklake_core import faults
from ducklake_core.catalog import expiry_statements as sql
from ducklake_core.catalog.consumers import consumers_in
from ducklake_core.catalog.database import Database
from ducklake_core.catalog.ledger import read_entries
from ducklake_core.catalog.session import Session, Statement
from ducklake_core.model import SnapshotId
from ducklake_core.plan.expiry import Expiry, SnapshotAge, Wanted, keepers_of, keepers_of_unseen, plan_expiry
from ducklake_core.plan.ranges import ranges_between

CHUNK_SNAPSHOTS = 20_000  # of one transaction


class ExpiredFiles(NamedTuple):
    """Data and delete files that are scheduled for deletion."""

    files: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Expired:
    """What expired. `held_back` says who keeps other snapshots. `is_all`: there was not more of it."""

    snapshot_ids: tuple[SnapshotId, ...]
    files: ExpiredFiles
    held_back: tuple[str, ...]
    is_all: bool


def expire(database: Database, wanted: Wanted, now: datetime, *, dry_run: bool) -> Expired:
    """Expire the oldest of what is wanted, in one transaction; a dry run does the same and rolls back.

    Raises ObjectNotFound for versions that are not there.
    """
    found: list[Expired] = []

    def work(session: Session) -> None:
        expiry = _plan(session, wanted, now)
        faults.at("expiry_planned")
        chunk = expiry.expired[: None if dry_run else CHUNK_SNAPSHOTS]
        retained = (*expiry.expired[len(chunk) :], *expiry.retained)
        is_all = len(chunk) == len(expiry.expired)
        files = _delete(session, chunk, sorted(retained), now) if chunk else ExpiredFiles(0, 0)
        found.append(Expired(chunk, files, expiry.held_back, is_all))
        faults.at("before_expiry_commit")
        if chunk and not dry_run:
            session.write_and_commit([])

    database.write_alone("expire snapshots of", work)
    return found[-1]


def _plan(session: Session, wanted: Wanted, now: datetime) -> Expiry:
    ages = [SnapshotAge(*row) for row in session.query(sql.snapshot_ages(session.tables))]
    keepers = keepers_of(consumers_in(session), read_entries(session), now)
    return plan_expiry(ages, wanted, [*keepers, *keepers_of_unseen(ages, _unseen(session))])


def _unseen(session: Session) -> list[SnapshotId]:
    """Return the snapshots that somebody who is about to commit may not see.

    The reference gives a commit the id after the snapshot that its transaction has read. If that one were free again,
    the commit would land in the middle of the lake's history, with ids of files that others have.
    """
    ask = session.dialect.unseen_snapshots
    return (
        [] if ask is None else [snapshot_id for [snapshot_id] in session.query(ask(session.tables.ducklake_snapshot))]
    )


def _delete(
    session: Session, expired: Sequence[SnapshotId], retained: Sequence[SnapshotId], now: datetime
) -> ExpiredFiles:
    """Take snapshots out of the catalog, and what none that is left sees."""
    t, oldest = session.tables, retained[0]
    has_holes = retained[-1] - oldest + 1 > len(retained)
    ranges = [{"first": first, "last": last} for first, last in ranges_between(expired, retained)]
    snapshots = [
        Statement(sql.delete_snapshots(table), ranges) for table in (t.ducklake_snapshot, t.ducklake_snapshot_changes)
    ]
    session.run(snapshots)
    counts = [sql.count_files(t, name, has_holes=has_holes) for name in ("ducklake_data_file", "ducklake_delete_file")]
    [data], [deletes] = session.run([Statement(count, {"oldest": oldest}) for count in counts])
    files = ExpiredFiles(data[0] + deletes[0], data[1] + deletes[1])
    statements: list[Executable] = [*sql.file_statements(t, has_holes=has_holes)] if files.files else []
    if session.query(sql.dead_tables(t, has_holes=has_holes), oldest=oldest):
        statements += sql.table_statements(t, has_holes=has_holes)
    statements += sql.other_statements(t, has_holes=has_holes)
    session.run([Statement(one, {"oldest": oldest, "now": now}) for one in statements])
    return files
