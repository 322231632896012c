"""Who maintains a job's lake beside its pipelines: it outlives what fails, and ends when it is told to. No Spark."""

import threading
from collections.abc import Callable
from datetime import UTC, datetime
from types import SimpleNamespace, TracebackType
from typing import Any, Self

import pytest

from ducklake_core.clock import SYSTEM_CLOCK
from ducklake_core.errors import CatalogUnavailable, CommitConflict, NoLakeFound
from ducklake_core.maintenance.report import MaintenanceReport, Operation, Work
from ducklake_core.observe import Event
from ducklake_streaming.jobs.events import MaintenanceFailed, MaintenanceHeldBack, MaintenanceRecovered, OrphansFound
from ducklake_streaming.jobs.maintainer import Maintainer
from ducklake_streaming.jobs.maintenance_settings import MaintenanceSettings
from tests.fixtures.waiting import wait_until

ONLY_EXPIRY = {"merge": False, "rewrite": False, "cleanup": False, "orphans": "leave"}


class Rests(threading.Event):
    """Stops a maintainer after some rests, none of which takes any time."""

    def __init__(self, rests: int) -> None:
        super().__init__()
        self.left = rests
        self.seconds: list[float] = []

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None
        if timeout >= 1:  # else it is the pause after some work, of no time here
            self.seconds.append(timeout)
            self.left -= 1
            if self.left < 0:
                self.set()
        return self.is_set()


class FakeLake:
    """A lake whose maintenance does one thing after another: it raises, or returns a report with these fields."""

    clock = SYSTEM_CLOCK

    def __init__(self, *acts: object) -> None:
        self.acts = iter(acts)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        pass

    def expire_snapshots(self, **_: object) -> MaintenanceReport:
        return self._act(Operation.EXPIRE)

    def delete_orphaned_files(self, **_: object) -> MaintenanceReport:
        return self._act(Operation.ORPHANS)

    def _act(self, operation: Operation) -> MaintenanceReport:
        act: Any = next(self.acts)  # Any: see __init__
        if isinstance(act, BaseException):
            raise act
        return MaintenanceReport(operation, datetime.now(UTC), **act)


class Heard:
    """Runs a maintainer for some runs, and keeps what it records."""

    def __init__(self, lake: FakeLake, runs: int, open_lake: Callable[[], Any] | None = None, **keys: object) -> None:
        self.events: list[Event] = []
        self.stop = Rests(runs)
        settings = MaintenanceSettings.parse({**ONLY_EXPIRY, **keys})
        maintainer = Maintainer(settings, open_lake or (lambda: lake), self, self.stop)  # type: ignore[arg-type] # a fake
        maintainer.begin()
        wait_until(self.stop.is_set)
        maintainer.end()

    def record(self, event: Event) -> None:
        self.events.append(event)


@pytest.mark.parametrize(("every", "first"), [("15m", 60.0), ("5s", 5.0)])
def test_the_first_run_comes_within_a_minute_and_the_next_after_every(every: str, first: float) -> None:
    heard = Heard(FakeLake({}, {}), 2, every=every)

    assert heard.stop.seconds == [first, *[900.0 if every == "15m" else 5.0] * 2]
    assert heard.events == []


def test_failures_are_told_and_runs_after_them_are_spaced() -> None:
    away, conflict = CatalogUnavailable("it is away"), CommitConflict("another was first")
    failed = {"work": (Work("main.t", error="UnreadableFile: gone"),)}
    heard = Heard(FakeLake(away, conflict, failed, RuntimeError("a bug"), {}), 5, every="1s")

    told = [(event.reason, event.times) for event in heard.events if isinstance(event, MaintenanceFailed)]
    assert told == [
        ("expire: CatalogUnavailable: it is away", 1),
        ("expire: CommitConflict: another was first", 2),
        ("expire of main.t: UnreadableFile: gone", 3),
        ("RuntimeError: a bug", 4),
    ]
    assert heard.events[-1] == MaintenanceRecovered(4)
    assert heard.stop.seconds == [1.0, 10.0, 20.0, 1.0, 80.0, 1.0], "one bad table delays no other"


def test_a_lake_that_is_not_there_yet_is_no_failure() -> None:
    found = iter([NoLakeFound("none yet"), None])

    def open_lake() -> Any:  # Any: a fake
        error = next(found)
        if error is not None:
            raise error
        return FakeLake({})

    heard = Heard(FakeLake(), 2, open_lake, every="5s")

    assert heard.events == []
    assert heard.stop.seconds == [5.0, 5.0, 5.0]


def test_what_holds_it_back_is_told_when_it_is_new() -> None:
    first, second = ({"held_back": (f"consumer 'silver' has read up to {snapshot}",)} for snapshot in (3, 7))

    heard = Heard(FakeLake(first, first, second, {}, second), 5, every="5s")

    told = [event.reason[-1] for event in heard.events if isinstance(event, MaintenanceHeldBack)]
    assert told == ["3", "7", "7"]


def test_orphans_that_are_counted_are_told() -> None:
    found = {"dry_run": True, "paths": ("a", "b"), "work": (Work(files_before=2, bytes_before=70),)}

    heard = Heard(FakeLake({}, found), 1, every="5s", orphans="count")

    assert heard.events == [OrphansFound(2, 70)]


def test_it_ends_at_once_while_it_rests() -> None:
    stop = threading.Event()
    recorder: Any = SimpleNamespace(record=lambda _: None)
    maintainer = Maintainer(MaintenanceSettings.parse({}), FakeLake, recorder, stop)  # type: ignore[arg-type] # a fake

    maintainer.begin()
    maintainer.end()

    assert not maintainer.is_running
