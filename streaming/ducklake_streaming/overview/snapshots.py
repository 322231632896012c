"""What is shown of a snapshot: when, by whom, what it changed, and what a sink has told of it. No Spark."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING

from ducklake_streaming.kafka.places import offsets_of_source
from ducklake_streaming.overview.fields import Field, Row
from ducklake_streaming.overview.values import shown_age, shown_count, shown_time

if TYPE_CHECKING:
    from ducklake_core import Snapshot

FIELDS = (
    Field("snapshot", "snapshot", is_number=True),
    Field("time", "time", shown_time),
    Field("age_seconds", "age", shown_age, is_number=True),
    Field("changes", "changes", ", ".join),
    Field("stream", "stream"),
    Field("batch_id", "batch", is_number=True),
    Field("author", "author"),
    Field("message", "message"),
)


RECENT_FIELDS = (
    Field("snapshot", "snapshot", shown_count, is_number=True),
    Field("age_seconds", "age", shown_age, is_number=True),
    Field("changes", "changes", ", ".join),
    Field("stream", "stream"),
    Field("batch_id", "batch", is_number=True),
    Field("offsets", "up to these offsets of Kafka"),
)


def recent_row(snapshot: Snapshot, names: Mapping[int, str], now: datetime) -> Row:
    """Return what is shown of one of the newest snapshots, with the offsets of Kafka that it ends at."""
    row = snapshot_row(snapshot, names, now)
    return {**row, "offsets": offsets_text(told_by_sink(snapshot.extra_info).get("offsets"))}


def offsets_text(told: object) -> str | None:
    """Return where the sources of a batch end: `orders 0:120 1:97`; None where none of them is Kafka.

    `told`: as the sink has it of Spark, one of each source. An offset is the first that is not in the snapshot.
    """
    ends = [one for source in (told if isinstance(told, list) else ()) for one in offsets_of_source(source).items()]
    topics: dict[str, list[str]] = {}
    for (topic, partition), end in sorted(ends):
        topics.setdefault(topic, []).append(f"{partition}:{end}")
    return ", ".join(f"{topic} {' '.join(parts)}" for topic, parts in topics.items()) or None


def snapshot_row(snapshot: Snapshot, names: Mapping[int, str], now: datetime) -> Row:
    """Return what is shown of a snapshot."""
    told = told_by_sink(snapshot.extra_info)
    return {
        "snapshot": snapshot.snapshot_id,
        "time": snapshot.snapshot_time,
        "age_seconds": round((now - snapshot.snapshot_time).total_seconds(), 1),
        "changes": changes_by_name(snapshot.changes, names),
        "stream": told.get("stream"),
        "batch_id": told.get("batch_id"),
        "author": snapshot.author,
        "message": snapshot.message,
        "extra_info": snapshot.extra_info,
    }


def told_by_sink(extra_info: str | None) -> Mapping[str, object]:
    """Return what a sink has told of a snapshot; nothing where another has written it."""
    try:
        told = json.loads(extra_info or "")
    except ValueError:
        return {}
    return told if isinstance(told, dict) else {}


def changes_by_name(changes: str | None, names: Mapping[int, str]) -> list[str]:
    """Return what a snapshot changed, as `inserted into main.orders`; an id without a name stays a number."""
    from ducklake_core.spec.changes import TableChange, parse_changes  # noqa: PLC0415 # see the docstring of the package
    from ducklake_core.spec.names import join_table_name  # noqa: PLC0415 # likewise

    def name_of(change: TableChange) -> str:
        if change.name is None:
            return names.get(change.object_id or 0, f"#{change.object_id}")
        return join_table_name(change.schema_name, change.name) if change.schema_name else change.name

    return [f"{_ACTS.get(one.kind.value, one.kind.value)} {name_of(one)}" for one in parse_changes(changes)]


_ACTS = {
    "created_schema": "created schema",
    "created_table": "created table",
    "created_view": "created view",
    "dropped_schema": "dropped schema",
    "dropped_table": "dropped table",
    "dropped_view": "dropped view",
    "altered_table": "altered",
    "altered_view": "altered view",
    "inserted_into_table": "inserted into",
    "deleted_from_table": "deleted from",
    "inlined_insert": "inlined into",
    "inlined_delete": "deleted inlined from",
    "inline_flush": "flushed",
    "merge_adjacent": "merged files of",
    "rewrite_delete": "rewrote files of",
    "compacted_table": "compacted",
}
