"""All of a lake's maintenance, one operation after the other. Runs on the driver; without Spark unless it is given."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, assert_never

from ducklake_core import Lake
from ducklake_core.errors import CatalogUnavailable, DuckLakeError, ObjectNotFound
from ducklake_core.log_lines import one_line
from ducklake_core.maintenance.ages import Age, option_age
from ducklake_core.maintenance.report import MaintenanceReport, Operation, Work
from ducklake_core.spec.names import join_table_name, split_table_name
from ducklake_core.tasks import Runner
from ducklake_streaming.maintenance.flush import flush_tables
from ducklake_streaming.maintenance.request import MaintenanceRequest
from ducklake_streaming.maintenance.runners import LARGE_BYTES, run_in_process

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def maintain(  # noqa: PLR0913 # each is a choice that users make, by name
    lake: Lake,
    *,
    spark: SparkSession | None = None,
    operations: Sequence[str] | None = None,
    table: str | Sequence[str] | None = None,
    expire_older_than: Age | None = None,
    keep_last: int | None = None,
    cleanup_older_than: Age | None = None,
    orphans_older_than: Age | None = None,
    delete_orphans: bool = False,
    delete_threshold: float | None = None,
    large_bytes: int = LARGE_BYTES,
) -> list[MaintenanceReport]:
    """Do all of a lake's maintenance, or some `operations` of it, and return a report of each.

    The order is that of DuckDB's CHECKPOINT: flush, expire, merge, rewrite, cleanup, orphans. `table`: flush, merge and
    rewrite only this one, or these. Snapshots expire only if `expire_older_than` or the lake's option of that name tell
    an age; the newest `keep_last` stay all the same. Orphans are counted, and removed only with `delete_orphans`. Ages
    are seconds, texts such as "7d", or timedeltas; None is the lake's option, or the reference's default.

    With `spark`, executors merge and rewrite tables that have files of `large_bytes` or more to write anew, and this
    process the others.

    An operation or a table that fails keeps no other from its turn: `report.has_failed`, and `error` of its work, tell.
    Raises InvalidInput, before anything is done, for what makes no sense.
    """
    request = MaintenanceRequest.of(
        operations=operations,
        table=table,
        expire_older_than=expire_older_than,
        keep_last=keep_last,
        cleanup_older_than=cleanup_older_than,
        orphans_older_than=orphans_older_than,
        delete_orphans=delete_orphans,
        delete_threshold=delete_threshold,
    )
    runner = run_in_process if spark is None else _by_executors(spark, large_bytes)
    return list(run_operations(lake, request, runner))


def run_operations(
    lake: Lake, request: MaintenanceRequest, runner: Runner, pause: Callable[[], None] = lambda: None
) -> Iterator[MaintenanceReport]:
    """Do what is asked for, and yield each report as soon as it is there.

    `pause` is called after each operation; where tables are taken one by one, after each of these; and in between where
    files are removed. What it raises ends the work.
    """
    for operation in request.operations:
        started_at, begun = lake.clock.now(), lake.clock.seconds()
        try:
            yield _run(lake, operation, request, runner, pause)
        except DuckLakeError as error:
            failed = (Work(error=one_line(error)),)
            yield MaintenanceReport(operation, started_at, lake.clock.seconds() - begun, failed)
            if isinstance(error, CatalogUnavailable):  # it was waited for: each other would wait as long
                return
        pause()


def _by_executors(spark: SparkSession, large_bytes: int) -> Runner:
    from ducklake_sinks.spark_tasks import SparkRunner  # noqa: PLC0415 # imports Spark
    from ducklake_streaming.maintenance.spark_runner import LargeBySpark  # noqa: PLC0415 # likewise

    return LargeBySpark(SparkRunner(spark), run_in_process, large_bytes)


def _run(
    lake: Lake, operation: Operation, request: MaintenanceRequest, runner: Runner, pause: Callable[[], None]
) -> MaintenanceReport:
    dry_run, threshold = request.dry_run, request.delete_threshold
    match operation:
        case Operation.FLUSH:
            return flush_tables(lake, request.tables, pause)
        case Operation.EXPIRE:
            return _expire(lake, request)
        case Operation.MERGE:
            merge = partial(lake.merge_adjacent_files, runner=runner)
            return _each(lake, operation, request.tables, pause, merge)
        case Operation.REWRITE:
            rewrite = partial(lake.rewrite_data_files, delete_threshold=threshold, runner=runner)
            return _each(lake, operation, request.tables, pause, rewrite)
        case Operation.CLEANUP:
            return lake.cleanup_old_files(
                older_than=request.cleanup_older_than,
                cleanup_all=request.any_age,
                also_remove=request.also_remove,
                dry_run=dry_run,
                pause=pause,
            )
        case Operation.ORPHANS:
            return lake.delete_orphaned_files(
                older_than=request.orphans_older_than,
                cleanup_all=request.any_age,
                dry_run=dry_run or not request.delete_orphans,
                pause=pause,
            )
        case never:
            assert_never(never)


def _expire(lake: Lake, request: MaintenanceRequest) -> MaintenanceReport:
    older_than, keep_last, versions = request.expire_older_than, request.keep_last, request.versions or None
    if keep_last is not None and older_than is None and not request.expire_all_others:
        older_than = option_age(lake, "expire_older_than")
        keep_last = None if older_than is None else keep_last  # how many stay is no reason for others to go
    return lake.expire_snapshots(older_than=older_than, keep_last=keep_last, versions=versions, dry_run=request.dry_run)


def _each(
    lake: Lake,
    operation: Operation,
    tables: Sequence[str],
    pause: Callable[[], None],
    run: Callable[[str | None], MaintenanceReport],
) -> MaintenanceReport:
    """Run an operation on all tables at once, or on each that is named, and return one report."""
    if not tables:
        return run(None)
    reports = []
    for table in tables:
        try:
            reports.append(run(table))
        except ObjectNotFound as error:  # core has the others in the work
            work = Work(join_table_name(*split_table_name(table)), error=one_line(error))
            reports.append(MaintenanceReport(operation, lake.clock.now(), work=(work,)))
        pause()
    return _joined(reports)


def _joined(reports: Sequence[MaintenanceReport]) -> MaintenanceReport:
    """Return the reports of one operation on several tables as one."""
    return replace(
        reports[0],
        seconds=sum(report.seconds for report in reports),
        work=tuple(work for report in reports for work in report.work),
        paths=tuple(path for report in reports for path in report.paths),
        held_back=tuple(dict.fromkeys(reason for report in reports for reason in report.held_back)),
    )
