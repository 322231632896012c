"""Which Kafka offsets are in which snapshot, as the snapshots' own extra info tells. Pure; no Spark, no broker.

The sink writes for each epoch where its sources end. Nothing but people's questions and lag depend on it: snapshots
expire.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from ducklake_core.model import Snapshot
from ducklake_core.spec.changes import ROW_INSERTS, parse_changes
from ducklake_streaming.kafka.places import Offsets, Place, offsets_of_source


@dataclass(frozen=True, slots=True)
class EpochOffsets:
    """A snapshot that an epoch has made: `ends` are the first offsets that are not in it.

    `starts`: where the epoch began, as far as the snapshot before it is there still.
    """

    snapshot_id: int
    snapshot_time: datetime
    stream: str
    batch_id: int
    starts: Offsets
    ends: Offsets


@dataclass(frozen=True, slots=True)
class FoundOffset:
    """Where a record is. `is_exact` False: the snapshot before is not there, and nobody knows where the epoch began.

    Then the record may be in a snapshot that has expired, or the stream may have begun after it.
    """

    epoch: EpochOffsets
    is_exact: bool


def epochs_of(snapshots: Iterable[Snapshot]) -> list[EpochOffsets]:
    """Return the epochs with offsets of Kafka, in the order of the snapshots."""
    last: dict[str, EpochOffsets] = {}
    found = []
    for snapshot in snapshots:
        facts = _facts(snapshot)
        ends = _ends(facts.get("offsets"))
        if not ends:
            continue
        stream, batch_id = str(facts.get("stream")), int(str(facts.get("batch_id", -1)))
        starts = last[stream].ends if stream in last else {}
        epoch = EpochOffsets(snapshot.snapshot_id, snapshot.snapshot_time, stream, batch_id, starts, ends)
        last[stream] = epoch
        found.append(epoch)
    return found


def streams_into(snapshots: Iterable[Snapshot], table_id: int) -> set[str]:
    """Return the streams that have put rows into a table, by the snapshots that are there still."""
    return {str(facts["stream"]) for one in snapshots if "stream" in (facts := _facts(one)) and _adds_to(one, table_id)}


def last_epochs(epochs: Iterable[EpochOffsets], at: int | None = None) -> dict[str, EpochOffsets]:
    """Return the last epoch of each stream, of those up to a snapshot: all offsets before its ends are in the lake."""
    return {epoch.stream: epoch for epoch in epochs if at is None or epoch.snapshot_id <= at}


def find_offset(epochs: Sequence[EpochOffsets], place: Place, offset: int) -> list[FoundOffset]:
    """Return in which snapshot a record is, for each stream that has read it; the epochs are in order."""
    found: dict[str, FoundOffset] = {}
    for epoch in epochs:
        if epoch.stream not in found and offset < epoch.ends.get(place, 0):
            is_exact = bool(epoch.starts) and epoch.starts.get(place, 0) <= offset
            found[epoch.stream] = FoundOffset(epoch, is_exact)
    return list(found.values())


def _facts(snapshot: Snapshot) -> Mapping[str, object]:
    """Return what a snapshot's extra info says; nothing where it is not the sink's."""
    try:
        told = json.loads(snapshot.extra_info or "{}")
    except ValueError:
        return {}
    return told if isinstance(told, dict) else {}


def _ends(told: object) -> dict[Place, int]:
    """Return the offsets of all sources."""
    return (
        {place: end for one in told for place, end in offsets_of_source(one).items()} if isinstance(told, list) else {}
    )


def _adds_to(snapshot: Snapshot, table_id: int) -> bool:
    return any(one.kind in ROW_INSERTS and one.object_id == table_id for one in parse_changes(snapshot.changes))
