"""What maintenance shows: a bar while it works, then what it did, as a table or as JSON lines. No Spark."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self

from ducklake_streaming.cli.output import Output, make_screen
from ducklake_streaming.overview.fields import plain_text
from ducklake_streaming.overview.maintenance_runs import FIELDS, run_row

if TYPE_CHECKING:
    from rich.progress import Progress

    from ducklake_core import Lake, MaintenanceReport
    from ducklake_streaming.maintenance.request import MaintenanceRequest


class MaintenanceBar:
    """Shows on stderr, if that is a terminal, which operation is done now and how many of its tasks."""

    def __init__(self) -> None:
        self._progress: Progress | None = None

    def __enter__(self) -> Self:
        if sys.stderr.isatty():
            from rich import progress as bars  # noqa: PLC0415 # for people only

            shown = bars.TextColumn("{task.description}"), bars.BarColumn(), bars.MofNCompleteColumn()
            screen = make_screen(error=True)
            self._progress = bars.Progress(bars.SpinnerColumn(), *shown, bars.TimeElapsedColumn(), console=screen)
            self._progress.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if self._progress is not None:
            self._progress.stop()

    def run(self, lake: Lake, request: MaintenanceRequest) -> Iterator[MaintenanceReport]:
        """Do what is asked for in this process, and yield the reports; the bar follows."""
        from ducklake_streaming.maintenance.maintain import run_operations  # noqa: PLC0415 # see the package's docstring
        from ducklake_streaming.maintenance.runners import WatchedRunner, run_in_process  # noqa: PLC0415 # likewise

        reports = run_operations(lake, request, WatchedRunner(run_in_process, self._expect, self._advance))
        for operation in request.operations:
            self._begin(operation)
            report = next(reports, None)
            if report is None:
                return
            self._end()
            yield report

    def _begin(self, operation: str) -> None:
        if self._progress is not None:
            self._progress.add_task(operation, total=None)

    def _expect(self, tasks: int) -> None:
        """Take notice of the tasks of one more table."""
        if self._progress is not None:
            task = self._progress.tasks[-1]
            self._progress.update(task.id, total=(task.total or 0) + tasks)

    def _advance(self) -> None:
        if self._progress is not None:
            self._progress.update(self._progress.tasks[-1].id, advance=1)

    def _end(self) -> None:
        if self._progress is not None:
            task = self._progress.tasks[-1]
            done = max(1, int(task.completed))
            self._progress.update(task.id, total=done, completed=done)


def show_reports(output: Output, reports: Sequence[MaintenanceReport]) -> None:
    """Show what was done, a line for each operation and table; what a dry run would delete is named, too."""
    from ducklake_core.maintenance.run import runs_of  # noqa: PLC0415 # see the docstring of the package

    rows = [run_row(run) | _dry_run_facts(report) for report in reports for run in runs_of(report, "")]
    output.show(FIELDS, rows)
    if not output.as_json:
        for path in (path for report in reports if report.dry_run for path in report.paths):
            make_screen().print(f"would be deleted: {plain_text(path)}")


def _dry_run_facts(report: MaintenanceReport) -> dict[str, object]:
    return {"dry_run": True, "paths": list(report.paths)} if report.dry_run else {}
