"""The command `read`: rows of a table, at a snapshot, as a table, JSON, CSV or Parquet. It needs no Spark.

Rows are read slice by slice and written as they come: memory does not grow with the table, and a limit ends it early.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from ducklake_streaming.cli.completion import complete_table
from ducklake_streaming.cli.lake_command import LakeAccess, add_lake_command
from ducklake_streaming.cli.output import make_screen
from ducklake_streaming.cli.values import parse_moment

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.progress import Progress, TaskID

    from ducklake_core import Table
    from ducklake_core.read.slices import Slice
    from ducklake_streaming.cli.row_writers import RowFormat, RowWriter

DEFAULT_TABLE_ROWS = 100


def register(app: typer.Typer) -> None:
    """Add the command."""
    add_lake_command(app, "read", read)


def read(
    access: LakeAccess,
    table: Annotated[str, typer.Argument(help="As `orders` or `shop.orders`.", autocompletion=complete_table)],
    columns: Annotated[str | None, typer.Option(help="Some columns, separated by commas.")] = None,
    where: Annotated[str | None, typer.Option(help="A filter in SQL, as `amount > 10 AND kind = 'x'`.")] = None,
    at: Annotated[str | None, typer.Option(help="A snapshot id or a time; by default the newest.")] = None,
    limit: Annotated[
        int | None, typer.Option(min=0, help=f"So many rows at most. As a table {DEFAULT_TABLE_ROWS} by default.")
    ] = None,
    row_format: Annotated[
        Literal["table", "json", "csv", "parquet"], typer.Option("--format", help="How rows are written.")
    ] = "table",
    output: Annotated[Path | None, typer.Option(help="A file to write to, instead of the screen.")] = None,
) -> None:
    """Show rows of a table.

    Example: `ducklake-stream read orders --columns id,kind --where "amount > 10" --limit 5`
    """
    from ducklake_streaming.cli.row_writers import open_writer  # noqa: PLC0415 # see the docstring of the package

    wanted: RowFormat = "json" if access.output.as_json else row_format
    is_cut = limit is None and output is None and wanted == "table"
    most = DEFAULT_TABLE_ROWS if is_cut else limit
    with access.lake() as lake:
        found = lake.table(table, at=parse_moment(at, access.clock.now()))
        names = None if columns is None else [name.strip() for name in columns.split(",")]
        slices = _slices(found, names, where)
        with (
            open_writer(wanted, _schema(found, names), output) as writer,
            _shown_progress(len(slices), output) as progress,
        ):
            rows = read_slices(slices, progress)
            has_more = _write(writer, rows, most, looks_further=is_cut)
    if has_more:
        typer.echo(f"the first {most} rows; --limit shows more, --format json or csv all of them", err=True)


def _write(writer: RowWriter, batches: Iterator[pa.RecordBatch], most: int | None, *, looks_further: bool) -> bool:
    """Write up to so many rows; tell whether there are more, where it looks further than that."""
    left = most
    for batch in batches if left != 0 else ():
        if left == 0:
            return True
        writer.write(batch if left is None else batch.slice(0, left))
        has_more = left is not None and batch.num_rows > left
        left = None if left is None else max(0, left - batch.num_rows)
        if left == 0 and (has_more or not looks_further):
            return looks_further
    return False


def read_slices(slices: Sequence[Slice], progress: ReadProgress) -> Iterator[pa.RecordBatch]:
    """Yield the rows of slices, one after another."""
    from ducklake_core.read.slices import read_slice  # noqa: PLC0415 # see the docstring of the package

    for one in slices:
        for batch in read_slice(one):
            if batch.num_rows:
                yield batch
                progress.add_rows(batch.num_rows)
        progress.end_slice()


def _slices(table: Table, columns: Sequence[str] | None, where: str | None) -> list[Slice]:
    if where is None:
        return table.slices(columns)
    from ducklake_core.plan.filter_sql import parse_filter  # noqa: PLC0415 # see the docstring of the package

    return table.slices(columns, parse_filter(where, table.version.columns))


def _schema(table: Table, columns: Sequence[str] | None) -> pa.Schema:
    from ducklake_core.spec.types import arrow_schema  # noqa: PLC0415 # see the docstring of the package

    return arrow_schema(table.projection(columns))


@dataclass(frozen=True, slots=True)
class ReadProgress:
    """Tells a person how far a read has come; nobody, where the rows themselves are on the screen."""

    display: Progress | None = None
    task: TaskID | None = None

    def add_rows(self, count: int) -> None:
        if self.display is not None and self.task is not None:
            rows = self.display.tasks[0].fields["rows"] + count
            self.display.update(self.task, rows=rows)

    def end_slice(self) -> None:
        if self.display is not None and self.task is not None:
            self.display.advance(self.task)


@contextmanager
def _shown_progress(slices: int, output: Path | None) -> Iterator[ReadProgress]:
    """Show a bar on stderr if that is a terminal, and the rows go elsewhere."""
    if not sys.stderr.isatty() or (output is None and sys.stdout.isatty()):
        yield ReadProgress()
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn  # noqa: PLC0415 # for people only

    rows = TextColumn("{task.fields[rows]:,} rows")
    with Progress(
        TextColumn("reading"), BarColumn(), rows, TimeElapsedColumn(), console=make_screen(error=True)
    ) as display:
        yield ReadProgress(display, display.add_task("reading", total=slices, rows=0))
