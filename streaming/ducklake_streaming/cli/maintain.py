"""The commands `maintain`: what keeps a lake fast, one operation or all of them. They need no Spark."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from ducklake_streaming.cli.completion import complete_table
from ducklake_streaming.cli.errors import ExitCode
from ducklake_streaming.cli.lake_command import LakeAccess, add_lake_command, add_lake_group
from ducklake_streaming.cli.maintenance_output import MaintenanceBar, show_reports
from ducklake_streaming.overview.maintenance_runs import RUN_FIELDS, run_row

EXPLANATION = """\
Keep a lake fast: flush, expire, merge, rewrite, clean up, find orphans. Without a command: show what was done last.

From a scheduler: `ducklake-stream maintain all --expire-older-than 7d`
"""
_AGE = "such as 7d or 12h"
TablesOption = Annotated[
    list[str] | None,
    typer.Option("--table", "-t", help="Only this table; may be given again.", autocompletion=complete_table),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Change nothing: show what would go.")]
Threshold = Annotated[
    float | None,
    typer.Option(
        min=0, max=1, help="The part of a file's rows that must be deleted; default: the lake's option, or 0.95."
    ),
]
AnyAge = Annotated[bool, typer.Option("--all", help="However young they are: for when nobody reads or writes.")]


def register(app: typer.Typer) -> None:
    """Add the group."""
    group = add_lake_group(app, "maintain", EXPLANATION, show_last_runs)
    for name, command in (
        ("all", do_all),
        ("flush", flush),
        ("expire", expire),
        ("merge", merge),
        ("rewrite", rewrite),
        ("cleanup", cleanup),
        ("orphans", orphans),
        ("runs", show_last_runs),
    ):
        add_lake_command(group, name, command)


def do_all(
    access: LakeAccess,
    *,
    tables: TablesOption = None,
    expire_older_than: Annotated[
        str | None,
        typer.Option(help=f"Snapshots older than this expire, {_AGE}; default: the lake's option, else none do."),
    ] = None,
    keep_last: Annotated[
        int | None,
        typer.Option(min=1, help="So many of the newest snapshots stay, however old; without an age all do."),
    ] = None,
    delete_threshold: Threshold = None,
    cleanup_older_than: Annotated[
        str | None, typer.Option(help="Files go that no snapshot has needed for so long; default: 2 days.")
    ] = None,
    orphans_older_than: Annotated[
        str | None, typer.Option(help="Files that no snapshot ever named count from this age on; default: 2 days.")
    ] = None,
    delete_orphans: Annotated[bool, typer.Option(help="Delete such files, and do not only count them.")] = False,
) -> None:
    """Do all maintenance: flush, expire, merge, rewrite, clean up, and count orphans, in this order.

    What fails keeps nothing else from its turn. `--table` is for flush, merge and rewrite.

    Exit codes: 0 all is done, or others do it; 1 something failed; 2 the command is wrong.

    Example, every hour by cron: `7 * * * * ducklake-stream maintain all --expire-older-than 7d --keep-last 100`
    """
    _run(
        access,
        table=tables,
        expire_older_than=expire_older_than,
        keep_last=keep_last,
        delete_threshold=delete_threshold,
        cleanup_older_than=cleanup_older_than,
        orphans_older_than=orphans_older_than,
        delete_orphans=delete_orphans,
    )


def flush(access: LakeAccess, *, tables: TablesOption = None) -> None:
    """Move inlined rows and deletes to Parquet files: one snapshot for each table, and no reader sees a difference.

    Example: `ducklake-stream maintain flush --table orders`
    """
    _run(access, operations=["flush"], table=tables)


def expire(
    access: LakeAccess,
    *,
    older_than: Annotated[
        str | None, typer.Option(help=f"Snapshots older than this, {_AGE}; default: the lake's option.")
    ] = None,
    keep_last: Annotated[
        int | None,
        typer.Option(min=1, help="So many of the newest snapshots stay; without an age all others expire."),
    ] = None,
    versions: Annotated[list[int] | None, typer.Option("--version", help="This snapshot; may be given again.")] = None,
    dry_run: DryRun = False,
) -> None:
    """Let old snapshots expire: nobody can travel back to them, and files that only they need can go.

    The newest one stays, and so does what a consumer of changes or a stream still needs: the report says who.

    Example: `ducklake-stream maintain expire --older-than 7d --keep-last 100 --dry-run`
    """
    _run(
        access,
        operations=["expire"],
        expire_older_than=older_than,
        keep_last=keep_last,
        expire_all_others=True,
        versions=versions or (),
        dry_run=dry_run,
    )


def merge(access: LakeAccess, *, tables: TablesOption = None) -> None:
    """Merge small files into large ones; every snapshot reads the same rows as before.

    Example: `ducklake-stream maintain merge --table orders`
    """
    _run(access, operations=["merge"], table=tables)


def rewrite(access: LakeAccess, *, tables: TablesOption = None, delete_threshold: Threshold = None) -> None:
    """Write files anew that have many deleted rows; older snapshots still read the old ones.

    Example: `ducklake-stream maintain rewrite --table orders --delete-threshold 0.3`
    """
    _run(access, operations=["rewrite"], table=tables, delete_threshold=delete_threshold)


def cleanup(
    access: LakeAccess,
    *,
    older_than: Annotated[
        str | None, typer.Option(help=f"Files that no snapshot has needed for so long, {_AGE}; default: 2 days.")
    ] = None,
    any_age: AnyAge = False,
    also_remove: Annotated[
        list[str] | None, typer.Option(help="This file too, which is not below the data path; may be given again.")
    ] = None,
    dry_run: DryRun = False,
) -> None:
    """Remove files that no snapshot needs any more, from storage too.

    A query that runs may still read them: keep the age above the time of your longest query.

    Example: `ducklake-stream maintain cleanup --older-than 1d`
    """
    _run(
        access,
        operations=["cleanup"],
        cleanup_older_than=older_than,
        any_age=any_age,
        also_remove=also_remove or (),
        dry_run=dry_run,
    )


def orphans(
    access: LakeAccess,
    *,
    older_than: Annotated[str | None, typer.Option(help=f"Only files of this age, {_AGE}; default: 2 days.")] = None,
    any_age: AnyAge = False,
    delete: Annotated[bool, typer.Option("--delete", help="Delete them; without this they are only shown.")] = False,
) -> None:
    """Find files under the lake's data path that no snapshot names, such as those of a batch that was killed.

    A batch that runs has files that no snapshot names yet: keep the age above the time of your longest batch. None that
    is younger than an hour is deleted, unless you say --all.

    Example: `ducklake-stream maintain orphans --older-than 7d --delete`
    """
    _run(access, operations=["orphans"], orphans_older_than=older_than, any_age=any_age, delete_orphans=delete)


def show_last_runs(
    access: LakeAccess,
    *,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="So many lines at most.")] = 20,
) -> None:
    """Show what maintenance did last in this lake, whoever ran it: a job, a scheduler, a colleague.

    Example: `ducklake-stream maintain runs --limit 50`
    """
    with access.lake() as lake:
        rows = [run_row(run) for run in lake.maintenance_runs(limit)]
    access.output.show(RUN_FIELDS, rows, empty="no maintenance was recorded")


def _run(access: LakeAccess, **asked: Any) -> None:  # Any: each as `MaintenanceRequest.of` takes it
    """Do what is asked for, show what was done, and end with a code that says whether something failed."""
    from ducklake_streaming.maintenance.request import MaintenanceRequest  # noqa: PLC0415 # see the docstring of the package

    request = MaintenanceRequest.of(**asked)
    with _ended_by_sigterm(), MaintenanceBar() as bar, access.lake() as lake:
        for table in request.tables:
            lake.table(table)  # one that is not there is a mistake of the command
        reports = list(bar.run(lake, request))
    show_reports(access.output, reports)
    if any(report.has_failed for report in reports):
        raise typer.Exit(ExitCode.FAILED)


@contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """Let SIGTERM end the command as Ctrl-C does: no file is left that no snapshot names, and no lease."""
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(ExitCode.TERMINATED))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
