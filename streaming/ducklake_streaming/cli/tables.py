"""The command `tables`: which tables a lake has, how much is in them, and what columns one has. It needs no Spark."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from ducklake_streaming.cli.completion import complete_table
from ducklake_streaming.cli.lake_command import LakeAccess, add_lake_command
from ducklake_streaming.overview.fields import Field, Row
from ducklake_streaming.overview.values import shown_count, shown_flag, shown_size

if TYPE_CHECKING:
    from ducklake_core import Table
    from ducklake_core.model import TableTotals

FIELDS = (
    Field("table", "table"),
    Field("rows", "rows", shown_count, is_number=True),
    Field("files", "files", shown_count, is_number=True),
    Field("file_bytes", "size", shown_size, is_number=True),
    Field("inlined_rows", "inlined", shown_count, is_number=True),
)
COLUMN_FIELDS = (
    Field("column", "column"),
    Field("type", "type"),
    Field("nulls", "nulls", shown_flag),
    Field("comment", "comment"),
)


def register(app: typer.Typer) -> None:
    """Add the command."""
    add_lake_command(app, "tables", tables)


def tables(
    access: LakeAccess,
    table: Annotated[str | None, typer.Argument(help="Show its columns.", autocompletion=complete_table)] = None,
) -> None:
    """Show the tables of a lake, or the columns of one.

    Example: `ducklake-stream tables --catalog sqlite:///lake.sqlite`
    """
    with access.lake() as lake:
        if table is None:
            access.output.show(FIELDS, map(_row, lake.totals().tables), empty="no tables")
        else:
            access.output.show(COLUMN_FIELDS, _columns(lake.table(table)))


def _row(table: TableTotals) -> Row:
    return {
        "table": table.name,
        "rows": table.rows,
        "files": table.files,
        "file_bytes": table.file_bytes,
        "inlined_rows": table.inlined.rows,
    }


def _columns(table: Table) -> Iterator[Row]:
    from ducklake_core.spec.types import type_text  # noqa: PLC0415 # see the docstring of the package

    for column in table.version.columns:
        type_ = type_text(column)
        yield {"column": column.name, "type": type_, "nulls": column.nulls_allowed, "comment": column.comment}
