"""What a commit knows of its attempts: whether it is in doubt, and so whether its files may be removed."""

from datetime import UTC, datetime

import pytest

from ducklake_core.catalog.commit import Commit, CommitResult, UnconfirmedCommit
from ducklake_core.errors import CatalogUnavailable, CommitOutcomeUnknown, ContentionError
from ducklake_core.model import LedgerEntry, Snapshot, SnapshotId
from ducklake_core.plan.staged import Staged

BASE = Snapshot(SnapshotId(41), datetime(2026, 1, 1, tzinfo=UTC), 7, 12, 30)
MINE = Snapshot(SnapshotId(42), datetime(2026, 1, 2, tzinfo=UTC), 7, 12, 31)
ENTRY = LedgerEntry("s", "q", "r", 0, SnapshotId(42), 5, datetime(2026, 1, 2, tzinfo=UTC))
ATTEMPT = UnconfirmedCommit(MINE, ENTRY, has_own_time=True)


def commit_in_doubt() -> Commit:
    commit = Commit(Staged(BASE))
    with pytest.raises(CatalogUnavailable), commit.sending(ATTEMPT):
        raise CommitOutcomeUnknown("no answer")
    return commit


def test_commit_that_was_never_sent_is_void() -> None:
    assert Commit(Staged(BASE)).is_void


def test_commit_that_the_database_refuses_is_void() -> None:
    commit = Commit(Staged(BASE))

    with pytest.raises(ContentionError), commit.sending(ATTEMPT):
        raise ContentionError("taken")

    assert commit.is_void
    assert commit.unconfirmed == []


def test_commit_without_an_answer_is_in_doubt_and_remembers_the_attempt() -> None:
    commit = commit_in_doubt()

    assert (commit.in_doubt, commit.is_void) == (True, False)
    assert commit.find_by_entry(ENTRY) == ATTEMPT
    assert commit.find_by_entry(None) is None


def test_interrupt_of_a_commit_leaves_a_doubt() -> None:
    commit = Commit(Staged(BASE))

    with pytest.raises(KeyboardInterrupt), commit.sending(ATTEMPT):
        raise KeyboardInterrupt

    assert not commit.is_void


def test_refusal_of_a_later_attempt_does_not_end_an_older_doubt() -> None:
    commit = commit_in_doubt()

    with pytest.raises(ContentionError), commit.sending(ATTEMPT):
        raise ContentionError("taken")

    assert commit.in_doubt


@pytest.mark.parametrize(("head", "in_doubt"), [(BASE, True), (MINE, False)], ids=["id is free", "id is taken"])
def test_doubt_ends_when_another_has_the_id(head: Snapshot, *, in_doubt: bool) -> None:
    commit = commit_in_doubt()

    commit.forget_beaten(head)

    assert commit.in_doubt is in_doubt
    assert bool(commit.unconfirmed) is in_doubt


@pytest.mark.parametrize(
    ("result", "is_void"),
    [(CommitResult(MINE), False), (CommitResult(None), False), (CommitResult(None, replayed=True), True)],
    ids=["a snapshot", "nothing to write", "a replay"],
)
def test_files_of_a_replay_may_go(result: CommitResult, *, is_void: bool) -> None:
    commit = Commit(Staged(BASE), result=result)

    assert commit.is_void is is_void


def test_files_are_staged_for_the_id_that_is_next() -> None:
    commit = Commit(Staged(BASE), lambda snapshot_id: Staged(BASE, finished_for=snapshot_id))

    commit.stage(SnapshotId(43))

    assert commit.staged.finished_for == 43
