"""The command `tables`: which tables a lake has. It needs no Spark."""

from __future__ import annotations

from typing import Annotated

import typer

from ducklake_streaming.cli.lake_command import LakeAccess, add_lake_command
from ducklake_streaming.cli.output import Field

FIELDS = (Field("table", "table"), Field("columns", "columns", is_number=True))


def register(app: typer.Typer) -> None:
    """Add the command."""
    add_lake_command(app, "tables", tables)


def tables(
    access: LakeAccess,
    at: Annotated[int | None, typer.Option(help="A snapshot id; by default the newest.")] = None,
) -> None:
    """Show the tables of a lake.

    Example: `ducklake-stream tables --catalog sqlite:///lake.sqlite`
    """
    with access.lake() as lake:
        rows = [{"table": table.name, "columns": len(table.version.columns)} for table in lake.tables(at)]
    access.output.show(FIELDS, rows, empty="no tables")
