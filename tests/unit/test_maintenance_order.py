"""All operations of maintenance are tried, whatever fails; only a catalog that is away ends the run."""

from datetime import UTC, datetime
from typing import Any

import pytest

from ducklake_core.clock import SYSTEM_CLOCK
from ducklake_core.errors import CatalogUnavailable, CommitConflict, DuckLakeError
from ducklake_core.maintenance.report import MaintenanceReport, Operation
from ducklake_streaming.maintenance.maintain import run_operations
from ducklake_streaming.maintenance.request import MaintenanceRequest
from ducklake_streaming.maintenance.runners import run_in_process

OPERATIONS = ("expire", "merge", "rewrite", "cleanup", "orphans")


class FakeLake:
    """A lake whose merge fails; it notes what else it is asked for."""

    clock = SYSTEM_CLOCK

    def __init__(self, error: DuckLakeError) -> None:
        self.error = error
        self.asked: list[str] = []

    def expire_snapshots(self, **_: object) -> MaintenanceReport:
        return self._note(Operation.EXPIRE)

    def merge_adjacent_files(self, table: str | None, **_: object) -> MaintenanceReport:
        assert table is None
        raise self.error

    def rewrite_data_files(self, table: str | None, **_: object) -> MaintenanceReport:
        assert table is None
        return self._note(Operation.REWRITE)

    def cleanup_old_files(self, **_: object) -> MaintenanceReport:
        return self._note(Operation.CLEANUP)

    def delete_orphaned_files(self, *, dry_run: bool, **_: object) -> MaintenanceReport:
        assert dry_run
        return self._note(Operation.ORPHANS)

    def _note(self, operation: Operation) -> MaintenanceReport:
        self.asked.append(operation)
        return MaintenanceReport(operation, datetime.now(UTC))


def run(error: DuckLakeError) -> tuple[FakeLake, list[MaintenanceReport]]:
    lake: Any = FakeLake(error)
    return lake, list(run_operations(lake, MaintenanceRequest.of(operations=OPERATIONS), run_in_process))


def test_an_operation_that_fails_keeps_no_other_from_its_turn() -> None:
    lake, reports = run(CommitConflict("another was first"))

    assert lake.asked == ["expire", "rewrite", "cleanup", "orphans"]
    assert [report.operation for report in reports] == [*OPERATIONS]
    assert [work.error for report in reports for work in report.work] == ["CommitConflict: another was first"]
    assert [report.has_failed for report in reports] == [False, True, False, False, False]


def test_a_catalog_that_is_away_was_waited_for_once() -> None:
    lake, reports = run(CatalogUnavailable("it is away"))

    assert lake.asked == ["expire"]
    assert [report.operation for report in reports] == ["expire", "merge"]


@pytest.mark.parametrize("error", [KeyboardInterrupt(), RuntimeError("a bug")], ids=repr)
def test_what_is_no_error_of_the_lake_comes_through(error: Any) -> None:
    with pytest.raises(type(error)):
        run(error)
