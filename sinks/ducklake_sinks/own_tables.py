"""Which tables a stream wrote to before, and what of it is still inlined. Runs on the driver, beside the stream."""

from __future__ import annotations

import json
from collections.abc import Iterator

from ducklake_core import Lake
from ducklake_core.errors import ObjectNotFound, TerminalError
from ducklake_sinks.options import SinkOptions


def tables_of_stream(options: SinkOptions, lake: Lake, stream: str | None) -> Iterator[str]:
    """Yield the sink's own tables, and then those that have inlined rows of this stream.

    Whose rows they are is told by the snapshots that made them, as far as those have not expired. Tables of other
    streams are left alone: how those are flushed is not ours to say.
    """
    yield from (name for name in (options.table, options.dead_letters if options.quarantines else None) if name)
    if stream is not None:
        yield from (name for name in lake.tables_inlined_into(told_of(stream)) if _has_inlined(lake, name))


def told_of(stream: str) -> str:
    """Return what the extra info of a stream's snapshots begins with: see `EpochStart.extra_info`."""
    return json.dumps({"stream": stream}).removesuffix("}")


def _has_inlined(lake: Lake, name: str) -> bool:
    """Tell whether there is something to flush; of a table that cannot be counted its flush says so."""
    try:
        return lake.inlined_state(name).oldest is not None
    except ObjectNotFound:  # dropped just now
        return False
    except TerminalError:
        return True
