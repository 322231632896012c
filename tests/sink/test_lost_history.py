"""Checkpoint and ledger do not belong together any more: the stream stops, writes nothing and says what helps."""

import shutil

import pytest

from ducklake_core.errors import EpochOutOfOrder, LedgerBehind
from tests.fixtures.backups import back_up, restore
from tests.fixtures.driver_jobs import Fault
from tests.fixtures.ingests import Ingest
from tests.fixtures.oracle import Oracle

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]


@pytest.mark.parametrize("batches", [1, 3], ids=["ledger at batch 0", "ledger at batch 2"])
def test_deleted_checkpoint_is_refused(ingest: Ingest, oracle: Oracle, batches: int) -> None:
    ingest.feed(*[10, 100, 10][:batches])
    assert ingest.run() is None
    before = ingest.catalog.dump()

    shutil.rmtree(ingest.checkpoint)
    error = ingest.run()

    ingest.check_refused(error, EpochOutOfOrder, before)
    assert "the checkpoint was deleted or belongs to another query" in str(error)
    ingest.check(oracle, batches - 1)


def test_old_checkpoint_that_was_restored_is_refused(ingest: Ingest, oracle: Oracle) -> None:
    ingest.feed(10, 10, 100)
    assert ingest.run() is None
    saved = ingest.save_checkpoint("old")
    ingest.feed(100, 10, 10)
    assert ingest.run() is None
    before = ingest.catalog.dump()

    error = ingest.run(checkpoint=str(saved))

    ingest.check_refused(error, EpochOutOfOrder, before)
    assert "epoch 3 of stream 's': the ledger is at batch 5 already, so an old checkpoint was restored" in str(error)
    ingest.feed(10)
    assert ingest.run() is None  # with the checkpoint that belongs to the ledger
    ingest.check(oracle, 6)


def test_database_that_was_restored_behind_the_checkpoint_is_refused(ingest: Ingest) -> None:
    ingest.feed(10, 10)
    assert ingest.run() is None
    back_up(ingest.catalog)
    ingest.feed(10, 10, 10)
    assert ingest.run() is None
    restore(ingest.catalog)
    ingest.feed(10)
    before = ingest.catalog.dump()

    error = ingest.run()

    ingest.check_refused(error, LedgerBehind, before)
    assert "epoch 5 of stream 's': the ledger is at batch 1, so epochs that were acknowledged are gone" in str(error)


def test_database_that_is_restored_under_a_running_stream_is_refused(ingest: Ingest) -> None:
    ingest.feed(10)
    assert ingest.run() is None
    back_up(ingest.catalog)
    ingest.feed(10, 10, 10)
    driver = ingest.start(Fault("after_collect", "hold", 3))
    driver.wait_held("after_collect")
    restore(ingest.catalog)
    before = ingest.catalog.dump()

    driver.order("release.after_collect")

    ingest.check_refused(driver.end(), LedgerBehind, before)


def test_ledger_of_another_stream_is_none(ingest: Ingest) -> None:
    ingest.feed(10, 10)
    assert ingest.run() is None
    ingest.feed(10)
    before = ingest.catalog.dump()

    error = ingest.run(stream="renamed")

    ingest.check_refused(error, LedgerBehind, before)
    assert "the stream was renamed" in str(error)
