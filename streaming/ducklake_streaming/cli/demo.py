"""The command `demo`: a lake, a stream into it and what to look at, in a minute. It starts Spark."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import typer

from ducklake_streaming.cli.errors import CommandError


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("demo")(demo)


def demo(
    catalog: Annotated[Literal["sqlite", "postgres"], typer.Option(help="Where the catalog is.")] = "sqlite",
    seconds: Annotated[int, typer.Option(min=1, help="For how long small batches come.")] = 20,
    directory: Annotated[Path, typer.Option(help="Where the lake goes; made anew.")] = Path("demo-lake"),
) -> None:
    """Stream into a new lake with Spark, and show it. It needs Java.

    Example: `ducklake-stream demo --seconds 5`
    """
    from ducklake_streaming.demo.run import Demo, run_demo  # noqa: PLC0415 # it imports Spark
    from ducklake_streaming.demo.workspace import DemoError  # noqa: PLC0415 # it imports a database driver

    try:
        run_demo(Demo(directory, catalog, seconds), partial(print, flush=True))
    except DemoError as error:
        raise CommandError(str(error)) from error
