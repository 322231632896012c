"""How every operation of maintenance is run: under a lease, timed, recorded in the catalog, told to the recorder.

Runs on the driver. Two that maintain one lake do not do the same work twice: the second yields and says so. The lease
only saves work. What keeps data safe is in the operations themselves, whose commits find conflicts.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol, TypeAlias
from uuid import uuid4

from ducklake_core import faults
from ducklake_core.catalog.database import Database
from ducklake_core.catalog.leases import Lease, give_back, take_lease
from ducklake_core.catalog.maintenance_runs import MaintenanceRun, record_runs
from ducklake_core.clock import Clock
from ducklake_core.errors import CatalogForbidden, DuckLakeError
from ducklake_core.files.storage import Storage
from ducklake_core.log_lines import one_line
from ducklake_core.maintenance.report import MaintenanceReport, Operation, Work
from ducklake_core.observe import MaintenanceDone, MaintenanceNotRecorded, Recorders, TableNotMaintained

LEASE_NAME = "maintenance"
LEASE_SECONDS = 120.0  # after which the work of a process that was killed can be taken over
_RENEWALS = 4  # within that time

Pause: TypeAlias = Callable[[], None]  # called between two pieces of work; what it raises ends the operation there


def no_pause() -> None:
    """Go on at once."""


class Maintained(Protocol):
    """What maintenance needs of a lake. `names_data_path`: who opened it said where its files are."""

    database: Database
    storage: Storage
    data_path: str
    names_data_path: bool
    clock: Clock
    recorder: Recorders


@dataclass(frozen=True, slots=True)
class Done:
    """What an operation did; the fields are those of `MaintenanceReport`."""

    work: tuple[Work, ...] = ()
    paths: tuple[str, ...] = ()
    held_back: tuple[str, ...] = ()
    snapshot_ids: tuple[int, ...] = ()


def run_operation(
    lake: Maintained, operation: Operation, act: Callable[[], Done], *, dry_run: bool = False
) -> MaintenanceReport:
    """Do it and return its report. A dry run takes no lease and leaves no record.

    While another maintains the lake it is not done, and `held_back` says who does. What `act` raises is recorded and
    raised; an operation on many tables rather gives each failure as the `error` of a `Work`.
    """
    started_at, begin = lake.clock.now(), lake.clock.seconds()

    def report(done: Done) -> MaintenanceReport:
        seconds, told = lake.clock.seconds() - begin, (done.work, done.paths, done.held_back)
        return MaintenanceReport(operation, started_at, seconds, *told, dry_run, done.snapshot_ids)

    if dry_run:
        return report(act())
    try:
        with _lease(lake, operation) as other:
            found = report(act() if other is None else Done(held_back=(_yields_to(other),)))
    except DuckLakeError as error:
        record_report(lake, report(Done((Work(error=one_line(error)),))))
        raise
    record_report(lake, found)
    return found


@contextmanager
def _lease(lake: Maintained, operation: Operation) -> Iterator[Lease | None]:
    """Hold the lake's lease, renewed as long as it takes; give the lease of another who holds it now instead."""
    holder = f"{socket.gethostname()}:{os.getpid()}:{uuid4().hex[:8]}"

    def take() -> Lease:
        now = lake.clock.now()
        wanted = Lease(LEASE_NAME, holder, operation.value, now + timedelta(seconds=LEASE_SECONDS))
        return take_lease(lake.database, wanted, now)

    try:
        found = take()
    except CatalogForbidden as error:  # a role that may not create tables; see above: the work is safe without
        lake.recorder.record(MaintenanceNotRecorded(operation.value, error))
        yield None
        return
    if found.holder != holder:
        yield found
        return
    try:
        faults.at("lease_taken")
        with _renewed(lake, operation, take):
            yield None
    finally:
        _give_back(lake, operation, found)


def _give_back(lake: Maintained, operation: Operation, lease: Lease) -> None:
    try:
        give_back(lake.database, lease)
    except DuckLakeError as error:  # it runs out by itself; what was done is done
        lake.recorder.record(MaintenanceNotRecorded(operation.value, error))


@contextmanager
def _renewed(lake: Maintained, operation: Operation, take: Callable[[], object]) -> Iterator[None]:
    """Take the lease again and again in a thread, until the block ends."""
    is_over = threading.Event()

    def renew() -> None:
        while not is_over.wait(LEASE_SECONDS / _RENEWALS):
            try:
                take()
            except DuckLakeError as error:  # the next time will do, and the work is safe without
                lake.recorder.record(MaintenanceNotRecorded(operation.value, error))

    thread = threading.Thread(target=renew, name="ducklake-lease", daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def _yields_to(other: Lease) -> str:
    return (
        f"another process maintains this lake ('{other.purpose}', holder {other.holder}) until "
        f"{_shown(other.expires_at)} or longer: nothing was done"
    )


def _shown(time: datetime) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S UTC")


def record_report(lake: Maintained, report: MaintenanceReport) -> None:
    """Write the record of a run and tell the recorder; a catalog that does not take it does not undo what was done."""
    for work in report.work:
        _tell(lake, report, work)
    try:
        record_runs(lake.database, runs_of(report, uuid4().hex))
    except DuckLakeError as error:
        lake.recorder.record(MaintenanceNotRecorded(report.operation.value, error))


def _tell(lake: Maintained, report: MaintenanceReport, work: Work) -> None:
    operation = report.operation.value
    if work.error is not None:
        lake.recorder.record(TableNotMaintained(operation, work.table, work.error))
    if has_done(work):
        files = work.files_before, work.files_after, work.bytes_before, work.bytes_after
        made, seconds = (work.rows, work.snapshot_id), work.seconds or report.seconds
        lake.recorder.record(MaintenanceDone(operation, work.table, *files, *made, seconds, work.snapshots))


def runs_of(report: MaintenanceReport, run_id: str) -> list[MaintenanceRun]:
    """Return the rows that the record of a report has: one for each table of which there is something to tell."""
    held_back = "; ".join(report.held_back) or None
    telling = [work for work in report.work if work.skipped or work.error or has_done(work)]
    return [_run_of(report, work, run_id, held_back) for work in telling or (Work(),)]


def _run_of(report: MaintenanceReport, work: Work, run_id: str, held_back: str | None) -> MaintenanceRun:
    detail = work.error or work.skipped or held_back
    files = work.files_before, work.files_after, work.bytes_before, work.bytes_after
    counts = *files, work.rows, work.snapshots
    seconds = work.seconds or report.seconds
    head = run_id, report.operation.value, work.table, report.started_at, seconds
    return MaintenanceRun(*head, _outcome(work, held_back), *counts, detail)


def _outcome(work: Work, held_back: str | None) -> str:
    if work.error is not None:
        return "failed"
    if has_done(work):
        return "done"
    return "held back" if held_back else "nothing"


def has_done(work: Work) -> bool:
    """Tell whether there is something that was done, whatever failed besides."""
    return any((work.files_before, work.files_after, work.rows, work.snapshots))
