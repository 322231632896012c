"""How far a stream has read, as the lake knows it: kept for those who expire snapshots. Runs on the driver."""

from __future__ import annotations

from datetime import datetime

from ducklake_core.clock import Now
from ducklake_core.model import Consumer, SnapshotId
from ducklake_sources.offsets import FeedOffset
from ducklake_sources.source_feed import SourceFeed

_HEARTBEATS_PER_EXPIRATION = 20


class ConsumerRecord:
    """The record of one consumer; without a consumerId there is none, and nothing is written."""

    def __init__(self, source: SourceFeed, clock: Now) -> None:
        self._source = source
        self._clock = clock
        self._recorded: SnapshotId | None = None
        self._last_heartbeat: datetime | None = None

    def record(self, offset: FeedOffset) -> None:
        """Write that all was read up to an offset."""
        if not offset.is_first:
            self.record_snapshot(offset.snapshot_id)

    def record_snapshot(self, snapshot: SnapshotId) -> None:
        """Write that all was read up to a snapshot; without news, only now and then, to show that it is alive."""
        options = self._source.options
        if options.consumer_id is None:
            return
        now, last = self._clock(), self._last_heartbeat
        is_due = last is None or now - last >= options.consumer_expiration / _HEARTBEATS_PER_EXPIRATION
        if not is_due and snapshot == self._recorded:
            return
        self._last_heartbeat, self._recorded = now, snapshot
        expires_at = now + options.consumer_expiration
        table_uuid = self._source.table.table_uuid
        self._source.lake.record_consumer(Consumer(options.consumer_id, table_uuid, snapshot, now, expires_at))
