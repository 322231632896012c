"""A stream of inserted rows only: it stops at a snapshot that changes rows, or passes over it if it is told to."""

import pytest

from ducklake_core.errors import RowsChanged
from tests.fixtures.oracle import Oracle
from tests.fixtures.pulls import Table


def test_stream_of_inserts_stops_at_a_snapshot_that_changes_rows(table: Table) -> None:
    table.add(1, 2)
    pull = table.pull(startingVersion="earliest")
    table.add(3)
    table.lake.update("t", {"s": "b"}, "i = 1")
    table.add(4)

    rows = pull.step()

    assert rows is not None
    assert rows.column_names == ["i", "s"]
    assert sorted(rows.column("i").to_pylist()) == [1, 2, 3]
    with pytest.raises(RowsChanged, match=r"snapshot 4 has updated or deleted rows .*readChangeFeed=true.*skipChange"):
        pull.step()


def test_flush_that_only_moves_deletes_does_not_stop_a_stream_of_inserts(table: Table, oracle: Oracle) -> None:
    table.add(*range(10))
    table.lake.delete("t", "i < 3")
    pull = table.pull()
    pull.all()
    oracle.attach(table.catalog.attach)
    oracle.execute("CALL ducklake_flush_inlined_data('lake')")
    assert table.lake.snapshots()[-1].changes == "deleted_from_table:1"
    table.add(99)

    assert pull.all().column("i").to_pylist() == [99]
    table.lake.delete("t", "i >= 3 AND i < 99")
    assert table.lake.snapshots()[-1].changes == "deleted_from_table:1"
    with pytest.raises(RowsChanged):
        pull.step()


@pytest.mark.parametrize("act", ["DELETE FROM t WHERE i >= 12", "INSERT INTO t SELECT 99, 'x' FROM range(9)"])
def test_transaction_that_flushes_stops_a_stream_of_inserts_only_when_it_deletes(
    table: Table, oracle: Oracle, act: str
) -> None:
    table.add(1, 2)
    table.add(*range(10, 30))
    pull = table.pull()
    pull.all()
    oracle.attach(table.catalog.attach)
    oracle.execute(f"BEGIN; CALL ducklake_flush_inlined_data('lake'); {act}; COMMIT")
    assert "inline_flush" in str(table.lake.snapshots()[-1].changes)
    table.clock.advance(minutes=5)

    if act.startswith("DELETE"):
        with pytest.raises(RowsChanged):
            pull.all()
    else:
        assert pull.all().column("i").to_pylist() == [99] * 9


def test_snapshots_that_change_rows_are_skipped_if_wanted(table: Table) -> None:
    table.add(1, 2)
    table.lake.update("t", {"s": "b"}, "i = 1")
    table.lake.delete("t", "i = 2")
    table.add(4)
    table.lake.flush_inlined("t")

    rows = table.pull(startingVersion="earliest", skipChangeCommits="true").all()

    assert sorted(rows.column("i").to_pylist()) == [1, 2, 4]
    assert set(rows.column("s").to_pylist()) == {"a"}


def test_deletes_are_ignored_if_wanted_but_updates_are_not(table: Table) -> None:
    table.add(1, 2)
    table.lake.delete("t", "i = 2")
    table.add(*range(10, 20))
    pull = table.pull(startingVersion="earliest", ignoreDeletes="true")

    rows = pull.all()
    table.lake.update("t", {"s": "b"}, "i = 1")

    assert sorted(rows.column("i").to_pylist()) == [1, 2, *range(10, 20)]
    with pytest.raises(RowsChanged):
        pull.step()
