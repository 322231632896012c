"""The command `flush`: inlined rows go to Parquet files. It needs no Spark."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from ducklake_streaming.cli.completion import complete_table
from ducklake_streaming.cli.lake_command import LakeAccess, add_lake_command
from ducklake_streaming.cli.output import make_screen
from ducklake_streaming.cli.warning_lines import WarningLines
from ducklake_streaming.overview.fields import Field, Row
from ducklake_streaming.overview.values import shown_count, shown_size

if TYPE_CHECKING:
    from rich.progress import Progress

    from ducklake_core.observe import Event

FIELDS = (
    Field("table", "table"),
    Field("rows", "rows", shown_count, is_number=True),
    Field("files", "files", shown_count, is_number=True),
    Field("bytes", "size", shown_size, is_number=True),
    Field("snapshot", "snapshot", is_number=True),
    Field("seconds", "seconds", lambda seconds: f"{seconds:.1f}", is_number=True),
)


def register(app: typer.Typer) -> None:
    """Add the command."""
    add_lake_command(app, "flush", flush)


def flush(
    access: LakeAccess,
    tables: Annotated[list[str] | None, typer.Argument(help="Which tables.", autocompletion=complete_table)] = None,
    *,
    every: Annotated[
        bool, typer.Option("--all", help="All tables, but those with the option auto_compact = false.")
    ] = False,
) -> None:
    """Move inlined rows and deletes to Parquet files: one snapshot for each table, and no reader sees a difference.

    Example: `ducklake-stream flush orders payments`
    """
    if every == bool(tables):
        raise typer.BadParameter("name tables, or --all for every one")
    with _shown_progress() as progress:
        heard = FlushRecorder(progress)
        with access.lake(heard) as lake:
            inlined = [one.name for one in lake.totals().tables if one.inlined.rows or one.inlined.file_deletes]
            heard.expect(len(inlined) if every else len(tables or ()))
            for table in [None] if every else tables or ():
                lake.flush_inlined(table)
    access.output.show(FIELDS, heard.flushed, empty="nothing was inlined")


class FlushRecorder:
    """Hears which tables were flushed: for the bar, and for what is shown at the end."""

    def __init__(self, progress: Progress | None) -> None:
        self.flushed: list[Row] = []
        self._progress = progress
        self._warnings = WarningLines()

    def expect(self, tables: int) -> None:
        """Take notice of how many tables there are to flush."""
        if self._progress is not None:
            self._progress.update(self._progress.tasks[0].id, total=tables)

    def record(self, event: Event) -> None:
        from ducklake_core.observe import Flushed, TableNotFlushed  # noqa: PLC0415 # see the docstring of the package

        self._warnings.record(event)
        if isinstance(event, Flushed):
            self.flushed.append(
                {
                    "table": event.table,
                    "rows": event.rows,
                    "files": event.files,
                    "bytes": event.size_bytes,
                    "snapshot": event.snapshot_id,
                    "seconds": round(event.seconds, 3),
                }
            )
        if isinstance(event, Flushed | TableNotFlushed) and self._progress is not None:
            self._progress.update(self._progress.tasks[0].id, advance=1, table=event.table)


@contextmanager
def _shown_progress() -> Iterator[Progress | None]:
    """Show a bar on stderr if that is a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich import progress as bars  # noqa: PLC0415 # for people only

    columns = bars.TextColumn("flushing"), bars.BarColumn(), bars.MofNCompleteColumn(), bars.TimeElapsedColumn()
    table = bars.TextColumn("{task.fields[table]}")
    with bars.Progress(bars.SpinnerColumn(), *columns, table, console=make_screen(error=True)) as progress:
        progress.add_task("flushing", total=None, table="")
        yield progress
