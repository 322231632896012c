"""The command `doctor`: what is broken in a lake, what shows it and what helps. It needs no Spark."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from ducklake_streaming.cli.errors import ExitCode
from ducklake_streaming.cli.lake_command import LakeAccess, add_lake_command
from ducklake_streaming.cli.output import json_line, make_screen
from ducklake_streaming.overview.fields import Row, plain_text

if TYPE_CHECKING:
    from ducklake_core.maintenance.doctor.finding import Finding

_STYLES = {"error": "bold red", "warning": "bold yellow", "info": "bold"}


def register(app: typer.Typer) -> None:
    """Add the command."""
    add_lake_command(app, "doctor", doctor)


def doctor(
    access: LakeAccess,
    *,
    full: Annotated[
        bool, typer.Option("--full", help="Read every file and every row, not only a sample of 64 files.")
    ] = False,
    repair: Annotated[
        bool, typer.Option("--repair", help="Mend counters and statistics, in one snapshot that changes no row.")
    ] = False,
) -> None:
    """Look a lake over: what is broken in it, the SQL that shows it, and what helps. Ends with 1 if anything is.

    Without --repair it only reads. What was mended is shown as well; the next run finds it no more.

    Example: `ducklake-stream doctor --full`
    """
    with access.lake() as lake, _shown_progress() as progress:
        findings = lake.doctor(full=full, repair=repair, progress=progress)
    if access.output.as_json:
        for finding in findings:
            print(json_line(_row(finding)))
    else:
        _show(findings)
    if findings:
        raise typer.Exit(ExitCode.FAILED)


def _row(finding: Finding) -> Row:
    return {name: getattr(finding, name) for name in finding.__slots__}


def _show(findings: list[Finding]) -> None:
    from rich.text import Text  # noqa: PLC0415 # for people only

    screen = make_screen()
    for finding in findings:
        title = Text(finding.severity, style=_STYLES[finding.severity])
        title.append(f"  {finding.code}", style="bold").append(f"  {plain_text(finding.table)}")
        screen.print(title)
        repaired = [f"repaired: {finding.repaired}"] if finding.repaired else []
        for line in (plain_text(finding.found), finding.helps, *repaired):
            screen.print(Text(f"  {line}"))
        screen.print(Text("\n".join(f"    {plain_text(line)}" for line in finding.sql.splitlines()), style="dim"))
    screen.print(f"{len(findings)} findings" if findings else "nothing is broken")


@contextmanager
def _shown_progress() -> Iterator[Callable[[str, int], None]]:
    """Show what is done now on stderr if that is a terminal."""
    if not sys.stderr.isatty():
        yield _show_nothing
        return
    with make_screen(error=True).status("") as status:
        yield lambda step, done: status.update(f"{step} ({done:,})" if done else step)


def _show_nothing(step: str, done: int) -> None:
    """Show nothing."""
