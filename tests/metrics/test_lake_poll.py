"""A poll of the catalog: the numbers are the lake's own, a run of anybody's maintenance counts, outages are borne."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

from ducklake_core import Lake, MaintenanceRun
from ducklake_core.catalog.maintenance_runs import record_runs
from ducklake_core.clock import Clock, utc_now
from ducklake_core.errors import CatalogUnavailable
from ducklake_core.model import Consumer, SnapshotId
from ducklake_streaming.metrics import declared as m
from ducklake_streaming.metrics.lake_poll import LakePoll
from ducklake_streaming.metrics.registry import Numbers
from tests.fixtures.catalogs import Catalog, SqliteCatalog

T = "main.t"


@pytest.fixture
def lake(catalog: Catalog) -> Iterator[Lake]:
    with Lake.create(catalog.url, catalog.data_path) as lake:
        lake.set_option("data_inlining_row_limit", 10)
        lake.create_table("t", {"i": "int64"})
        yield lake


@pytest.fixture
def numbers() -> Numbers:
    return Numbers()


@pytest.fixture
def poll(lake: Lake, numbers: Numbers, catalog: Catalog) -> Iterator[LakePoll]:
    assert lake.snapshots()  # there is one
    made = LakePoll(lambda: Lake.open(catalog.url, catalog_timeout=0), numbers)
    yield made
    made.close()


def rows(*numbers: int) -> pa.Table:
    return pa.table({"i": list(numbers)})


def test_gauges_are_the_totals_of_the_lake(lake: Lake, poll: LakePoll, numbers: Numbers) -> None:
    lake.append("t", rows(*range(100)))
    lake.delete("t", "i < 3")
    lake.append("t", rows(1, 2))

    poll()

    [table] = lake.totals().tables
    assert numbers.value(m.TABLE_ROWS, T) == table.rows == 99
    assert numbers.value(m.TABLE_DATA_FILES, T) == 1
    assert numbers.value(m.TABLE_SMALL_FILES, T) == 1
    assert numbers.value(m.TABLE_FILE_BYTES, T) == table.file_bytes
    assert numbers.value(m.TABLE_DELETED_ROWS, T) == 3
    assert numbers.value(m.TABLE_INLINED_ROWS, T) == 2
    assert numbers.value(m.TABLE_INLINED_BYTES, T) == table.inlined.size_bytes
    assert (numbers.value(m.TABLE_INLINED_AGE, T) or 0) > 0
    assert numbers.value(m.CATALOG_SNAPSHOTS) == len(lake.snapshots())
    assert numbers.value(m.CATALOG_LAST_SNAPSHOT) == lake.snapshots()[-1].snapshot_time.timestamp()
    assert numbers.value(m.CATALOG_UP) == 1
    assert poll.state is not None
    assert poll.state.totals.head.snapshot_id == lake.snapshots()[-1].snapshot_id


def test_size_is_that_of_the_database(poll: LakePoll, numbers: Numbers, catalog: Catalog) -> None:
    poll()

    size = numbers.value(m.CATALOG_BYTES)
    if isinstance(catalog, SqliteCatalog):
        assert size == catalog.path.stat().st_size
    else:
        names = [name for (name,) in catalog.query("SELECT tablename FROM pg_tables WHERE tablename LIKE 'ducklake%'")]
        [[told]] = catalog.query(
            " + ".join([f"pg_total_relation_size('{name}')" for name in names]).join(("SELECT ", ""))
        )
        assert size == told


def test_dropped_table_is_gone_from_the_next_poll(lake: Lake, poll: LakePoll, numbers: Numbers) -> None:
    poll()
    lake.drop_table("t")
    lake.create_table("u", {"i": "int64"})

    poll()

    assert (numbers.value(m.TABLE_ROWS, T), numbers.value(m.TABLE_ROWS, "main.u")) == (None, 0)


def test_tables_beyond_the_cap_are_added_up(lake: Lake, catalog: Catalog) -> None:
    for name in ("u", "v"):
        lake.create_table(name, {"i": "int64"})
        lake.append(name, rows(1, 2))
    numbers = Numbers(max_tables=1)
    poll = LakePoll(lambda: Lake.open(catalog.url), numbers)

    poll()
    poll.close()

    assert numbers.value(m.TABLE_INLINED_ROWS, m.OTHER) == 4


def test_margin_of_a_consumer_ends_where_expiry_has_come(lake: Lake, poll: LakePoll, numbers: Numbers) -> None:
    for number in range(4):
        lake.append("t", rows(number))
    times = [snapshot.snapshot_time for snapshot in lake.snapshots()]
    head, uuid = lake.snapshots()[-1].snapshot_id, lake.totals().tables[0].table_uuid
    for name, snapshot in (("slow", 1), ("quick", head)):
        lake.record_consumer(Consumer(name, uuid, SnapshotId(snapshot), utc_now(), None))

    poll()

    margin = numbers.value(m.SOURCE_EXPIRY_MARGIN, "slow")
    assert margin == (times[2] - times[0]).total_seconds()
    assert numbers.value(m.SOURCE_BEHIND_SNAPSHOTS, "slow") == head - 1
    assert numbers.value(m.SOURCE_BEHIND_SNAPSHOTS, "quick") == 0
    assert numbers.value(m.SOURCE_BEHIND_SECONDS, "quick") == 0
    assert (numbers.value(m.SOURCE_BEHIND_SECONDS, "slow") or 0) > 0
    assert (numbers.value(m.SOURCE_EXPIRY_MARGIN, "quick") or 0) > margin

    lake.forget_consumer("slow")
    lake.expire_snapshots(versions=[0, 1, 2])
    lake.record_consumer(Consumer("slow", uuid, SnapshotId(1), utc_now(), None))
    poll()
    assert numbers.value(m.SOURCE_EXPIRY_MARGIN, "slow") == 0


def run(run_id: str, table: str | None, outcome: str, started: datetime) -> MaintenanceRun:
    return MaintenanceRun(run_id, "merge", table, started, 1.5, outcome, 0, 0, 0, 0, 0, 0, None)


def test_runs_of_others_are_counted_once(lake: Lake, poll: LakePoll, numbers: Numbers) -> None:
    begun, before = utc_now() + timedelta(seconds=1), datetime(2026, 1, 1, tzinfo=UTC)
    record_runs(lake.database, [run("old", None, "nothing", before)])
    record_runs(lake.database, [run("bad", T, "failed", begun), run("bad", "main.u", "done", begun)])
    for _ in range(2):
        poll()
    later = begun + timedelta(seconds=5)
    record_runs(lake.database, [run("late", None, "held back", later)])
    poll()

    assert numbers.value(m.MAINTENANCE_RUNS, "merge", "failed") == 1
    assert numbers.value(m.MAINTENANCE_RUNS, "merge", "done") == 1
    assert numbers.value(m.MAINTENANCE_SECONDS, "merge") == 4.5
    assert numbers.value(m.MAINTENANCE_LAST_RUN, "merge") == later.timestamp()
    assert numbers.value(m.MAINTENANCE_LAST_SUCCESS, "merge") == later.timestamp()


@pytest.mark.usefixtures("lake")
def test_catalog_that_is_away_leaves_the_last_numbers(numbers: Numbers, catalog: Catalog) -> None:
    is_away = False

    def open_lake() -> Lake:
        if is_away:
            raise CatalogUnavailable("away")
        return Lake.open(catalog.url)

    poll = LakePoll(open_lake, numbers, Clock())
    poll()
    poll.close()
    is_away = True

    with pytest.raises(CatalogUnavailable):
        poll()

    assert (numbers.value(m.CATALOG_UP), numbers.value(m.TABLE_ROWS, T)) == (0, 0)
    is_away = False
    poll()
    poll.close()
    assert numbers.value(m.CATALOG_UP) == 1


def test_lake_that_is_not_there_yet_is_no_outage(numbers: Numbers, catalog: Catalog) -> None:
    poll = LakePoll(lambda: Lake.open(catalog.url), numbers)

    poll()

    assert numbers.value(m.CATALOG_UP) == 1
    assert poll.state is None
