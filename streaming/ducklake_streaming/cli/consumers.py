"""The commands `consumers`: who reads changes of tables, how far behind, and how one is forgotten. No Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ducklake_streaming.cli.errors import CommandError, ExitCode
from ducklake_streaming.cli.lake_command import LakeAccess, add_lake_command, add_lake_group
from ducklake_streaming.overview.consumers import FIELDS, consumer_rows

if TYPE_CHECKING:
    pass

_WARNING = """\
Consumer '{name}' has read up to snapshot {snapshot}. Forgetting it lets snapshots expire that it has not read: if it
reads again after that, its query is refused (SnapshotsExpired), or goes on without them where it may lose data.
A query that runs now registers itself again. Its checkpoint is not touched."""


def register(app: typer.Typer) -> None:
    """Add the group."""
    group = add_lake_group(app, "consumers", "Show who reads changes of tables, and forget one.", list_consumers)
    add_lake_command(group, "list", list_consumers)
    add_lake_command(group, "forget", forget_consumer)


def list_consumers(access: LakeAccess) -> None:
    """Show the readers of change feeds that have a `consumerId`, and how many snapshots they are behind.

    Example: `ducklake-stream consumers list`
    """
    with access.lake() as lake:
        rows = consumer_rows(lake.consumers(), lake.totals(), access.clock.now())
    access.output.show(FIELDS, rows, empty="no consumers")


def forget_consumer(
    access: LakeAccess,
    consumer: Annotated[str, typer.Argument(help="Its name: the `consumerId` of the reader.")],
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Remove a consumer, so that it holds back no expiry of snapshots any more.

    Example: `ducklake-stream consumers forget silver`
    """
    with access.lake() as lake:
        known = {one.name: one for one in lake.consumers()}
        if consumer not in known:
            raise CommandError(
                f"there is no consumer '{consumer}'; there are {', '.join(known) or 'none'}", ExitCode.USAGE
            )
        if not yes:
            typer.echo(_WARNING.format(name=consumer, snapshot=known[consumer].snapshot_id), err=True)
            typer.confirm(f"Forget consumer '{consumer}'?", abort=True, err=True)
        lake.forget_consumer(consumer)
    typer.echo(f"consumer '{consumer}' is forgotten; it had read up to {known[consumer].snapshot_id}", err=True)
