"""Others write to a stream's table, or change it: nothing is lost or doubled, and a conflict names its snapshot."""

import re

import pytest

from ducklake_core import Lake
from tests.fixtures.driver_jobs import Fault
from tests.fixtures.ingests import Ingest
from tests.fixtures.oracle import Oracle
from tests.fixtures.processes import join, start

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1200),
    pytest.mark.parametrize("make_catalog", ["postgres"], indirect=True),
]

SMALL = 10
LARGE = 100
OURS, DUCKDBS = 1_000_000, 2_000_000  # event ids of the others begin here
COMMITS = 20


def append_events(url: str) -> None:
    with Lake.open(url) as lake:
        for i in range(OURS, OURS + COMMITS):
            lake.append("main.events", {"id": [i], "name": ["ours"]})


def test_stream_beside_two_other_writers_loses_and_doubles_nothing(ingest: Ingest, oracle: Oracle) -> None:
    ingest.feed(SMALL, LARGE, *[SMALL, LARGE] * 4)
    driver = ingest.start(Fault("after_head_read", "hold", 1))
    driver.wait_held("after_head_read")
    oracle.attach(ingest.catalog.attach)
    oracle.execute("SET ducklake_max_retry_count = 1000")

    other = start(append_events, ingest.catalog.url)
    for i in range(DUCKDBS, DUCKDBS + COMMITS):
        oracle.execute(f"INSERT INTO events VALUES ({i}, 'duckdb')")
        if i == DUCKDBS + 1:
            driver.order("release.after_head_read")  # its snapshot id is taken for certain
    assert join(other) == [0]
    assert driver.end() is None

    oracle.detach()
    ingest.ids += [*range(OURS, OURS + COMMITS), *range(DUCKDBS, DUCKDBS + COMMITS)]
    ingest.check(oracle, 9, orphans=0)  # no file was written twice


@pytest.mark.parametrize("size", [SMALL, LARGE], ids=["rows", "files"])
def test_column_that_another_adds_is_filled_with_nulls_or_refused(ingest: Ingest, oracle: Oracle, size: int) -> None:
    ingest.feed(size)
    assert ingest.run() is None
    alter(ingest, oracle, "ALTER TABLE events ADD COLUMN extra INTEGER")
    ingest.feed(size)

    error = ingest.run()

    assert "SchemaMismatch" in str(error)
    assert "extra" in str(error)
    assert ingest.run(merge_schema=True) is None
    ingest.check(oracle, 1)


@pytest.mark.parametrize("size", [SMALL, LARGE], ids=["rows", "files"])
@pytest.mark.parametrize(
    "statement",
    ["ALTER TABLE events RENAME COLUMN name TO label", "ALTER TABLE events DROP COLUMN name"],
    ids=["rename", "drop"],
)
def test_column_that_another_takes_away_is_refused_or_added_again(
    ingest: Ingest, oracle: Oracle, size: int, statement: str
) -> None:
    ingest.feed(size)
    assert ingest.run() is None
    ingest.feed(size)
    driver = ingest.start(Fault("after_collect", "hold", 1))
    driver.wait_held("after_collect")

    alter(ingest, oracle, statement)
    driver.order("release.after_collect")
    error = driver.end()

    if size == SMALL:  # rows are planned anew
        assert "SchemaMismatch" in str(error)
        assert 'has no columns "name" varchar: merge_schema=True adds them' in str(error)
    else:
        assert f"table 'main.events' was altered in snapshot {last_snapshot(ingest)}" in str(error)
    assert ingest.run(merge_schema=True) is None
    ingest.check(oracle, 1, orphans=0)


@pytest.mark.parametrize("size", [SMALL, LARGE], ids=["rows", "files"])
@pytest.mark.parametrize("is_late", [False, True], ids=["between batches", "in a batch"])
@pytest.mark.parametrize(
    ("statement", "what"),
    [("DROP TABLE events", "dropped"), ("ALTER TABLE events RENAME TO kept", "renamed")],
    ids=["drop", "rename"],
)
def test_table_that_another_takes_away_stops_the_stream(
    ingest: Ingest, oracle: Oracle, size: int, statement: str, what: str, *, is_late: bool
) -> None:
    ingest.feed(size, size, size)
    point = "after_collect" if is_late else "after_commit"
    driver = ingest.start(Fault(point, "hold", 1))
    driver.wait_held(point)

    alter(ingest, oracle, statement)
    driver.order(f"release.{point}")
    error = driver.end()

    assert re.search(rf"table 'main\.events' was {what} (to .* )?in snapshot {last_snapshot(ingest)}\b", str(error))
    assert ingest.run() is None  # somebody has seen the error, and wants the table anew
    gone = size if is_late else 2 * size
    if what == "renamed":
        with Lake.open(ingest.catalog.url) as lake:
            assert sorted(lake.table("kept").read()["id"].to_pylist()) == sorted(ingest.ids[:gone])
    ingest.ids = ingest.ids[gone:]
    ingest.check(oracle, 2)


def alter(ingest: Ingest, oracle: Oracle, statement: str) -> None:
    oracle.attach(ingest.catalog.attach)
    oracle.execute(statement)
    oracle.detach()


def last_snapshot(ingest: Ingest) -> int:
    with Lake.open(ingest.catalog.url) as lake:
        return lake.snapshots()[-1].snapshot_id
