"""How operations of maintenance are run: one at a time in a lake, recorded, and safe where nothing can be recorded."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from ducklake_core import Lake
from ducklake_core.catalog import maintenance_runs
from ducklake_core.catalog.leases import Lease, read_leases, take_lease
from ducklake_core.clock import Clock
from ducklake_core.errors import InvalidInput
from ducklake_core.maintenance.report import Operation, Work
from ducklake_core.maintenance.run import LEASE_SECONDS, Done, run_operation
from ducklake_core.observe import Event, MaintenanceDone, MaintenanceNotRecorded
from tests.fixtures.catalogs import Catalog, PostgresCatalog

on_postgres = pytest.mark.parametrize("make_catalog", ["postgres"], indirect=True)
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


class Hands:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.time = BEGIN

    @property
    def clock(self) -> Clock:
        return Clock(now=lambda: self.time, seconds=self.seconds)

    def seconds(self) -> float:
        return self.time.timestamp()

    def move(self, seconds: float) -> None:
        self.time += timedelta(seconds=seconds)


class Heard:
    def __init__(self) -> None:
        self.events: list[Event] = []

    def record(self, event: Event) -> None:
        self.events.append(event)


@pytest.fixture
def hands() -> Hands:
    return Hands()


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
def lake(catalog: Catalog, hands: Hands, heard: Heard) -> Iterator[Lake]:
    with Lake.create(catalog.url, catalog.data_path, clock=hands.clock, recorder=heard) as lake:
        yield lake


def test_a_run_is_recorded_and_told(lake: Lake, hands: Hands, heard: Heard) -> None:
    def act() -> Done:
        hands.move(2.5)
        return Done((Work("main.t", 10, 1, 900, 800, rows=50), Work("main.u", skipped="nothing is small")), ("a",))

    report = run_operation(lake, Operation.MERGE, act)

    assert (report.started_at, report.seconds, report.paths) == (BEGIN, 2.5, ("a",))
    runs = [(r.operation, r.table_name, r.outcome, r.files_before, r.detail) for r in lake.maintenance_runs()]
    assert runs == [("merge", "main.t", "done", 10, None), ("merge", "main.u", "nothing", 0, "nothing is small")]
    assert [e.table for e in heard.events if isinstance(e, MaintenanceDone)] == ["main.t"]


def test_the_newest_runs_come_first_and_old_ones_are_forgotten(
    lake: Lake, hands: Hands, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maintenance_runs, "RUNS_KEPT", 3)
    for operation in (Operation.FLUSH, Operation.EXPIRE, Operation.MERGE, Operation.CLEANUP):
        run_operation(lake, operation, Done)
        hands.move(1)

    assert [run.operation for run in lake.maintenance_runs()] == ["cleanup", "merge", "expire"]
    assert [run.operation for run in lake.maintenance_runs(limit=1)] == ["cleanup"]


def test_a_second_maintainer_yields_and_says_to_whom(lake: Lake, catalog: Catalog, hands: Hands) -> None:
    with Lake.open(catalog.url, clock=hands.clock) as other:

        def act() -> Done:
            return Done(held_back=run_operation(other, Operation.EXPIRE, _unwanted).held_back)

        [held_back] = run_operation(lake, Operation.MERGE, act).held_back
        assert "another process maintains this lake ('merge'" in held_back
        assert run_operation(other, Operation.EXPIRE, lambda: Done((Work(snapshots=1),))).held_back == ()


def test_a_lease_that_ran_out_is_taken_over(lake: Lake, hands: Hands) -> None:
    take_lease(lake.database, Lease("maintenance", "killed", "merge", BEGIN + timedelta(seconds=LEASE_SECONDS)), BEGIN)

    hands.move(LEASE_SECONDS - 1)
    before = run_operation(lake, Operation.EXPIRE, _unwanted)
    hands.move(1)
    after = run_operation(lake, Operation.EXPIRE, lambda: Done((Work(snapshots=1),)))

    assert len(before.held_back) == 1
    assert after.total.snapshots == 1
    assert lake.database.ask(read_leases) == []


def test_a_lease_that_a_wrong_clock_has_taken_holds_nobody_up(lake: Lake) -> None:
    years = timedelta(days=3650)
    take_lease(lake.database, Lease("maintenance", "lost", "merge", BEGIN + years), BEGIN + years)

    report = run_operation(lake, Operation.EXPIRE, lambda: Done((Work(snapshots=1),)))

    assert (report.held_back, report.total.snapshots) == ((), 1)
    assert lake.database.ask(read_leases) == []


def test_a_failure_is_recorded_and_raised_and_gives_the_lease_back(lake: Lake) -> None:
    def fail() -> Done:
        raise InvalidInput("no such thing")

    with pytest.raises(InvalidInput, match="no such thing"):
        run_operation(lake, Operation.MERGE, fail)

    [run] = lake.maintenance_runs()
    assert (run.outcome, run.detail) == ("failed", "InvalidInput: no such thing")
    assert lake.database.ask(read_leases) == []


def test_a_dry_run_leaves_no_trace(lake: Lake, catalog: Catalog) -> None:
    before = catalog.dump()

    report = run_operation(lake, Operation.MERGE, Done, dry_run=True)

    assert report.dry_run
    assert catalog.dump() == before


@on_postgres
def test_a_role_that_may_not_create_tables_maintains_all_the_same(catalog: PostgresCatalog, heard: Heard) -> None:
    Lake.create(catalog.url, catalog.data_path).close()
    with psycopg.connect(catalog.database.conninfo, autocommit=True) as connection:
        connection.execute("DROP ROLE IF EXISTS limited; CREATE ROLE limited LOGIN")
        connection.execute("REVOKE CREATE ON SCHEMA public FROM PUBLIC")  # which PostgreSQL 14 grants
        connection.execute("GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO limited")
    try:
        with Lake.open(catalog.url.replace("lake@", "limited@"), recorder=heard) as lake:
            report = run_operation(lake, Operation.EXPIRE, lambda: Done((Work(snapshots=1),)))
            assert lake.maintenance_runs() == []
    finally:
        with psycopg.connect(catalog.database.conninfo, autocommit=True) as connection:
            connection.execute("DROP OWNED BY limited; DROP ROLE limited")

    assert report.total.snapshots == 1
    assert any(isinstance(event, MaintenanceNotRecorded) for event in heard.events)


def _unwanted() -> Done:
    raise AssertionError("it was to yield")
