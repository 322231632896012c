"""What the ledger and the newest snapshots tell of each stream. No Spark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from ducklake_streaming.overview.fields import Field, Row
from ducklake_streaming.overview.snapshots import told_by_sink
from ducklake_streaming.overview.values import shown_age, shown_count, shown_rate

if TYPE_CHECKING:
    from ducklake_core import Lake, LedgerEntry, Snapshot

FIELDS = (
    Field("stream", "stream"),
    Field("batch_id", "batch", is_number=True),
    Field("rows", "rows", shown_count, is_number=True),
    Field("snapshot", "snapshot", is_number=True),
    Field("age_seconds", "age", shown_age, is_number=True),
    Field("rows_per_second", "rows/s", shown_rate, is_number=True),
)
_RECENT_SNAPSHOTS = 500
_SHOWN_SNAPSHOTS = 12  # where there is no stream to ask of more


@dataclass(frozen=True, slots=True)
class StreamFacts:
    """What the ledger and the newest snapshots tell of a stream: the times of its snapshots, its last offsets."""

    entry: LedgerEntry
    times: tuple[datetime, ...]
    offsets: object  # as Spark says them, one of each source

    def row(self, now: datetime) -> Row:
        """Return what is shown of it."""
        return entry_row(self.entry, now, rate_of(self.entry.row_count, self.times, now))


def read_streams(lake: Lake) -> list[StreamFacts]:
    """Return all streams. Rates and offsets are known of those that have written one of the newest snapshots."""
    return read_recent(lake)[0]


def read_recent(lake: Lake) -> tuple[list[StreamFacts], list[Snapshot]]:
    """Return all streams, and the newest snapshots, the last one at the end."""
    entries = lake.ledger_entries()
    snapshots = lake.snapshots(limit=_RECENT_SNAPSHOTS if entries else _SHOWN_SNAPSHOTS)
    told: dict[object, list[tuple[datetime, object]]] = {}
    for snapshot in snapshots:
        facts = told_by_sink(snapshot.extra_info)
        told.setdefault(facts.get("stream"), []).append((snapshot.snapshot_time, facts.get("offsets")))
    found = [(entry, told.get(entry.stream, [])) for entry in entries]
    streams = [StreamFacts(entry, tuple(time for time, _ in of), of[-1][1] if of else None) for entry, of in found]
    return streams, list(snapshots)


def rate_of(rows: int, times: Sequence[datetime], now: datetime) -> float | None:
    """Return the rows per second of a stream whose last batch has so many, by the times of its snapshots."""
    if len(times) < 2:
        return None
    seconds = max((times[-1] - times[-2]).total_seconds(), (now - times[-1]).total_seconds())
    return rows / seconds if seconds > 0 else None


def entry_row(entry: LedgerEntry, now: datetime, rate: float | None) -> dict[str, object]:
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
