"""The ledger: each epoch of a stream is committed once, in order, by one run; else a refusal that names the remedy."""

import threading
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

import pyarrow as pa
import pytest

from ducklake_core import Lake
from ducklake_core.errors import DuckLakeError, EpochOutOfOrder, LedgerBehind, LedgerError, StreamFenced
from ducklake_core.model import Epoch, LedgerEntry
from ducklake_core.plan.epochs import EpochDecision, decide_epoch, is_next
from tests.fixtures.catalogs import Catalog
from tests.fixtures.consistency import check_lake, stored_files
from tests.fixtures.processes import CONTEXT, join, start

ENTRY = LedgerEntry("s", "q", "r", 5, None, 0, datetime(2026, 1, 1, tzinfo=UTC))


@pytest.mark.parametrize(
    ("entry", "epoch", "decision"),
    [
        pytest.param(None, Epoch("s", 0, "q", "r"), EpochDecision.COMMIT, id="first batch of a stream"),
        pytest.param(ENTRY, Epoch("s", 6, "q", "r"), EpochDecision.COMMIT, id="next batch"),
        pytest.param(ENTRY, Epoch("s", 6, "q", "r2"), EpochDecision.COMMIT, id="next batch after a restart"),
        pytest.param(ENTRY, Epoch("s", 5, "q", "r"), EpochDecision.REPLAY, id="same batch"),
        pytest.param(ENTRY, Epoch("s", 5, "q", "r2"), EpochDecision.REPLAY, id="same batch after a restart"),
        pytest.param(ENTRY, Epoch("s", 6, "q", "r", continues_run=True), EpochDecision.COMMIT, id="same run goes on"),
    ],
)
def test_epoch_is_committed_or_replayed(entry: LedgerEntry | None, epoch: Epoch, decision: EpochDecision) -> None:
    assert decide_epoch(epoch, entry) is decision


@pytest.mark.parametrize(
    ("entry", "epoch", "error"),
    [
        pytest.param(ENTRY, Epoch("s", 4, "q", "r2"), EpochOutOfOrder, id="old checkpoint restored"),
        pytest.param(ENTRY, Epoch("s", 0, "q2", "r2"), EpochOutOfOrder, id="checkpoint deleted"),
        pytest.param(ENTRY, Epoch("s", 5, "q2", "r2"), EpochOutOfOrder, id="other query with the same batch"),
        pytest.param(ENTRY, Epoch("s", 6, "q2", "r2"), EpochOutOfOrder, id="other query with the next batch"),
        pytest.param(ENTRY, Epoch("s", 5, "q", "r0", continues_run=True), StreamFenced, id="zombie, same batch"),
        pytest.param(ENTRY, Epoch("s", 6, "q", "r0", continues_run=True), StreamFenced, id="zombie, next batch"),
        pytest.param(ENTRY, Epoch("s", 3, "q", "r0", continues_run=True), StreamFenced, id="zombie far behind"),
        pytest.param(ENTRY, Epoch("s", 7, "q", "r2"), LedgerBehind, id="database restored"),
        pytest.param(None, Epoch("s", 3, "q", "r"), LedgerBehind, id="database restored to before the stream"),
    ],
)
def test_epoch_is_refused_with_its_facts(entry: LedgerEntry | None, epoch: Epoch, error: type[LedgerError]) -> None:
    with pytest.raises(error, match=f"cannot commit epoch {epoch.batch_id} of stream 's'") as caught:
        decide_epoch(epoch, entry)

    assert type(caught.value) is error
    assert (caught.value.stream, caught.value.batch_id) == ("s", epoch.batch_id)


@pytest.mark.parametrize(
    ("epoch", "follows"),
    [
        pytest.param(Epoch("s", 6, "q", "r"), True, id="next batch"),
        pytest.param(Epoch("s", 6, "q", "r", continues_run=True), True, id="same run goes on"),
        pytest.param(Epoch("s", 5, "q", "r"), False, id="same batch"),
        pytest.param(Epoch("s", 7, "q", "r"), False, id="a gap"),
        pytest.param(Epoch("s", 6, "q", "r2"), False, id="another run"),
        pytest.param(Epoch("s", 6, "q2", "r"), False, id="another query"),
        pytest.param(Epoch("other", 6, "q", "r"), False, id="another stream"),
    ],
)
def test_epoch_that_follows_its_run_may_be_committed(epoch: Epoch, *, follows: bool) -> None:
    assert is_next(epoch, ENTRY) is follows
    assert not is_next(epoch, None)
    if follows:
        assert decide_epoch(epoch, ENTRY) is EpochDecision.COMMIT


@pytest.fixture
def lake(catalog: Catalog) -> Iterator[Lake]:
    with Lake.create(catalog.url, catalog.data_path) as lake:
        lake.create_table("t", {"id": "int64"})
        yield lake


def test_replayed_epoch_writes_nothing(catalog: Catalog, lake: Lake) -> None:
    commit(lake, Epoch("s", 0, "q", "r"), range(100))
    before = catalog.dump()
    files = stored_files(catalog)

    result = commit(lake, Epoch("s", 0, "q", "r2"), range(500, 600))

    assert result == "replayed"
    assert catalog.dump() == before
    assert stored_files(catalog) == files


@pytest.mark.parametrize(
    ("epoch", "error"),
    [
        (Epoch("s", 0, "q", "r2"), EpochOutOfOrder),
        (Epoch("s", 2, "q2", "r2"), EpochOutOfOrder),
        (Epoch("s", 2, "q", "r0", continues_run=True), StreamFenced),
        (Epoch("s", 9, "q", "r2"), LedgerBehind),
    ],
    ids=["old checkpoint", "other query", "zombie", "ledger behind"],
)
def test_refused_epoch_leaves_nothing_behind(
    catalog: Catalog, lake: Lake, epoch: Epoch, error: type[LedgerError]
) -> None:
    for batch_id in (0, 1):
        commit(lake, Epoch("s", batch_id, "q", "r"), [batch_id])
    before = catalog.dump()

    with pytest.raises(error):
        commit(lake, epoch, range(100))

    assert catalog.dump() == before
    assert stored_files(catalog) == set()


def test_empty_batch_advances_the_ledger_without_a_snapshot(lake: Lake) -> None:
    commit(lake, Epoch("s", 0, "q", "r"), [1])
    head = lake.snapshots()[-1]

    result = lake.commit_epoch(Epoch("s", 1, "q", "r"), lambda _: None)

    entry = lake.ledger_entry("s")
    assert (result.snapshot, result.replayed) == (None, False)
    assert lake.snapshots()[-1] == head
    assert entry is not None
    assert (entry.batch_id, entry.snapshot_id, entry.row_count) == (1, None, 0)
    assert commit(lake, Epoch("s", 1, "q", "r"), [2]) == "replayed"


def test_ledger_tells_the_rows_and_the_snapshot_of_an_epoch(lake: Lake) -> None:
    commit(lake, Epoch("s", 0, "q", "r"), range(100))

    entry = lake.ledger_entry("s")

    head = lake.snapshots()[-1]
    assert entry == LedgerEntry("s", "q", "r", 0, head.snapshot_id, 100, head.snapshot_time)


def test_streams_do_not_touch_each_other(lake: Lake) -> None:
    commit(lake, Epoch("a", 0, "q", "r"), [1])
    commit(lake, Epoch("b", 0, "q2", "r2"), [2])

    assert commit(lake, Epoch("a", 0, "q", "r"), [1]) == "replayed"
    assert sorted(lake.table("t").read()["id"].to_pylist()) == [1, 2]


def rows_of(batch_id: int) -> Sequence[int]:
    """Inlined rows, a file, inlined rows, none: an empty batch races for the ledger's row alone."""
    return range(100 * batch_id, 100 * batch_id + (5, 50, 5, 0)[batch_id % 4])


def race(url: str, run_id: str, batches: int, barrier: threading.Barrier, outcomes: list[str]) -> None:
    lake = Lake.open(url)
    for batch_id in range(batches):
        barrier.wait()
        try:
            outcome = commit(lake, Epoch("s", batch_id, "q", run_id), rows_of(batch_id))
        except DuckLakeError as error:
            outcome = type(error).__name__
        outcomes.append(f"{batch_id} {outcome}")
    lake.close()


def test_of_two_drivers_with_the_same_epoch_exactly_one_commits_it(catalog: Catalog, lake: Lake) -> None:
    batches = 8
    with CONTEXT.Manager() as manager:
        barrier, outcomes = manager.Barrier(2), manager.list()
        processes = [start(race, catalog.url, run_id, batches, barrier, outcomes) for run_id in ("r1", "r2")]

        codes = join(*processes)

        assert codes == [0, 0]
        assert sorted(outcomes) == sorted(f"{b} {o}" for b in range(batches) for o in ("committed", "replayed"))
    expected = [i for batch_id in range(batches) for i in rows_of(batch_id)]
    assert sorted(lake.table("t").read()["id"].to_pylist()) == expected
    check_lake(catalog)


def test_two_drivers_may_create_the_ledger_at_once(catalog: Catalog, lake: Lake) -> None:
    with CONTEXT.Manager() as manager:
        barrier = manager.Barrier(4)
        processes = [start(create_ledger, catalog.url, barrier) for _ in range(4)]

        assert join(*processes) == [0] * 4
    assert lake.ledger_entry("s") is None


def create_ledger(url: str, barrier: threading.Barrier) -> None:
    lake = Lake.open(url)
    barrier.wait()
    lake.ledger_entry("s")


def commit(lake: Lake, epoch: Epoch, ids: Sequence[int]) -> str:
    result = lake.commit_epoch(epoch, lambda tx: tx.append("t", {"id": pa.array(ids, pa.int64())}))
    return "replayed" if result.replayed else "committed"
