"""Whatever has expired, a feed is complete, or it says that it is not: never a row less without a word."""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, combinations
from pathlib import Path

import pytest

from ducklake_core import Lake
from ducklake_core.errors import SnapshotsExpired
from ducklake_core.feed.listing import FeedRequest, list_range
from ducklake_core.model import SnapshotId, SnapshotSpan, TableVersion
from tests.fixtures import feeds
from tests.fixtures.catalogs import Catalog, SqliteCatalog
from tests.fixtures.feeds import Events
from tests.fixtures.oracle import Oracle

INSERTED, INLINED, SECOND_FILE, FILE_DELETED, UPDATED, FLUSHED, RENAMED, HEAD = range(1, 9)
HISTORY = {
    INSERTED: "CREATE TABLE t AS SELECT i::INTEGER AS i, 'x' || i AS s FROM range(12) r(i)",
    INLINED: "INSERT INTO t VALUES (100, 'inlined'), (101, 'inlined')",
    SECOND_FILE: "BEGIN; INSERT INTO t SELECT i + 200, 'second' FROM range(8) r(i); DELETE FROM t WHERE i = 11; COMMIT",
    FILE_DELETED: "DELETE FROM t WHERE i >= 200",
    UPDATED: "UPDATE t SET s = s || '!' WHERE i < 7 OR i = 100",
    FLUSHED: "CALL ducklake_flush_inlined_data('lake')",
    RENAMED: "ALTER TABLE t RENAME TO u",
    HEAD: "DELETE FROM u WHERE i >= 2 AND i < 9",
}
DELETES_FROM_FILES = {FILE_DELETED, UPDATED, FLUSHED, HEAD}  # the flush moves a delete to a file
SUBSETS = [*chain.from_iterable(combinations(range(1, HEAD), size) for size in range(1, HEAD))]
SOME = [
    (INSERTED,),
    (SECOND_FILE,),
    (FILE_DELETED,),
    (INLINED, SECOND_FILE),
    (INSERTED, UPDATED),
    (1, 2, 3, 4, 5, 6, 7),
]
RANGES = [*combinations(range(HEAD + 1), 2)]


def make_history(catalog: Catalog, oracle: Oracle) -> None:
    oracle.attach(catalog.attach, data_path=catalog.data_path)
    oracle.execute("CALL lake.set_option('data_inlining_row_limit', 5)")
    for sql in HISTORY.values():
        oracle.execute(sql)


def expire(oracle: Oracle, snapshots: tuple[int, ...]) -> None:
    oracle.execute(f"CALL ducklake_expire_snapshots('lake', versions => {list(snapshots)})")
    oracle.execute("CALL ducklake_cleanup_old_files('lake', cleanup_all => true)")


def feeds_of(lake: Lake) -> dict[tuple[int, int], Events | SnapshotsExpired]:
    """Return the changes of every range, or why they cannot be read."""
    version = lake.table("u").version
    return {(a, b): _feed_or_error(lake, version, a, b) for a, b in RANGES}


def _feed_or_error(lake: Lake, version: TableVersion, start: int, end: int) -> Events | SnapshotsExpired:
    try:
        return feeds.feed_of(lake, version, start, end)
    except SnapshotsExpired as error:
        return error


def check(before: dict[tuple[int, int], Events | SnapshotsExpired], lake: Lake, expired: tuple[int, ...]) -> None:
    for (start, end), found in feeds_of(lake).items():
        where = f"({start}, {end}] after the expiry of {expired}"
        if isinstance(found, SnapshotsExpired):
            # The rows of a file that was deleted as a whole are there as long as the snapshot before is, and from what
            # is left nobody can tell whether a snapshot that deletes from files has deleted whole ones.
            needed = range(start if start + 1 in DELETES_FROM_FILES else start + 1, end + 1)
            assert set(expired) & set(needed), f"false alarm: {where}"
            assert found.facts["start"] == start
            assert f"after snapshot {start} up to {end}" in found.message
            assert "Read the table as it is now" in found.message
        else:
            assert found == before[start, end], where
            assert not set(expired) & set(range(start + 1, end + 1)), f"{where}: snapshots are missing"


@dataclass(frozen=True, slots=True)
class Backup:
    catalog: SqliteCatalog
    copy: Path

    def restore(self) -> None:
        shutil.copyfile(self.copy / "lake.sqlite", self.catalog.path)
        shutil.rmtree(self.catalog.data_path)
        shutil.copytree(self.copy / "data", self.catalog.data_path)


@pytest.fixture
def backup(tmp_path: Path, oracle: Oracle) -> Backup:
    catalog = SqliteCatalog(tmp_path / "lake.sqlite", f"{tmp_path}/data/")
    make_history(catalog, oracle)
    oracle.detach()
    copy = tmp_path / "copy"
    copy.mkdir()
    shutil.copyfile(catalog.path, copy / "lake.sqlite")
    shutil.copytree(catalog.data_path, copy / "data")
    return Backup(catalog, copy)


@pytest.mark.slow
def test_the_feed_is_complete_or_loud_whatever_has_expired(backup: Backup, oracle: Oracle) -> None:
    with Lake.open(backup.catalog.url) as lake:
        before = feeds_of(lake)
    assert not any(isinstance(found, SnapshotsExpired) for found in before.values())
    for expired in SUBSETS:
        backup.restore()
        oracle.attach(backup.catalog.attach)
        expire(oracle, expired)
        oracle.detach()
        with Lake.open(backup.catalog.url) as lake:
            check(before, lake, expired)


@pytest.mark.parametrize("expired", SOME, ids=str)
def test_the_feed_is_complete_or_loud(catalog: Catalog, oracle: Oracle, expired: tuple[int, ...]) -> None:
    make_history(catalog, oracle)
    with Lake.open(catalog.url) as lake:
        before = feeds_of(lake)
        expire(oracle, expired)
        check(before, lake, expired)


def test_a_file_that_the_transaction_of_a_flush_has_deleted_is_missed(catalog: Catalog, oracle: Oracle) -> None:
    oracle.attach(catalog.attach, data_path=catalog.data_path)
    oracle.execute("CALL lake.set_option('data_inlining_row_limit', 5)")
    oracle.execute("CREATE TABLE t AS SELECT i FROM range(9) r(i)")
    oracle.execute("INSERT INTO t VALUES (100)")
    oracle.execute("BEGIN; DELETE FROM t WHERE i < 9; CALL ducklake_flush_inlined_data('lake'); COMMIT")
    with Lake.open(catalog.url) as lake:
        assert lake.snapshots()[-1].changes == "deleted_from_table:1,inline_flush:1"
        assert len(feeds.feed_of(lake, lake.table("t").version, 2, 3)) == 9
        expire(oracle, (1, 2))

        with pytest.raises(SnapshotsExpired, match="after snapshot 2 up to 3: snapshot 3 or the one before"):
            lake.changes("t", 3)


# ------------------------------------------------------------------------------- those who accept a loss


@pytest.fixture
def lake(catalog: Catalog, oracle: Oracle) -> Iterator[Lake]:
    make_history(catalog, oracle)
    with Lake.open(catalog.url) as lake:
        yield lake


def read_what_is_left(lake: Lake, start: int, end: int) -> tuple[Events, list[SnapshotsExpired]]:
    version = lake.table("u").version
    losses: list[SnapshotsExpired] = []
    span = SnapshotSpan(SnapshotId(start), SnapshotId(end))
    request = FeedRequest(version, version.columns, span, accept_loss=True)
    task = list_range(lake.database, request, on_loss=losses.append).task
    whole = feeds.read(lake, [task])
    assert feeds.shared_feed_of(lake, task, 3) == whole
    return whole, losses


@pytest.mark.parametrize(
    "expired", [(SECOND_FILE,), (INLINED, SECOND_FILE, FILE_DELETED), (1, 2, 3, 4, 5, 6, 7)], ids=str
)
def test_who_accepts_the_loss_reads_the_snapshots_that_are_left(
    lake: Lake, oracle: Oracle, expired: tuple[int, ...]
) -> None:
    before = feeds.feed_of(lake, lake.table("u").version, 0, HEAD)
    expire(oracle, expired)

    left, losses = read_what_is_left(lake, 0, HEAD)

    assert {event.snapshot for event in left}.isdisjoint(expired)
    missing = before - left
    # What a lost snapshot did, and the rows of whole files that the one after it has deleted.
    assert {event.snapshot for event in missing} <= {*expired, *(i + 1 for i in expired)}
    assert not left - before
    [error] = losses
    assert f"after snapshot 0 up to {HEAD}" in error.message


def test_who_accepts_a_loss_is_told_of_none_when_there_is_none(lake: Lake, oracle: Oracle) -> None:
    before = feeds.feed_of(lake, lake.table("u").version, INLINED, HEAD)
    expire(oracle, (INSERTED, INLINED))

    assert read_what_is_left(lake, INLINED, HEAD) == (before, [])


def test_an_expired_rewrite_does_not_tell_of_its_rows_again(lake: Lake, oracle: Oracle) -> None:
    """Nothing says any more that the snapshot of these rows was a rewrite."""
    oracle.execute("CALL ducklake_rewrite_data_files('lake', delete_threshold => 0)")
    rewrite = HEAD + 1
    assert lake.snapshots()[-1].changes == "rewrite_delete:1"
    oracle.execute("INSERT INTO u VALUES (300, 'after')")
    expire(oracle, (rewrite,))

    left, losses = read_what_is_left(lake, HEAD, rewrite + 1)

    assert [event.values for event in left] == [(300, "after")]
    assert len(losses) == 1
