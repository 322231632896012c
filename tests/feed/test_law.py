"""Hard histories, one by one: what a table holds at one snapshot, and its changes, give what it holds at another."""

from collections import Counter

import pyarrow as pa

from ducklake_core import Lake
from tests.fixtures import feeds
from tests.fixtures.feeds import Event, check_law
from tests.fixtures.oracle import Oracle


def kinds(events: feeds.Events) -> Counter[str]:
    return Counter(event.kind for event in events.elements())


def test_rows_inserted_and_deleted_by_one_transaction_have_no_event(lake: Lake, duckdb: Oracle) -> None:
    """The extension says `inserted_into_table` of it and nothing of deletes, although there is a delete file."""
    duckdb.execute("CREATE TABLE t (i INTEGER)")
    duckdb.execute("BEGIN; INSERT INTO t FROM range(5); DELETE FROM t WHERE i = 2; COMMIT")

    assert lake.snapshots()[-1].changes == "inserted_into_table:1"
    assert sorted(event.values for event in check_law(lake)[1, 2]) == [(0,), (1,), (3,), (4,)]


def test_repeated_row_ids_of_the_extension_are_survived(lake: Lake, duckdb: Oracle) -> None:
    """An insert and an update of the row in one transaction store the extension's own id, 10^18, each time again."""
    duckdb.execute("CREATE TABLE t (i INTEGER)")
    for i in (1, 2):
        duckdb.execute(f"BEGIN; INSERT INTO t VALUES ({i}); UPDATE t SET i = i * 10 WHERE i = {i}; COMMIT")
    duckdb.execute("UPDATE t SET i = 11 WHERE i = 10")
    duckdb.execute("UPDATE t SET i = 21 WHERE i = 20")
    duckdb.execute("UPDATE t SET i = i + 1")
    duckdb.execute("DELETE FROM t WHERE i = 12")

    found = check_law(lake)

    assert set(feeds.state_of(lake, lake.table("t").version, 3)) == {(10**18, (10,)), (10**18, (20,))}
    assert kinds(found[3, 4]) == {"update_preimage": 1, "update_postimage": 1}
    assert kinds(found[5, 6]) == {"delete": 2, "insert": 2}  # which became which nobody can tell


def test_rows_updated_by_one_transaction_several_times_have_one_image_before_and_one_after(
    lake: Lake, duckdb: Oracle
) -> None:
    for limit in (0, 100):
        table = f"t{limit}"
        duckdb.execute(f"CALL lake.set_option('data_inlining_row_limit', {limit})")
        duckdb.execute(f"CREATE TABLE {table} AS SELECT i FROM range(4) r(i)")
        duckdb.execute(f"BEGIN; UPDATE {table} SET i = 9 WHERE i = 0; UPDATE {table} SET i = 8 WHERE i = 9; COMMIT")
        head = lake.snapshots()[-1].snapshot_id

        found = check_law(lake, table)[head - 1, head]

        assert found == Counter(
            {Event(head, "update_preimage", 0, (0,)): 1, Event(head, "update_postimage", 0, (8,)): 1}
        )


def test_a_row_deleted_and_inserted_again_by_one_transaction_is_another_row(lake: Lake, duckdb: Oracle) -> None:
    duckdb.execute("CREATE TABLE t AS SELECT i FROM range(4) r(i)")
    duckdb.execute("BEGIN; DELETE FROM t WHERE i = 2; INSERT INTO t VALUES (2); COMMIT")
    with lake.transaction() as tx:
        tx.delete("t", "i = 3")
        tx.append("t", pa.table({"i": [3]}))

    found = check_law(lake)

    assert found[1, 2] == Counter({Event(2, "delete", 2, (2,)): 1, Event(2, "insert", 4, (2,)): 1})
    assert found[2, 3] == Counter({Event(3, "delete", 3, (3,)): 1, Event(3, "insert", 5, (3,)): 1})


def test_maintenance_tells_nothing_and_changes_no_earlier_event(lake: Lake, duckdb: Oracle) -> None:
    duckdb.execute("CALL lake.set_option('data_inlining_row_limit', 4)")
    duckdb.execute("CREATE TABLE t (i INTEGER, s VARCHAR)")
    duckdb.execute("INSERT INTO t SELECT i, 'a' FROM range(10) r(i)")
    duckdb.execute("INSERT INTO t SELECT i + 10, 'b' FROM range(10) r(i)")
    duckdb.execute("INSERT INTO t VALUES (20, 'c'), (21, 'c')")
    duckdb.execute("UPDATE t SET s = 'd' WHERE i IN (1, 20)")
    duckdb.execute("DELETE FROM t WHERE i IN (12, 21)")
    duckdb.execute("INSERT INTO t SELECT i + 30, 'e' FROM range(10) r(i)")
    duckdb.execute("INSERT INTO t SELECT i + 40, 'e' FROM range(10) r(i)")
    before = check_law(lake)
    last = lake.snapshots()[-1].snapshot_id

    for call in (
        "CALL ducklake_flush_inlined_data('lake')",
        "CALL ducklake_merge_adjacent_files('lake')",
        "CALL ducklake_rewrite_data_files('lake', delete_threshold => 0)",
        "CALL ducklake_merge_adjacent_files('lake')",
    ):
        duckdb.execute(call)
        duckdb.execute("CALL ducklake_cleanup_old_files('lake', cleanup_all => true)")
        after = check_law(lake)
        assert {span: events for span, events in after.items() if span[1] <= last} == before, call
        assert not any(events for (start, _), events in after.items() if start >= last), call
    tokens = [(s.changes or "").split(":")[0] for s in lake.snapshots() if s.snapshot_id > last]
    assert tokens == ["deleted_from_table", "merge_adjacent", "rewrite_delete", "merge_adjacent"]


def test_our_flush_changes_no_event(lake: Lake, duckdb: Oracle) -> None:
    duckdb.execute("CALL lake.set_option('data_inlining_row_limit', 4)")
    duckdb.execute("CREATE TABLE t AS SELECT i, 'a' AS s FROM range(10) r(i)")
    duckdb.execute("INSERT INTO t VALUES (20, 'c'), (21, 'c')")
    duckdb.execute("UPDATE t SET s = 'd' WHERE i IN (1, 20)")
    before = check_law(lake)

    lake.flush_inlined("t")

    after = check_law(lake)
    assert {span: after[span] for span in before} == before
    assert not after[3, 4]


def test_a_flush_and_a_delete_by_one_transaction(lake: Lake, duckdb: Oracle) -> None:
    duckdb.execute("CALL lake.set_option('data_inlining_row_limit', 4)")
    duckdb.execute("CREATE TABLE t AS SELECT i FROM range(10) r(i)")
    duckdb.execute("INSERT INTO t VALUES (20), (21)")
    duckdb.execute("DELETE FROM t WHERE i = 3")
    duckdb.execute("BEGIN; DELETE FROM t WHERE i < 6; CALL ducklake_flush_inlined_data('lake'); COMMIT")

    assert lake.snapshots()[-1].changes == "deleted_from_table:1,inline_flush:1"
    assert kinds(check_law(lake)[3, 4]) == {"delete": 5}
