"""The commands `streams`: what the ledger has of each stream, and how one is forgotten. They need no Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from ducklake_streaming.cli.errors import CommandError, ExitCode
from ducklake_streaming.cli.lake_command import LakeAccess, add_lake_command, add_lake_group
from ducklake_streaming.cli.output import Field, Row
from ducklake_streaming.cli.snapshots import told_by_sink
from ducklake_streaming.cli.values import shown_age, shown_count, shown_rate, shown_time

if TYPE_CHECKING:
    from ducklake_core import Lake, LedgerEntry

FIELDS = (
    Field("stream", "stream"),
    Field("batch_id", "batch", is_number=True),
    Field("rows", "rows", shown_count, is_number=True),
    Field("snapshot", "snapshot", is_number=True),
    Field("age_seconds", "age", shown_age, is_number=True),
    Field("rows_per_second", "rows/s", shown_rate, is_number=True),
)
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
_RECENT_SNAPSHOTS = 500
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
    row = {**_row(entry, access.clock.now(), None), "offsets": told.get("offsets"), "job": told.get("job")}
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


@dataclass(frozen=True, slots=True)
class StreamFacts:
    """What the ledger and the newest snapshots tell of a stream: the times of its snapshots, its last offsets."""

    entry: LedgerEntry
    times: tuple[datetime, ...]
    offsets: object  # as Spark says them, one of each source

    def row(self, now: datetime) -> Row:
        """Return what is shown of it."""
        return _row(self.entry, now, rate_of(self.entry.row_count, self.times, now))


def read_streams(lake: Lake) -> list[StreamFacts]:
    """Return all streams. Rates and offsets are known of those that have written one of the newest snapshots."""
    entries = lake.ledger_entries()
    told: dict[object, list[tuple[datetime, object]]] = {}
    for snapshot in lake.snapshots(limit=_RECENT_SNAPSHOTS) if entries else ():
        facts = told_by_sink(snapshot.extra_info)
        told.setdefault(facts.get("stream"), []).append((snapshot.snapshot_time, facts.get("offsets")))
    found = [(entry, told.get(entry.stream, [])) for entry in entries]
    return [StreamFacts(entry, tuple(time for time, _ in of), of[-1][1] if of else None) for entry, of in found]


def rate_of(rows: int, times: Sequence[datetime], now: datetime) -> float | None:
    """Return the rows per second of a stream whose last batch has so many, by the times of its snapshots."""
    if len(times) < 2:
        return None
    seconds = max((times[-1] - times[-2]).total_seconds(), (now - times[-1]).total_seconds())
    return rows / seconds if seconds > 0 else None


def _row(entry: LedgerEntry, now: datetime, rate: float | None) -> dict[str, object]:
    return {
        "stream": entry.stream,
        "batch_id": entry.batch_id,
        "rows": entry.row_count,
        "snapshot": entry.snapshot_id,
        "committed_at": entry.committed_at,
        "age_seconds": round((now - entry.committed_at).total_seconds(), 1),
        "rows_per_second": None if rate is None else round(rate, 2),
        "query_id": entry.query_id,
        "run_id": entry.run_id,
    }


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
