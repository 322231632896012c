"""Which snapshots expire, who holds them back, and that what is left reads as before."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from ducklake_core import Lake
from ducklake_core.catalog import expiry
from ducklake_core.clock import Clock
from ducklake_core.errors import InvalidInput, ObjectNotFound, SnapshotsExpired
from ducklake_core.feed.task import FeedMode
from ducklake_core.model import Consumer, Epoch, SnapshotId
from tests.fixtures.catalogs import Catalog
from tests.fixtures.faults import at_fault
from tests.fixtures.oracle import Oracle

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


class Calendar:
    """A clock that moves a day with each snapshot, by hand."""

    def __init__(self) -> None:
        self.time = BEGIN
        self.clock = Clock(now=lambda: self.time)

    def next_day(self) -> None:
        self.time += timedelta(days=1)


@pytest.fixture
def calendar() -> Calendar:
    return Calendar()


@pytest.fixture
def lake(catalog: Catalog, calendar: Calendar) -> Iterator[Lake]:
    """Give a lake with ten snapshots, a day apart: an empty one, a table, and eight inserts of a row."""
    with Lake.create(catalog.url, catalog.data_path, clock=calendar.clock) as lake:
        calendar.next_day()
        lake.create_table("t", {"i": "int64"})
        for i in range(8):
            calendar.next_day()
            lake.append("t", {"i": [i]})
        yield lake


def ids(lake: Lake) -> list[int]:
    return [snapshot.snapshot_id for snapshot in lake.snapshots()]


def state(lake: Lake, since: int = 0) -> dict[int, Any]:
    """Return the rows of each table at each snapshot from one on, and what each snapshot changed."""
    return {
        at: {
            table.version.name: (
                sorted(table.read().to_pylist(), key=repr),
                sorted(lake.changes(table.version.name, at, at).drop(["_commit_timestamp"]).to_pylist(), key=repr),
            )
            for table in lake.tables(at=at)
        }
        for at in ids(lake)
        if at >= since
    }


def test_what_is_older_than_an_age_expires(lake: Lake) -> None:
    report = lake.expire_snapshots(older_than="3d")

    assert ids(lake) == [6, 7, 8, 9]
    assert report.snapshot_ids == (0, 1, 2, 3, 4, 5)
    assert report.total.snapshots == 6
    assert report.held_back == ()
    assert lake.table("t").count() == 8


def test_the_newest_stay_whatever_their_age(lake: Lake, calendar: Calendar) -> None:
    for _ in range(100):
        calendar.next_day()

    lake.expire_snapshots(older_than=timedelta(days=3), keep_last=3)

    assert ids(lake) == [7, 8, 9]


def test_the_newest_snapshot_never_expires(lake: Lake) -> None:
    lake.expire_snapshots(older_than=0)

    assert ids(lake) == [9]
    assert lake.expire_snapshots(keep_last=1).snapshot_ids == ()


def test_versions_expire_by_themselves(lake: Lake) -> None:
    report = lake.expire_snapshots(versions=[2, 4, 9])

    assert ids(lake) == [0, 1, 3, 5, 6, 7, 8, 9]
    assert report.held_back == ("snapshot 9 is the newest, which never expires",)


def test_versions_of_more_than_one_transaction_expire(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expiry, "CHUNK_SNAPSHOTS", 2)

    report = lake.expire_snapshots(versions=[1, 3, 4, 5, 7])

    assert report.snapshot_ids == (1, 3, 4, 5, 7)
    assert ids(lake) == [0, 2, 6, 8, 9]


def test_versions_that_are_not_there_are_an_error(lake: Lake) -> None:
    lake.expire_snapshots(versions=[2])

    with pytest.raises(ObjectNotFound, match="cannot expire snapshot 2, 77: the lake has none of that id"):
        lake.expire_snapshots(versions=[1, 2, 77])
    assert len(ids(lake)) == 9


def test_the_lakes_option_tells_the_age_where_no_argument_does(lake: Lake) -> None:
    lake.set_option("expire_older_than", "3 days")

    lake.expire_snapshots()

    assert ids(lake) == [6, 7, 8, 9]


@pytest.mark.parametrize("age", ["2 days 24 hours", "2 days 24:00:00"])
def test_the_option_is_read_as_duckdb_has_set_it(lake: Lake, catalog: Catalog, oracle: Oracle, age: str) -> None:
    oracle.attach(catalog.attach)
    oracle.execute(f"CALL lake.set_option('expire_older_than', '{age}')")

    assert lake.expire_snapshots().snapshot_ids == (0, 1, 2, 3, 4, 5)


def test_nothing_expires_where_nothing_is_asked_for(lake: Lake) -> None:
    report = lake.expire_snapshots()

    assert len(ids(lake)) == 10
    assert "nothing was asked for" in report.held_back[0]


def test_a_dry_run_counts_and_changes_nothing(lake: Lake, catalog: Catalog) -> None:
    lake.append("t", pa.table({"i": range(100)}))
    lake.delete("t", None)
    lake.append("t", {"i": [1]})
    before = catalog.dump()

    looked = lake.expire_snapshots(keep_last=1, dry_run=True)
    assert catalog.dump() == before
    done = lake.expire_snapshots(keep_last=1)

    assert looked.dry_run
    assert (looked.snapshot_ids, looked.total.files_before) == (done.snapshot_ids, done.total.files_before)
    assert done.total.files_before == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"older_than": "soon"}, "older_than is 'soon'"),
        ({"keep_last": 0}, "keep_last is 0"),
        ({"versions": [1], "keep_last": 2}, "versions are expired by themselves"),
    ],
)
def test_nonsense_is_refused(lake: Lake, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        lake.expire_snapshots(**arguments)


def test_a_bad_option_is_named(lake: Lake) -> None:
    lake.set_option("expire_older_than", "a while")

    with pytest.raises(InvalidInput, match="option 'expire_older_than' is 'a while'"):
        lake.expire_snapshots()


def test_nothing_passes_the_slowest_consumer_that_is_alive(lake: Lake, calendar: Calendar) -> None:
    uuid = lake.table("t").version.table_uuid
    soon, past = calendar.time + timedelta(days=1), calendar.time
    lake.record_consumer(Consumer("slow", uuid, SnapshotId(4), calendar.time, soon))
    lake.record_consumer(Consumer("fast", uuid, SnapshotId(8), calendar.time, None))
    lake.record_consumer(Consumer("gone", uuid, SnapshotId(2), calendar.time, past))
    before = lake.changes("t", 5, 9)

    report = lake.expire_snapshots(keep_last=1)

    assert ids(lake) == [4, 5, 6, 7, 8, 9]
    assert [text.split(";")[0] for text in report.held_back] == [
        "consumer 'slow' has read up to snapshot 4",
        "consumer 'fast' has read up to snapshot 8",
    ]
    assert lake.changes("t", 5, 9).sort_by("i") == before.sort_by("i")
    assert "consumer 'slow'" in str(lake.maintenance_runs()[0].detail)


def test_a_consumer_can_go_on_where_a_file_ended_right_after_what_it_has_read(lake: Lake, calendar: Calendar) -> None:
    lake.append("t", pa.table({"i": range(100, 200)}))
    last = lake.delete("t", "i >= 100")
    assert last is not None
    lake.append("t", {"i": [9]})
    read = SnapshotId(last.snapshot_id - 1)
    lake.record_consumer(Consumer("c", lake.table("t").version.table_uuid, read, calendar.time, None))

    lake.expire_snapshots(keep_last=1)
    lake.cleanup_old_files(cleanup_all=True)

    assert lake.changes("t", read + 1).num_rows == 101


def test_nothing_passes_the_last_epoch_of_a_stream(lake: Lake) -> None:
    lake.commit_epoch(Epoch("orders", 0, "q", "r"), lambda tx: tx.append("t", {"i": [100]}))
    lake.append("t", {"i": [101]})
    lake.append("t", {"i": [102]})

    report = lake.expire_snapshots(keep_last=1)

    assert ids(lake) == [10, 11, 12]
    assert report.held_back[0].startswith("stream 'orders' has its last epoch in snapshot 10")
    lake.forget_stream("orders")
    lake.expire_snapshots(keep_last=1)
    assert ids(lake) == [12]


def test_many_snapshots_go_in_several_transactions(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expiry, "CHUNK_SNAPSHOTS", 4)

    report = lake.expire_snapshots(keep_last=1)

    assert ids(lake) == [9]
    assert report.snapshot_ids == tuple(range(9))


def test_rows_and_changes_of_what_is_left_stay_the_same(lake: Lake, catalog: Catalog, oracle: Oracle) -> None:
    _live(lake)
    kept = ids(lake)[-6]
    before = state(lake, since=kept + 1)

    lake.expire_snapshots(versions=[i for i in ids(lake) if i < kept and i % 2])
    lake.expire_snapshots(keep_last=6)
    lake.cleanup_old_files(cleanup_all=True)

    assert ids(lake)[0] == kept
    assert state(lake, since=kept + 1) == before
    oracle.attach(catalog.attach)
    for at, tables in before.items():
        for name, (rows, _) in tables.items():
            found = oracle.arrow(f"SELECT * FROM lake.{name} AT (VERSION => {at})").to_pylist()
            assert sorted(found, key=repr) == rows


def test_a_renamed_table_stays(lake: Lake) -> None:
    lake.rename_table("t", "u")

    lake.expire_snapshots(keep_last=1)

    assert lake.table("u").count() == 8
    lake.append("u", {"i": [8]})
    assert lake.table("u").count() == 9


def test_a_killed_expiry_is_finished_by_the_next(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    _live(lake)
    monkeypatch.setattr(expiry, "CHUNK_SNAPSHOTS", 7)
    newest = ids(lake)[-1]
    before = lake.table("t").read().sort_by("i")

    for point in ("lease_taken", "before_expiry_commit", "after_expiry_chunk", "before_drop_leftover"):
        with at_fault(point, _die), pytest.raises(KeyboardInterrupt):
            lake.expire_snapshots(keep_last=1)
        assert lake.table("t").read().sort_by("i") == before
    lake.expire_snapshots(keep_last=1)

    assert ids(lake) == [newest]
    assert lake.table("t").read().sort_by("i") == before


def test_a_read_of_a_snapshot_that_expired_meanwhile_says_so(lake: Lake) -> None:
    table = lake.table("t", at=5)

    lake.expire_snapshots(keep_last=1)

    with pytest.raises(ObjectNotFound, match="snapshot 5 has expired since the table was opened"):
        table.read()
    with pytest.raises(ObjectNotFound, match="snapshot 5 has expired"):
        table.count()
    head = lake.table("t")
    with pytest.raises(SnapshotsExpired, match="snapshots 6 to 8"):
        lake.feed("t").read(SnapshotId(5), head.snapshot, head.version.columns, mode=FeedMode.CHANGES)


def _die() -> None:
    raise KeyboardInterrupt


def _live(lake: Lake) -> None:
    """Let tables come and go, with files, deletes and inlined rows."""
    lake.create_table("u", {"i": "int64"})
    lake.append("u", {"i": [1, 2, 3]})
    lake.append("u", pa.table({"i": range(100)}))
    lake.delete("u", "i < 5")
    lake.append("t", pa.table({"i": range(1000, 1100)}))
    lake.delete("t", "i between 1000 and 1003")
    lake.delete("t", "i < 1050")
    lake.update("t", {"i": 1}, "i = 1099")
    lake.drop_table("u")
    lake.flush_inlined("t")
    lake.append("t", {"i": [5000, 5001]})
    lake.delete("t", "i = 5000")
    lake.delete("t", "i > 1060 and i < 4000")
    lake.append("t", {"i": [6000]})
    lake.delete("t", "i = 5001")
    lake.append("t", {"i": [7000]})
