"""What a span says of a batch or of a flush: few values, of a bounded size. Pure; knows nothing of OpenTelemetry."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

from ducklake_core.observe import Flushed
from ducklake_sinks.events import FlushFailed
from ducklake_sinks.report import BatchFailed, BatchReplayed, BatchReport, BatchStopped
from ducklake_sinks.stopwatch import BatchCourse
from ducklake_streaming.kafka.places import offsets_of_source

MAX_TABLES, MAX_PARTITIONS = 20, 50  # a span must stay small; how many there were is said in any case
Attributes: TypeAlias = dict[str, str | int | list[str]]


def batch_attributes(event: BatchReport | BatchFailed | BatchStopped) -> Attributes:
    """Return what is known of a batch."""
    found: dict[str, object] = {"outcome": _outcome(event), **_named(event.names)}
    if isinstance(event, BatchReport):
        found |= _counts(event)
    if event.course is not None:
        found |= _offsets(event.course)
    return _prefixed(found)


def flush_attributes(event: Flushed | FlushFailed) -> Attributes:
    """Return what is known of a flush."""
    if isinstance(event, FlushFailed):
        return _prefixed({"outcome": "failed", **_named(event.subject), "times": event.times})
    counts = {"rows": event.rows, "files": event.files, "bytes": event.size_bytes, "snapshot_id": event.snapshot_id}
    return _prefixed({"outcome": "committed", "table": event.table, **counts})


def without_secrets(attributes: Attributes, redact: Callable[[str], str]) -> Attributes:
    """Return the attributes, each text as `redact` returns it."""

    def hidden(value: str | int | list[str]) -> str | int | list[str]:
        if isinstance(value, list):
            return [redact(one) for one in value]
        return redact(value) if isinstance(value, str) else value

    return {name: hidden(value) for name, value in attributes.items()}


def _outcome(event: BatchReport | BatchFailed | BatchStopped) -> str:
    match event:
        case BatchReplayed():
            return "replayed"
        case BatchReport():
            return "empty" if event.snapshot_id is None else "committed"
        case BatchFailed():
            return "failed"
        case _:
            return "stopped"


def _counts(report: BatchReport) -> dict[str, object]:
    tables = sorted(report.added)
    return {
        "snapshot_id": report.snapshot_id,
        "rows": report.rows,
        "inlined_rows": report.inlined_rows,
        "files": report.files,
        "dead_letters": report.dead_letters,
        "tables": tables[:MAX_TABLES],
        "table_count": len(tables),
    }


def _offsets(course: BatchCourse) -> dict[str, object]:
    """Return where the batch begins and ends in each partition of Kafka, `topic-partition:offset`; else nothing."""
    start, end = (_of_kafka(told) for told in (course.start_offsets, course.end_offsets))
    if not end:
        return {}
    return {
        "kafka.start_offsets": _texts(start),
        "kafka.end_offsets": _texts(end),
        "kafka.partition_count": len(end),
    }


def _of_kafka(told: Sequence[object] | None) -> dict[tuple[str, int], int]:
    return {place: offset for source in told or () for place, offset in offsets_of_source(source).items()}


def _texts(offsets: Mapping[tuple[str, int], int]) -> list[str]:
    ordered: Iterable[tuple[tuple[str, int], int]] = sorted(offsets.items())
    return [f"{topic}-{partition}:{offset}" for (topic, partition), offset in ordered][:MAX_PARTITIONS]


def _named(names: Mapping[str, object]) -> dict[str, object]:
    """Return stream, batch and table, as far as they are known."""
    return {name: value if isinstance(value, int) else str(value) for name, value in names.items() if value is not None}


def _prefixed(found: Mapping[str, object]) -> Attributes:
    known = {f"ducklake.{name}": value for name, value in found.items()}
    return {name: value for name, value in known.items() if isinstance(value, (str, int, list))}
