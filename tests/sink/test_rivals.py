"""Several drivers, or sinks, for one stream: one wins each batch, the others lose without a trace."""

import pytest

from ducklake_core.errors import EpochOutOfOrder, StreamFenced
from tests.fixtures.driver_jobs import Fault
from tests.fixtures.ingests import Ingest
from tests.fixtures.oracle import Oracle

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

SMALL = 10
LARGE = 100


@pytest.mark.parametrize(
    ("make_catalog", "point", "size"),
    [
        # A writer of SQLite that is frozen within its transaction keeps everybody else out.
        pytest.param("sqlite", "after_collect", SMALL, id="SQLite, rows"),
        pytest.param("postgres", "after_collect", LARGE, id="PostgreSQL, files"),
        pytest.param("postgres", "before_commit", SMALL, id="PostgreSQL, rows, in the transaction"),
    ],
    indirect=["make_catalog"],
)
def test_driver_that_wakes_after_another_took_over_is_fenced(
    ingest: Ingest, oracle: Oracle, point: str, size: int
) -> None:
    ingest.feed(SMALL, size)
    zombie = ingest.start(Fault(point, "stop", 1))
    zombie.wait_held(point)
    ingest.feed(SMALL, LARGE)
    assert ingest.run() is None
    before = ingest.catalog.dump()

    zombie.wake(point)
    error = zombie.end()

    assert f"{StreamFenced.__name__}: cannot commit epoch 1 of stream 's': run '" in str(error)
    assert "has taken over the stream at batch 3" in str(error)
    assert ingest.catalog.dump() == before
    ingest.check(oracle, 3)


@pytest.mark.parametrize("batches", [1, 3])
def test_driver_that_wakes_in_its_first_batch_loses_without_writing(
    ingest: Ingest, oracle: Oracle, batches: int
) -> None:
    ingest.feed(LARGE)
    zombie = ingest.start(Fault("after_collect", "stop", 0))
    zombie.wait_held("after_collect")
    ingest.feed(*[SMALL] * (batches - 1))
    assert ingest.run() is None
    before = ingest.catalog.dump()

    zombie.wake("after_collect")
    error = zombie.end()

    if batches == 1:
        assert "batch_replayed stream=s batch=0" in zombie.log
    else:
        assert EpochOutOfOrder.__name__ in str(error)
    assert ingest.catalog.dump() == before
    ingest.check(oracle, batches - 1)


@pytest.mark.parametrize("size", [SMALL, LARGE], ids=["rows", "files"])
def test_of_two_drivers_with_one_batch_one_wins(ingest: Ingest, oracle: Oracle, size: int) -> None:
    point = "before_commit" if ingest.catalog.name == "postgres" else "after_collect"
    ingest.feed(SMALL)
    assert ingest.run() is None
    copies = [ingest.save_checkpoint(f"copy{number}") for number in range(2)]
    ingest.feed(size, SMALL, size)
    rivals = [ingest.start(Fault(point, "hold", 1), checkpoint=str(copy)) for copy in copies]
    for rival in rivals:
        rival.wait_held(point)

    for rival in rivals:
        rival.order(f"release.{point}")
    errors = [rival.end() for rival in rivals]

    refused = [error for error in errors if error is not None]
    assert len(refused) <= 1
    assert all(StreamFenced.__name__ in error or EpochOutOfOrder.__name__ in error for error in refused)
    ingest.check(oracle, 3)


@pytest.mark.parametrize("make_catalog", ["postgres"], indirect=True)
def test_query_with_two_sinks_needs_a_stream_for_each(ingest: Ingest, oracle: Oracle) -> None:
    ingest.feed(SMALL)
    second = {"table": "main.copies"}

    error = ingest.run(sinks=[ingest.sink(), ingest.sink(**second)])

    assert "InvalidInput: batch 0 of stream 's' has been committed in this run already" in str(error)
    assert "give each a stream='…' of its own" in str(error)
    assert ingest.run(sinks=[ingest.sink(), ingest.sink(**second, stream="t")]) is None
    ingest.feed(LARGE)
    assert ingest.run(sinks=[ingest.sink(), ingest.sink(**second, stream="t")]) is None
    ingest.check(oracle, 1)
    ingest.check(oracle, 1, table="main.copies")


@pytest.mark.parametrize("make_catalog", ["postgres"], indirect=True)
def test_sink_that_is_called_twice_for_one_batch_says_how_to_do_it(ingest: Ingest, oracle: Oracle) -> None:
    ingest.feed(SMALL, SMALL)

    error = ingest.run(calls=2)

    assert "InvalidInput: batch 0 of stream 's' has been committed in this run already" in str(error)
    assert "sink.transaction(batch_id)" in str(error)
    assert ingest.run() is None
    ingest.check(oracle, 1)
