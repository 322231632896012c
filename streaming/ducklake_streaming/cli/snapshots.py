"""The command `snapshots`: what was committed to a lake, when, by whom, and what it changed. It needs no Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ducklake_streaming.cli.lake_command import LakeAccess, add_lake_command
from ducklake_streaming.cli.values import parse_since
from ducklake_streaming.overview.snapshots import FIELDS, snapshot_row

if TYPE_CHECKING:
    pass


def register(app: typer.Typer) -> None:
    """Add the command."""
    add_lake_command(app, "snapshots", snapshots)


def snapshots(
    access: LakeAccess,
    limit: Annotated[int, typer.Option(min=1, help="Show so many at most, the newest.")] = 20,
    since: Annotated[str | None, typer.Option(help="Only those since a time, or since so long ago, as 1h.")] = None,
) -> None:
    """Show the newest snapshots, the last one at the end.

    Each with what it changed, by the names of tables, and with the stream and batch that a sink has written it for.

    Example: `ducklake-stream snapshots --since 1h --limit 100`
    """
    moment = parse_since(since, access.clock.now())
    with access.lake() as lake:
        found, names = lake.snapshots(moment, limit), lake.object_names()
    now = access.clock.now()
    access.output.show(FIELDS, (snapshot_row(one, names, now) for one in found), empty="no snapshots since then")
