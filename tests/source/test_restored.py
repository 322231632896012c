"""A catalog goes back to a backup under a change feed, and others write on: the feed says so."""

import pytest

from ducklake_core.errors import OffsetMismatch
from tests.fixtures.backups import back_up, restore
from tests.fixtures.pulls import FEED, Pull, Table


def go_back(table: Table, *readers: Pull, others: int) -> None:
    """Restore the backup, and let others make so many snapshots."""
    for one in readers:
        one.close()
    table.close()
    restore(table.catalog)
    table.lake.forget()
    for number in range(others):
        table.add(100 + number)


@pytest.mark.parametrize("others", [1, 2, 5], ids=["before the offset", "at the offset", "past the offset"])
@pytest.mark.parametrize("is_new", [False, True], ids=["running", "restarted"])
def test_feed_of_a_restored_catalog_is_refused_however_far_others_have_written(
    table: Table, others: int, *, is_new: bool
) -> None:
    table.add(1)
    table.close()
    back_up(table.catalog)
    table.add(2)
    table.add(3)
    pull = table.pull(**FEED)
    pull.all()

    go_back(table, pull, others=others)
    again = table.pull(pull.offset, **FEED) if is_new else pull

    if others == 2:  # its snapshot has the number of the offset: there is nothing to read yet
        assert again.step() is None
        table.add(200)
    with pytest.raises(OffsetMismatch, match="the catalog was restored from a backup") as caught:
        again.step()
    assert caught.value.snapshot == pull.offset["snapshot_id"]


def test_batch_that_is_planned_again_after_a_restore_is_refused(table: Table) -> None:
    table.add(1)
    pull = table.pull(**FEED)
    pull.all()
    start = pull.offset
    table.close()
    back_up(table.catalog)
    table.add(2)
    pull.all()

    go_back(table, pull, others=1)

    with pytest.raises(OffsetMismatch, match="the catalog was restored from a backup"):
        table.pull(start, **FEED).read(start, pull.offset)


def test_offset_without_a_time_is_still_read(table: Table) -> None:
    """Checkpoints that were written before offsets had one go on."""
    table.add(1)
    pull = table.pull(**FEED)
    pull.all()
    older = {name: value for name, value in pull.offset.items() if name != "time"}
    table.add(2)

    assert table.pull(older, **FEED).all().column("i").to_pylist() == [2]
