"""The commands `streams`: what the ledger has of each stream, and how one is forgotten. They need no Spark."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from ducklake_streaming.cli.errors import CommandError, ExitCode
from ducklake_streaming.cli.lake_command import LakeAccess, add_lake_command, add_lake_group
from ducklake_streaming.overview.fields import Field
from ducklake_streaming.overview.snapshots import told_by_sink
from ducklake_streaming.overview.streams import FIELDS, entry_row, read_streams
from ducklake_streaming.overview.values import shown_count, shown_time

if TYPE_CHECKING:
    from ducklake_core import Lake, LedgerEntry

_SHOWN = (
    Field("stream", "stream"),
    Field("batch_id", "last batch"),
    Field("rows", "its rows", shown_count),
    Field("snapshot", "its snapshot"),
    Field("committed_at", "committed at", shown_time),
    Field("query_id", "query"),
    Field("run_id", "run"),
    Field("offsets", "offsets"),
)
_WARNING = """\
Stream '{stream}' has committed batch {batch} (snapshot {snapshot}). Forgetting it removes that from the ledger, and
no row of any table. From then on the lake does not know what the stream has written:
  - a query that goes on with its checkpoint is refused (LedgerBehind, exit code 3), as is one that runs now;
    only if its checkpoint is still at batch 0 is that batch written a second time;
  - a query of this name with a new checkpoint begins at batch 0: what it reads again is written again.
It is right for a stream that is gone for good, or that is to begin anew, with its rows removed from the tables."""


def register(app: typer.Typer) -> None:
    """Add the group."""
    group = add_lake_group(app, "streams", "Show the streams that write to a lake, and forget one.", list_streams)
    add_lake_command(group, "list", list_streams)
    add_lake_command(group, "show", show_stream)
    add_lake_command(group, "forget", forget_stream)


def list_streams(access: LakeAccess) -> None:
    """Show each stream with its last batch.

    Rows per second are those of the last batch, over the time since the batch before it, or since itself if that is
    longer.

    Example: `ducklake-stream streams list`
    """
    with access.lake() as lake:
        streams = read_streams(lake)
    rows = [stream.row(access.clock.now()) for stream in streams]
    access.output.show(FIELDS, rows, empty="no stream has written to this lake")


def show_stream(access: LakeAccess, stream: Annotated[str, typer.Argument(help="Its name.")]) -> None:
    """Show what the ledger has of one stream, and the offsets of its last batch.

    Example: `ducklake-stream streams show orders`
    """
    with access.lake() as lake:
        entry = _entry_of(lake, stream)
        told = _told_of_snapshot(lake, entry)
    row = {**entry_row(entry, access.clock.now(), None), "offsets": told.get("offsets"), "job": told.get("job")}
    access.output.show_one(_SHOWN, row)


def forget_stream(
    access: LakeAccess,
    stream: Annotated[str, typer.Argument(help="Its name.")],
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Remove a stream from the ledger. No row of a table changes, but nothing keeps its rows from coming twice then.

    Example: `ducklake-stream streams forget orders`
    """
    with access.lake() as lake:
        entry = _entry_of(lake, stream)
        if not yes:
            typer.echo(_WARNING.format(stream=stream, batch=entry.batch_id, snapshot=entry.snapshot_id), err=True)
            typer.confirm(f"Forget stream '{stream}'?", abort=True, err=True)
        lake.forget_stream(stream)
    typer.echo(f"stream '{stream}' is forgotten; it was at batch {entry.batch_id}", err=True)


def _entry_of(lake: Lake, stream: str) -> LedgerEntry:
    from ducklake_core.spec.names import nearest_name  # noqa: PLC0415 # see the docstring of the package

    entries = {entry.stream: entry for entry in lake.ledger_entries()}
    if stream not in entries:
        near = nearest_name(stream, entries)
        hint = f"did you mean '{near}'?" if near else f"there are {', '.join(entries) or 'none'}"
        raise CommandError(f"there is no stream '{stream}' in the ledger; {hint}", ExitCode.USAGE)
    return entries[stream]


def _told_of_snapshot(lake: Lake, entry: LedgerEntry) -> Mapping[str, object]:
    """Return what the sink has told of the stream's last snapshot, nothing where that has expired."""
    found = [one for one in lake.snapshots(since=entry.committed_at) if one.snapshot_id == entry.snapshot_id]
    return told_by_sink(found[0].extra_info) if found else {}
