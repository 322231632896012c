"""Maintains the lake of a job beside its pipelines. Runs on the driver, in a thread with a connection of its own.

It takes a bounded share of the time, does one table after the other, and makes no pipeline wait or fail: what goes
wrong is recorded, and the next run comes later.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ducklake_core import Lake
from ducklake_core.errors import NoLakeFound
from ducklake_core.maintenance.report import MaintenanceReport, Operation
from ducklake_core.observe import Recorder
from ducklake_core.tasks import Runner
from ducklake_streaming.jobs.events import MaintenanceFailed, MaintenanceHeldBack, MaintenanceRecovered, OrphansFound
from ducklake_streaming.jobs.exit_codes import line_of_error
from ducklake_streaming.jobs.maintenance_settings import MaintenanceSettings
from ducklake_streaming.maintenance.maintain import run_operations
from ducklake_streaming.maintenance.pace import MaintenanceStopped, Pace
from ducklake_streaming.maintenance.runners import PacedRunner, run_in_process

FIRST_SECONDS = 60.0  # after the start, if that is sooner than `every`
FAILURE_SECONDS, LONGEST_SECONDS = 10.0, 600.0  # the least time to the next run after a failure, and after many
EXIT_SECONDS = 30.0


class Maintainer:
    """Runs maintenance every so often, from `begin` to `end`.

    `choose_runner` makes the runner of all tasks from the one that does them in the process.
    """

    def __init__(
        self,
        settings: MaintenanceSettings,
        open_lake: Callable[[], Lake],
        recorder: Recorder,
        stop: threading.Event,
        choose_runner: Callable[[Runner, Pace], Runner] = lambda in_process, _: in_process,
    ) -> None:
        self._settings = settings
        self._open_lake = open_lake
        self._recorder = recorder
        self._stop = stop
        self._pace = Pace(settings.share, stop)
        self._runner = choose_runner(PacedRunner(run_in_process, self._pace), self._pace)
        self._every = settings.every.total_seconds()
        self._failed_runs = 0
        self._held_back: dict[Operation, tuple[str, ...]] = {}
        self._thread = threading.Thread(target=self._run, name="ducklake-maintenance", daemon=True)

    def begin(self) -> None:
        self._thread.start()

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive()

    def stop(self) -> None:
        """Tell it to end: after the task that it does, or at once while it rests."""
        self._stop.set()

    def end(self, seconds: float = EXIT_SECONDS) -> None:
        """Stop it, and wait until it has ended, for so long at most."""
        self.stop()
        if self.is_running:
            self._thread.join(seconds)

    # ---- in the thread

    def _run(self) -> None:
        rest = min(self._every, FIRST_SECONDS)
        while not self._stop.wait(rest):
            rest = max(self._every, self._run_once())

    def _run_once(self) -> float:
        """Do one run and record how it has ended; return how long to wait for the next at least."""
        try:
            failures = self._maintain()
        except (MaintenanceStopped, NoLakeFound):  # the first batch will create it
            return 0.0
        except Exception as error:  # noqa: BLE001 # the thread must outlive a catalog that is away, and tries again
            failures = [Failure(line_of_error(error))]
        if self._stop.is_set():  # who is to end need not know that Spark, or the catalog, has ended before
            return 0.0
        return self._note(failures)

    def _maintain(self) -> list[Failure]:
        """Do what the settings ask for; return what failed."""
        self._pace.begin()
        failures: list[Failure] = []
        with self._open_lake() as lake:
            for report in run_operations(lake, self._settings.request(), self._runner, self._pace.rest):
                failures += failures_of(report)
                self._tell(report)
        return failures

    def _tell(self, report: MaintenanceReport) -> None:
        """Record what core has not: what holds an operation back, when that is new, and orphans that are counted."""
        if report.held_back != self._held_back.get(report.operation, ()):
            for reason in report.held_back:
                self._recorder.record(MaintenanceHeldBack(report.operation, reason))
        self._held_back[report.operation] = report.held_back
        if report.operation is Operation.ORPHANS and report.dry_run and report.paths:
            self._recorder.record(OrphansFound(len(report.paths), report.total.bytes_before))

    def _note(self, failures: Sequence[Failure]) -> float:
        """Record how a run has ended; one bad table keeps the others from no run, an outage does for a while."""
        if not failures:
            if self._failed_runs:
                self._recorder.record(MaintenanceRecovered(self._failed_runs))
            self._failed_runs = 0
            return 0.0
        is_outage = any(failure.table is None for failure in failures)
        seconds = min(FAILURE_SECONDS * 2.0 ** min(self._failed_runs, 10), LONGEST_SECONDS) if is_outage else 0.0
        self._failed_runs += 1
        self._recorder.record(MaintenanceFailed(failures[0].reason, self._failed_runs, max(seconds, self._every)))
        return seconds


@dataclass(frozen=True, slots=True)
class Failure:
    """What failed in a run: of one table, or, with `table` None, as a whole."""

    reason: str
    table: str | None = None


def failures_of(report: MaintenanceReport) -> list[Failure]:
    """Return what failed, and of which table."""
    failed = [work for work in report.work if work.error is not None]
    return [
        Failure(f"{report.operation}{f' of {work.table}' if work.table else ''}: {work.error}", work.table)
        for work in failed
    ]
