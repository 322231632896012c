"""A batch whose rows another moves while it is staged is staged anew, as after a conflict of its commit."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ducklake_core import CommitResult
from ducklake_core.errors import CommitConflict
from ducklake_sinks.batch_commit import MAX_REBUILDS, BatchCommit
from ducklake_sinks.events import BatchRebuilt
from ducklake_sinks.modes.mode import OnConflict
from ducklake_sinks.part import Part

PARTS = [Part("t", None)]


class Core:
    """A transaction of the lake that has no rows."""

    in_doubt = False
    has_ended = False

    def discard(self) -> None:
        self.has_ended = True

    def commit(self) -> CommitResult:
        return CommitResult(None)


class Staging:
    """A mode that meets a conflict in each of its first attempts; it counts them."""

    looks_for_rows = False

    def __init__(self, conflicts: int, *, rows_moved: bool = True) -> None:
        self.left, self.attempts, self.rows_moved = conflicts, 0, rows_moved

    def prepare(self, *_: object) -> None:
        self.attempts += 1

    def stage(self, *_: object) -> None: ...

    def finish(self, _: object) -> None:
        self.left -= 1
        if self.left >= 0:
            raise CommitConflict("moved", rows_moved=self.rows_moved)

    def on_conflict(self, _: CommitConflict) -> OnConflict:
        return OnConflict.REBUILD


class Runtime(SimpleNamespace):
    """What the commit needs of a sink; it keeps the transactions that were begun, and what was told."""

    def __init__(self) -> None:
        super().__init__(definitions=SimpleNamespace(expire=lambda: None), recorder=self)
        self.begun: list[Core] = []
        self.told: list[object] = []

    def begin_transaction(self, _: object, *, fresh: bool) -> Core:
        assert not fresh
        self.begun.append(Core())
        return self.begun[-1]

    def record(self, event: object) -> None:
        self.told.append(event)


@pytest.fixture
def runtime() -> Iterator[Runtime]:
    """Give a runtime; every transaction but the last one has ended afterwards."""
    runtime = Runtime()
    yield runtime
    assert all(core.has_ended for core in runtime.begun[:-1])


def commit_of(runtime: Runtime, mode: Staging) -> BatchCommit:
    start, setup = SimpleNamespace(names=()), SimpleNamespace(created=set())
    return BatchCommit(*cast("tuple[Any, ...]", (runtime, start, mode, setup)))  # Any: stand-ins for a sink's own


def test_rows_that_move_while_they_are_staged_are_staged_again(runtime: Runtime) -> None:
    mode = Staging(conflicts=2)

    commit_of(runtime, mode).run(PARTS)

    assert mode.attempts == len(runtime.begun) == 3
    assert [type(event) for event in runtime.told] == [BatchRebuilt] * 2


def test_rows_that_move_each_time_are_the_error_of_the_batch(runtime: Runtime) -> None:
    mode = Staging(conflicts=100)

    with pytest.raises(CommitConflict, match="moved"):
        commit_of(runtime, mode).run(PARTS)

    assert mode.attempts == MAX_REBUILDS + 1


def test_any_other_conflict_of_staging_is_final(runtime: Runtime) -> None:
    mode = Staging(conflicts=1, rows_moved=False)

    with pytest.raises(CommitConflict):
        commit_of(runtime, mode).run(PARTS)

    assert mode.attempts == 1
