"""Hard histories, one by one: what a table holds at one snapshot, and its changes, give what it holds at another."""

from collections import Counter
from collections.abc import Iterator
from itertools import combinations

import pytest

from ducklake_core import Lake
from tests.fixtures import feeds
from tests.fixtures.catalogs import Catalog
from tests.fixtures.oracle import Oracle


@pytest.fixture
def duckdb(catalog: Catalog, oracle: Oracle) -> Oracle:
    """Give DuckDB attached to a new lake that inlines nothing."""
    oracle.attach(catalog.attach, data_path=catalog.data_path)
    oracle.execute("CALL lake.set_option('data_inlining_row_limit', 0)")
    return oracle


@pytest.fixture
def lake(duckdb: Oracle, catalog: Catalog) -> Iterator[Lake]:  # noqa: ARG001 # it creates the lake
    with Lake.open(catalog.url) as lake:
        yield lake


def check(lake: Lake, table: str = "t") -> dict[tuple[int, int], feeds.Events]:
    """Check the law between any two snapshots of a table; return its changes by range."""
    version = lake.table(table).version
    snapshots = [s.snapshot_id for s in lake.snapshots() if s.snapshot_id >= version.begin_snapshot]
    states = {i: feeds.state_of(lake, version, i) for i in snapshots}
    found = {(a, b): feeds.feed_of(lake, version, a, b) for a, b in combinations(snapshots, 2)}
    for (a, b), events in found.items():
        assert feeds.applied(states[a], events) == states[b], f"({a}, {b}]"
        assert events == sum((found[i, i + 1] for i in range(a, b)), Counter()), f"({a}, {b}]"
        for rows in (1, 3):
            task = feeds.task_of(lake, version, a, b)
            assert feeds.shared_feed_of(lake, task, rows) == events, f"({a}, {b}], {rows} rows for a task"
        net = feeds.feed_of(lake, version, a, b, net=True)
        assert feeds.net_applied(states[a], net) == states[b], f"net, ({a}, {b}]"
    return found


def kinds(events: feeds.Events) -> Counter[str]:
    return Counter(event.kind for event in events.elements())


def test_rows_inserted_and_deleted_by_one_transaction_have_no_event(lake: Lake, duckdb: Oracle) -> None:
    """The extension says `inserted_into_table` of it and nothing of deletes, although there is a delete file."""
    duckdb.execute("CREATE TABLE t (i INTEGER)")
    duckdb.execute("BEGIN; INSERT INTO t FROM range(5); DELETE FROM t WHERE i = 2; COMMIT")

    assert lake.snapshots()[-1].changes == "inserted_into_table:1"
    assert sorted(event.values for event in check(lake)[1, 2]) == [(0,), (1,), (3,), (4,)]
