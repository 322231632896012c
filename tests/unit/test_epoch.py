"""Which batches pass the gate, and what the sink remembers between them."""

import pytest

from ducklake_core import CommitResult, Epoch
from ducklake_core.clock import utc_now
from ducklake_core.errors import EpochOutOfOrder, InvalidInput
from ducklake_core.model import LedgerEntry, SnapshotId
from ducklake_sinks.epoch import EpochGate
from ducklake_sinks.memory import DEFINITIONS_SECONDS, DefinitionMemory
from ducklake_sinks.query import BY_HAND, Query

QUERY = Query("q", "run 2")


class Ledger:
    """A ledger with one stream, which counts how often it is asked."""

    def __init__(self, batch_id: int | None = None, run_id: str = "run 1") -> None:
        self.asked = 0
        self.entry = None if batch_id is None else entry(batch_id, run_id)

    def read(self, stream: str) -> LedgerEntry | None:
        assert stream == "s"
        self.asked += 1
        return self.entry


def entry(batch_id: int, run_id: str, query_id: str = "q") -> LedgerEntry:
    return LedgerEntry("s", query_id, run_id, batch_id, SnapshotId(7), 10, utc_now())


def test_new_batch_passes_and_one_that_another_run_committed_is_a_replay() -> None:
    ledger = Ledger(batch_id=4)
    gate = EpochGate(ledger.read)

    assert gate.start(QUERY, "s", 4).committed == ledger.entry
    assert not gate.start(QUERY, "s", 5).is_replay
    with pytest.raises(EpochOutOfOrder):
        gate.start(QUERY, "s", 3)


def test_run_that_has_committed_asks_the_ledger_no_more() -> None:
    ledger = Ledger(batch_id=4)
    gate = EpochGate(ledger.read)

    first = gate.start(QUERY, "s", 5)
    gate.remember(first)
    second = gate.start(QUERY, "s", 6)

    assert ledger.asked == 1
    assert (first.epoch, second.epoch) == (
        Epoch("s", 5, "q", "run 2"),
        Epoch("s", 6, "q", "run 2", continues_run=True),
    )


def test_next_run_and_batches_by_hand_ask_again() -> None:
    ledger = Ledger(batch_id=4)
    gate = EpochGate(ledger.read)
    gate.remember(gate.start(QUERY, "s", 5))
    gate.start(Query("q", "run 3"), "s", 5)
    assert ledger.asked == 2

    by_hand = EpochGate(Ledger().read)
    start = by_hand.start(Query(BY_HAND, "r"), "s", 0)
    by_hand.remember(start)
    assert not by_hand.start(Query(BY_HAND, "r"), "s", 0).is_replay  # asked, and not there


def test_second_use_of_a_batch_in_one_run_is_refused_before_it_is_read_and_after_its_commit() -> None:
    ledger = Ledger(batch_id=4)
    gate = EpochGate(ledger.read)
    start = gate.start(QUERY, "s", 5)
    ledger.entry = entry(5, "run 2")

    with pytest.raises(InvalidInput, match="has been committed in this run already"):
        gate.start(QUERY, "s", 5)
    with pytest.raises(InvalidInput, match="has been committed in this run already"):
        gate.check(start, CommitResult(None, replayed=True))


def test_batch_that_another_run_has_committed_meanwhile_is_a_replay() -> None:
    ledger = Ledger(batch_id=4)
    gate = EpochGate(ledger.read)
    start = gate.start(QUERY, "s", 5)
    ledger.entry = entry(5, "run 1")

    gate.check(start, CommitResult(None, replayed=True))


def test_definitions_are_recent_for_a_moment_and_until_they_expire() -> None:
    now = [100.0]
    definitions = DefinitionMemory(lambda: now[0])
    assert not definitions.are_recent()

    definitions.note_reading()
    now[0] += DEFINITIONS_SECONDS - 0.1
    assert definitions.are_recent()
    now[0] += 0.1
    assert not definitions.are_recent()

    definitions.note_reading()
    definitions.expire()
    assert not definitions.are_recent()
