"""Each place where the extension's own feed breaks the law, by name: docs/internals/change-feed.md. Ours holds it."""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from ducklake_core import Lake
from tests.fixtures import extension_exceptions, feeds
from tests.fixtures.catalogs import Catalog
from tests.fixtures.extension_exceptions import EXCEPTIONS, Facts
from tests.fixtures.feeds import Event, Events
from tests.fixtures.oracle import Oracle

PAGE = Path(__file__).parents[2] / "docs" / "internals" / "change-feed.md"


@pytest.fixture
def lake(catalog: Catalog, oracle: Oracle) -> Iterator[Lake]:
    """Give a lake that inlines up to three rows."""
    oracle.attach(catalog.attach, data_path=catalog.data_path)
    oracle.execute("CALL lake.set_option('data_inlining_row_limit', 3)")
    with Lake.open(catalog.url) as lake:
        yield lake


def both(lake: Lake, oracle: Oracle, *names: str, start: int | None = None) -> tuple[Events, Events]:
    """Return both feeds up to the head; ours must keep the law, theirs must break it just as the exception says."""
    version = lake.table("t").version
    begin: int = version.begin_snapshot if start is None else start
    end: int = lake.snapshots()[-1].snapshot_id
    before, after = (feeds.state_of(lake, version, i) for i in (begin, end))
    ours = feeds.feed_of(lake, version, begin, end)
    theirs = feeds.extension_feed_of(oracle, "t", begin, end)
    assert feeds.applied(before, ours) == after
    assert theirs != ours
    facts = Facts(lake, version, feeds.task_of(lake, version, begin, end).span)
    explanations = [getattr(extension_exceptions, name) for name in names]
    assert set(explanations) <= set(EXCEPTIONS)
    assert all(any(e(event, facts) for e in explanations) for event in [*(ours - theirs), *(theirs - ours)])
    return ours, theirs


def breaks_the_law(lake: Lake, theirs: Events, start: int) -> bool:
    version = lake.table("t").version
    head = lake.snapshots()[-1].snapshot_id
    return feeds.applied(feeds.state_of(lake, version, start), theirs) != feeds.state_of(lake, version, head)


def test_rewrite_tells_of_rows(lake: Lake, oracle: Oracle) -> None:
    oracle.execute("CREATE TABLE t AS SELECT i FROM range(8) r(i)")
    oracle.execute("DELETE FROM t WHERE i < 5")
    oracle.execute("CALL ducklake_rewrite_data_files('lake', delete_threshold => 0)")

    ours, theirs = both(lake, oracle, "rewrite_tells_of_rows", start=2)

    assert not ours
    assert Counter(event.kind for event in theirs) == {"update_preimage": 3, "update_postimage": 3}


def test_delete_from_partial_file(lake: Lake, oracle: Oracle) -> None:
    oracle.execute("CREATE TABLE t (i INTEGER)")
    oracle.execute("INSERT INTO t FROM range(6)")
    oracle.execute("INSERT INTO t FROM range(6)")
    oracle.execute("CALL ducklake_merge_adjacent_files('lake')")
    oracle.execute("DELETE FROM t WHERE i < 3")

    ours, theirs = both(lake, oracle, "delete_from_partial_file", start=4)

    assert {(event.snapshot, event.kind) for event in ours} == {(5, "delete")}
    assert {event.snapshot for event in theirs} == {2, 3}  # not even in the range


def test_ended_file_with_inlined_deletes(lake: Lake, oracle: Oracle) -> None:
    oracle.execute("CREATE TABLE t AS SELECT i FROM range(8) r(i)")
    oracle.execute("DELETE FROM t WHERE i = 0")
    oracle.execute("DELETE FROM t WHERE i < 5")
    oracle.execute("CALL ducklake_rewrite_data_files('lake', delete_threshold => 0)")

    ours, theirs = both(lake, oracle, "ended_file_with_inlined_deletes", "rewrite_tells_of_rows")

    twice = Event(2, "delete", 0, (0,))
    assert (ours[twice], theirs[twice]) == (1, 2)
    assert breaks_the_law(lake, theirs, 1)


def test_inserted_and_deleted_at_once(lake: Lake, oracle: Oracle) -> None:
    oracle.execute("CREATE TABLE t (i INTEGER)")
    oracle.execute("BEGIN; INSERT INTO t SELECT i FROM range(8) r(i); DELETE FROM t WHERE i = 5; COMMIT")

    _, theirs = both(lake, oracle, "inserted_and_deleted_at_once")

    assert theirs[Event(2, "update_preimage", 5, (5,))] == theirs[Event(2, "update_postimage", 5, (5,))] == 1


def test_repeated_row_id(lake: Lake, oracle: Oracle) -> None:
    oracle.execute("CALL lake.set_option('data_inlining_row_limit', 0)")
    oracle.execute("CREATE TABLE t (i INTEGER)")
    for i in (1, 2):
        oracle.execute(f"BEGIN; INSERT INTO t VALUES ({i}); UPDATE t SET i = i * 10 WHERE i = {i}; COMMIT")
    oracle.execute("UPDATE t SET i = i + 1")

    ours, theirs = both(lake, oracle, "repeated_row_id", start=3)

    assert Counter(event.kind for event in ours.elements()) == {"delete": 2, "insert": 2}
    assert Counter(event.kind for event in theirs.elements()) == {"update_preimage": 4, "update_postimage": 4}
    assert breaks_the_law(lake, theirs, 3)


def test_the_page_names_each_exception_and_no_other() -> None:
    section = PAGE.read_text().partition("## Where the extension differs")[2].partition("## Gaps")[0]
    named = re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)

    assert named == [explains.__name__ for explains in EXCEPTIONS]
