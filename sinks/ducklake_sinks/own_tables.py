"""Which tables a stream wrote to before, and what of it is still inlined. Runs on the driver, beside the stream."""

from __future__ import annotations

import json
from collections.abc import Iterator

from ducklake_core import Lake, Snapshot
from ducklake_core.model import TableId
from ducklake_core.spec.changes import ChangeKind, parse_changes
from ducklake_core.spec.names import join_table_name
from ducklake_sinks.options import SinkOptions


def tables_of_stream(options: SinkOptions, lake: Lake, stream: str | None) -> Iterator[str]:
    """Yield the sink's own tables, and those that have inlined rows of this stream.

    Whose rows they are is told by the snapshots that made them, as far as those have not expired. Tables of other
    streams are left alone: how those are flushed is not ours to say.
    """
    yield from (name for name in (options.table, options.dead_letters if options.quarantines else None) if name)
    if stream is None:
        return
    versions = [table.version for table in lake.tables() if table.version.inlined_tables]
    names = {version.table_id: join_table_name(version.schema_name, version.name) for version in versions}
    times = [time for name in names.values() if (time := lake.inlined_state(name).oldest) is not None]
    if not times:
        return
    written = {table_id for snapshot in lake.snapshots(min(times)) for table_id in _inlined_by(snapshot, stream)}
    yield from (name for table_id, name in names.items() if table_id in written)


def _inlined_by(snapshot: Snapshot, stream: str) -> Iterator[TableId]:
    """Yield the tables that a snapshot inlined rows into, if the stream made it."""
    try:
        info = json.loads(snapshot.extra_info or "null")
    except ValueError:  # another writer's, in words of its own
        return
    if not isinstance(info, dict) or info.get("stream") != stream:
        return
    for change in parse_changes(snapshot.changes or ""):
        if change.kind is ChangeKind.INLINED_INSERT and change.object_id is not None:
            yield TableId(change.object_id)
