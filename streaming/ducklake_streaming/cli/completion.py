"""Names that the shell completes: the tables of the lake that the command line, or the environment, names. No Spark."""

from __future__ import annotations

import os

import typer

from ducklake_streaming.cli.lake_command import CATALOG_VARIABLE, LakeAccess
from ducklake_streaming.cli.output import Output

_TIMEOUT = "1s"  # a shell that waits for longer seems to hang


def complete_table(context: typer.Context, incomplete: str) -> list[str]:
    """Return the tables whose names begin so; none when the lake cannot be asked."""
    from ducklake_core.errors import DuckLakeError  # noqa: PLC0415 # see the docstring of the package
    from ducklake_core.observe import NO_RECORDER  # noqa: PLC0415 # likewise

    catalog = context.params.get("catalog") or os.environ.get(CATALOG_VARIABLE)
    if not catalog:
        return []
    access = LakeAccess(catalog, context.params.get("metadata_schema"), _TIMEOUT, Output())
    try:
        with access.lake(NO_RECORDER) as lake:
            names = [table.name for table in lake.totals().tables]
    except DuckLakeError:
        return []  # the command itself will say what is wrong
    short = [name.removeprefix("main.") for name in names if name.startswith("main.")]
    return [name for name in (*short, *names) if name.startswith(incomplete)]
