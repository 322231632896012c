"""The command `offsets`: which Kafka offsets a snapshot holds, and in which snapshot one is. It needs no Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ducklake_streaming.cli.errors import CommandError, ExitCode
from ducklake_streaming.cli.lake_command import LakeAccess, add_lake_command
from ducklake_streaming.overview.fields import Field, Row
from ducklake_streaming.overview.values import shown_flag, shown_time

if TYPE_CHECKING:
    from ducklake_core import Lake
    from ducklake_streaming.kafka.snapshot_offsets import EpochOffsets

PLACE = (
    Field("stream", "stream"),
    Field("snapshot", "snapshot", is_number=True),
    Field("batch_id", "batch", is_number=True),
    Field("topic", "topic"),
    Field("partition", "partition", is_number=True),
)
HELD = (*PLACE, Field("from_offset", "batch from", is_number=True), Field("next_offset", "next", is_number=True))
FOUND = (
    *PLACE,
    Field("offset", "offset", is_number=True),
    Field("is_exact", "exact", shown_flag),
    Field("time", "time", shown_time),
)


def register(app: typer.Typer) -> None:
    """Add the command."""
    add_lake_command(app, "offsets", offsets)


def offsets(
    access: LakeAccess,
    name: Annotated[str, typer.Argument(help="A stream; or a table, then of all streams into it.")],
    *,
    at: Annotated[int | None, typer.Option(help="A snapshot id; by default the newest.")] = None,
    topic: Annotated[str | None, typer.Option(help="With --offset: the topic, if there are several.")] = None,
    partition: Annotated[int | None, typer.Option(min=0, help="With --offset: the partition.")] = None,
    offset: Annotated[int | None, typer.Option(min=0, help="Ask in which snapshot this offset is.")] = None,
) -> None:
    """Show which Kafka offsets are in the lake, or in which snapshot one is.

    All offsets before `next` are in the snapshot; those from `batch from` on came with it. Of the first batch that is
    there still nobody knows where it began: `exact` is no. A name that a stream and a table have is the stream's:
    `main.orders` is always a table.

    Example: `ducklake-stream offsets orders --at 41`

    Example: `ducklake-stream offsets orders --topic orders --partition 0 --offset 1234`
    """
    if (offset is None) != (partition is None) or (topic is not None and offset is None):
        raise CommandError("--offset and --partition go together, --topic with them", ExitCode.USAGE)
    with access.lake() as lake:
        epochs = _epochs_of(lake, name)
    if offset is not None and partition is not None:
        place = (topic or _only_topic(epochs), partition)
        access.output.show(FOUND, _found_rows(epochs, place, offset))
    else:
        access.output.show(HELD, _held_rows(epochs, at), empty=f"no offsets up to snapshot {at}")


def _epochs_of(lake: Lake, name: str) -> list[EpochOffsets]:
    """Return the epochs of a stream, or of the streams that have put rows into a table."""
    from ducklake_core.errors import ObjectNotFound  # noqa: PLC0415 # see the docstring of the package
    from ducklake_streaming.kafka.snapshot_offsets import epochs_of, streams_into  # noqa: PLC0415 # likewise

    snapshots = lake.snapshots()
    epochs = epochs_of(snapshots)
    streams = {name} & {epoch.stream for epoch in epochs}
    if not streams:
        try:
            streams = streams_into(snapshots, lake.table(name).version.table_id)
        except ObjectNotFound:
            known = ", ".join(sorted({epoch.stream for epoch in epochs})) or "none"
            raise CommandError(
                f"there is neither a stream '{name}' with offsets nor such a table; streams with offsets: {known}",
                ExitCode.USAGE,
            ) from None
    found = [epoch for epoch in epochs if epoch.stream in streams]
    if not found:
        raise CommandError(f"no snapshot that is there still tells Kafka offsets of '{name}'")
    return found


def _only_topic(epochs: list[EpochOffsets]) -> str:
    topics = sorted({topic for epoch in epochs for topic, _ in epoch.ends})
    if len(topics) > 1:
        raise CommandError(f"which topic? Name it by --topic: {', '.join(topics)}", ExitCode.USAGE)
    return topics[0]


def _held_rows(epochs: list[EpochOffsets], at: int | None) -> list[Row]:
    from ducklake_streaming.kafka.snapshot_offsets import last_epochs  # noqa: PLC0415 # see above

    return [
        {**_place_row(epoch, place), "from_offset": epoch.starts.get(place), "next_offset": end}
        for _, epoch in sorted(last_epochs(epochs, at).items())
        for place, end in sorted(epoch.ends.items())
    ]


def _found_rows(epochs: list[EpochOffsets], place: tuple[str, int], offset: int) -> list[Row]:
    from ducklake_streaming.kafka.snapshot_offsets import find_offset  # noqa: PLC0415 # see above

    found = find_offset(epochs, place, offset)
    if not found:
        end = max((epoch.ends.get(place, 0) for epoch in epochs), default=0)
        told = f"the lake has those before {end}" if end else "the lake has none of that partition"
        raise CommandError(f"offset {offset} of topic '{place[0]}' partition {place[1]} is in no snapshot yet: {told}")
    return [
        {
            **_place_row(one.epoch, place),
            "offset": offset,
            "is_exact": one.is_exact,
            "time": one.epoch.snapshot_time,
        }
        for one in found
    ]


def _place_row(epoch: EpochOffsets, place: tuple[str, int]) -> dict[str, object]:
    return {
        "stream": epoch.stream,
        "snapshot": epoch.snapshot_id,
        "batch_id": epoch.batch_id,
        "topic": place[0],
        "partition": place[1],
    }
