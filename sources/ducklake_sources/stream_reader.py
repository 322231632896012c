"""The change feed as a stream: `spark.readStream.format("ducklake")`.

Spark calls it on the driver, in a Python process of its own; only `read` runs on executors, where it has no state.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
from pyspark.sql import types as T  # noqa: N812 # Spark's own convention
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from ducklake_core.errors import ObjectNotFound, OffsetMismatch
from ducklake_core.feed.history import History, TableSnapshot, find_gap, gap_error
from ducklake_core.feed.listing import FeedRequest, list_changes, list_state
from ducklake_core.feed.sharing import share_out
from ducklake_core.feed.task import ChangeTask
from ducklake_core.model import Consumer, Snapshot, SnapshotId, SnapshotSpan
from ducklake_sources.admission import Limits, admit, is_relevant, skipped, up_to_change
from ducklake_sources.feed_schema import (
    FeedColumns,
    check_columns_of_start,
    check_schema,
    feed_columns,
    last_before_change,
    record_next_columns,
)
from ducklake_sources.offsets import FeedOffset
from ducklake_sources.option_values import Start
from ducklake_sources.options import SourceOptions
from ducklake_sources.partitions import FeedPartition, PartitionReader, feed_schema
from ducklake_sources.spark_versions import HAS_LIMITS, AvailableNow, is_unlimited, read_limit
from ducklake_sources.table_feed import TableFeed, log_loss

# A stream of a table that nothing happens to still moves on, now and then, so that no expiry of what it need not read
# becomes a gap.
_QUIET_SNAPSHOTS = 1000
_QUIET_TIME = timedelta(minutes=1)
_HEARTBEATS_PER_EXPIRATION = 20
_LOOK_AHEAD = 10_000  # snapshots; how far a reader that is limited looks, however far it has fallen behind


class DuckLakeStreamReader(DataSourceStreamReader, AvailableNow):  # type: ignore[misc] # by Spark's version
    """Reads what each snapshot has changed, in order, every one exactly once."""

    def __init__(self, options: SourceOptions, schema: T.StructType) -> None:
        self._options = options
        self._schema = schema
        self._state: _State | None = None

    def __reduce__(self) -> tuple[Any, ...]:  # Any: fixed by the pickle protocol
        return PartitionReader, ()  # it travels only to executors

    @property
    def _running(self) -> _State:
        if self._state is None:
            self._state = _State(self._options, self._schema)
        return self._state

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 # Spark's name; Any: JSON
        return self._running.initial().to_json()

    def latestOffset(  # noqa: N802 # Spark's name
        self,
        start: Mapping[str, Any] | None = None,  # Any: JSON; none before Spark 4.2
        limit: Any = None,  # Any: Spark's ReadLimit, which older ones do not have
    ) -> dict[str, Any]:
        """Return the end of the next batch, or its start when there is nothing to read."""
        position = None if start is None else FeedOffset.parse(start)
        return self._running.latest(position, has_limits=not is_unlimited(limit)).to_json()

    def getDefaultReadLimit(self) -> Any:  # noqa: N802 # Spark's name; Any: see latestOffset
        return read_limit(self._options)

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802 # Spark's name; Any: JSON
        """Tell progress reports where the lake is, whether or not it was read."""
        return self._running.newest().to_json()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 # Spark's name
        self._running.end_at_head()

    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> Sequence[InputPartition]:  # Any: JSON
        return self._running.plan(FeedOffset.parse(start), FeedOffset.parse(end))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return PartitionReader().read(partition)

    def commit(self, end: Mapping[str, Any]) -> None:  # Any: JSON
        self._running.record(FeedOffset.parse(end))

    def stop(self) -> None:
        if self._state is not None:
            self._state.stop()


class _State:
    """What the driver's process knows while the query runs."""

    def __init__(self, options: SourceOptions, schema: T.StructType) -> None:
        self.options = options
        self.feed = TableFeed(options)
        try:
            self.columns = self._columns(schema)
        except BaseException:  # an interrupt must leave no connection behind, either
            self.feed.close()
            raise
        self.available_until: SnapshotId | None = None  # of a query that takes what was there at its start
        self.position: FeedOffset | None = None  # where the last batch ended, as far as this process knows
        self.quiet_until = SnapshotId(-1)  # no snapshot after the position up to this one has changed the table
        self.moved_at = datetime.now(UTC)
        self.heard_at: datetime | None = None
        self.recorded: SnapshotId | None = None
        self.told_end: SnapshotId | None = None

    def _columns(self, schema: T.StructType) -> FeedColumns:
        found = feed_columns(self.feed, self.options)
        own = feed_schema(found.columns, with_changes=self.options.read_change_feed)
        check_schema(schema, own, self.feed.table.qualified_name)
        return found

    def initial(self) -> FeedOffset:
        """Return where a query without a checkpoint begins; asked again, as long as its first batch has not ended.

        'latest' and the like are another snapshot then: they are pending until the first batch has found them. Before
        4.2 Spark plans but one batch of a query that takes what is there, so only 'latest' is.
        """
        nothing = SnapshotId(-1)
        offset = FeedOffset(self.feed.table.table_uuid, nothing, 0, self.columns.as_of, is_initial=True)
        found = self._at_start(offset)  # a mistake in the options is told now
        is_latest = self.options.starting_version is Start.LATEST
        if is_latest or (HAS_LIMITS and not self.feed.is_start_fixed):
            found = replace(offset, is_initial=False, is_pending=True)
        self.position = found
        return found

    def _at_start(self, offset: FeedOffset) -> FeedOffset:
        """Return the offset at which the options say that the feed begins; as it is, when it begins with the table."""
        start = self.feed.start()
        if start is None:
            return offset
        there = self.feed.history(SnapshotSpan(SnapshotId(start - 1), start)).snapshots
        return offset.moved_to(start, there[0].schema_version if there else 0, self.columns.as_of)

    def newest(self) -> FeedOffset:
        return self._offset_at(self.feed.head())

    def _offset_at(self, snapshot: Snapshot) -> FeedOffset:
        uuid = self.feed.table.table_uuid
        return FeedOffset(uuid, snapshot.snapshot_id, snapshot.schema_version, self.columns.as_of)

    def end_at_head(self) -> None:
        """Read nothing that comes from now on."""
        self.available_until = self.feed.head().snapshot_id

    # ---- how far to read

    def latest(self, start: FeedOffset | None, *, has_limits: bool) -> FeedOffset:
        start = start or self.position
        head = self.feed.head()
        self.feed.table_at(head)
        ends = (head.snapshot_id, self.available_until, self.feed.end())
        end = min(one for one in ends if one is not None)
        if start is None:
            return self._without_start(end)
        self._check(start, head)
        self.record(start)  # who asks for the next batch has committed the last one
        if start.is_pending:
            return self._at_start(start)
        if start.is_initial:
            return self._after_state(end)
        if end <= max(start.snapshot_id, self.quiet_until if start == self.position else 0):
            return start
        return self._after_changes(start, end, has_limits=has_limits)

    def _without_start(self, end: SnapshotId) -> FeedOffset:
        """Return the end when only Spark knows the start: before 4.2, after a restart with nothing to do again.

        Columns that change stop the feed: told the same end twice, Spark has read up to there already.
        """
        last = last_before_change(self.feed, self.columns, SnapshotId(self.columns.as_of - 1), end)
        if last < end and last == self.told_end:
            last_before_change(self.feed, self.columns, last, end)
        self.told_end = last
        return self._offset_at(self.feed.snapshot(last))

    def _after_state(self, end: SnapshotId) -> FeedOffset:
        last = last_before_change(self.feed, self.columns, SnapshotId(-1), end)
        return self._offset_at(self.feed.snapshot(last))

    def _after_changes(self, start: FeedOffset, end: SnapshotId, *, has_limits: bool) -> FeedOffset:
        check_columns_of_start(self.feed, self.columns, start)
        if has_limits:
            end = SnapshotId(min(end, start.snapshot_id + _LOOK_AHEAD))
        history = self.feed.history(SnapshotSpan(start.snapshot_id, end))
        gap = find_gap(history, self.feed.table.begin_snapshot)
        if gap is not None and self.options.fail_on_data_loss:
            raise gap_error(self.feed.table.qualified_name, history.span, gap)
        last = self._last_before_change(start, history) if history.snapshots else end
        snapshots = [s for s in history.snapshots if s.snapshot_id <= last]
        if not snapshots:  # all of them have expired
            return start.moved_to(last, start.schema_version, self.columns.as_of, last - start.snapshot_id)
        if not any(is_relevant(s) for s in snapshots) and gap is None:
            return self._quiet(start, snapshots[-1])
        snapshots = list(up_to_change(snapshots, self.options, self.feed.table.qualified_name, self.feed.has_deletes))
        limits = self._limits() if has_limits else Limits()
        sizes = self.feed.sizes(history) if limits.need_sizes else {}
        admitted = admit(snapshots, sizes, limits)
        newest = admitted[-1]
        before = max(start.snapshot_id, self.feed.table.begin_snapshot - 1)
        lost = newest.snapshot_id - before - sum(s.snapshot_id > before for s in admitted)
        return start.moved_to(newest.snapshot_id, newest.schema_version, self.columns.as_of, lost)

    def _last_before_change(self, start: FeedOffset, history: History) -> SnapshotId:
        last = history.snapshots[-1]
        if start.snapshot_id >= self.columns.as_of and start.schema_version == last.schema_version:
            return last.snapshot_id  # no definition has changed
        return last_before_change(self.feed, self.columns, start.snapshot_id, last.snapshot_id)

    def _quiet(self, start: FeedOffset, last: TableSnapshot) -> FeedOffset:
        """Stay where we are: a batch without rows is work for nothing. But not for ever."""
        is_long = last.snapshot_id - start.snapshot_id >= _QUIET_SNAPSHOTS
        if is_long or datetime.now(UTC) - self.moved_at >= _QUIET_TIME or self.available_until is not None:
            return start.moved_to(last.snapshot_id, last.schema_version, self.columns.as_of)
        if start == self.position:
            self.quiet_until = last.snapshot_id
        return start

    def _limits(self) -> Limits:
        options = self.options
        return Limits(options.max_versions_per_trigger, options.max_rows_per_trigger, options.max_bytes_per_trigger)

    def _check(self, start: FeedOffset, head: Snapshot) -> None:
        table = self.feed.table
        if start.table_uuid != table.table_uuid:
            raise OffsetMismatch(
                f"the checkpoint is of a table with uuid {start.table_uuid}, but '{table.qualified_name}' has "
                f"{table.table_uuid}: it was dropped and created anew, or the checkpoint is another stream's. "
                "Use a new checkpoint to read this table",
                table=table.qualified_name,
            )
        if start.snapshot_id > head.snapshot_id:
            raise OffsetMismatch(
                f"the checkpoint has read table '{table.qualified_name}' up to snapshot {start.snapshot_id}, but the "
                f"newest one is {head.snapshot_id}: the catalog was restored from a backup. What was read of the lost "
                "snapshots cannot be taken back; use a new checkpoint to read the table as it is now",
                table=table.qualified_name,
                snapshot=start.snapshot_id,
                head=head.snapshot_id,
            )

    # ---- what to read

    def plan(self, start: FeedOffset, end: FeedOffset) -> list[InputPartition]:
        self._check(start, self.feed.head())
        self._check_order(start, end)
        self._move_to(end)
        if start.is_pending or (start.snapshot_id == end.snapshot_id and not start.is_initial):
            return []
        task = self._state(end) if start.is_initial else self._changes(start, end)
        kinds = self.options.change_types if self.options.read_change_feed else None
        return [FeedPartition(self.feed.lake.data_path, part, kinds) for part in share_out(task)]

    def _state(self, end: FeedOffset) -> ChangeTask:
        """Return the table itself. Its snapshot must not expire until it was read: the consumer says so."""
        self.record(replace(end, snapshot_id=SnapshotId(end.snapshot_id - 1)))
        snapshot = self._snapshot_of(end)
        if snapshot is None:
            span = SnapshotSpan(SnapshotId(end.snapshot_id - 1), end.snapshot_id)
            raise gap_error(self.feed.table.qualified_name, span, (end.snapshot_id, end.snapshot_id))
        return list_state(self.feed.lake.database, self._request(SnapshotId(-1), end, snapshot))

    def _changes(self, start: FeedOffset, end: FeedOffset) -> ChangeTask:
        check_columns_of_start(self.feed, self.columns, start)
        request = self._request(start.snapshot_id, end, self._snapshot_of(end) or self.feed.head())
        task = list_changes(self.feed.lake.database, request, on_loss=log_loss)
        return task if self.options.read_change_feed else self._only_inserts(task)

    def _request(self, start: SnapshotId, end: FeedOffset, snapshot: Snapshot) -> FeedRequest:
        return FeedRequest(
            self.feed.table_at(snapshot),
            self.columns.columns,
            SnapshotSpan(start, end.snapshot_id),
            net=self.options.net_changes,
            accept_loss=not self.options.fail_on_data_loss,
        )

    def _snapshot_of(self, end: FeedOffset) -> Snapshot | None:
        try:
            return self.feed.snapshot(end.snapshot_id)
        except ObjectNotFound:
            return None

    def _check_order(self, start: FeedOffset, end: FeedOffset) -> None:
        if end.snapshot_id < start.snapshot_id:
            raise OffsetMismatch(
                f"cannot read table '{self.feed.table.qualified_name}' from snapshot {start.snapshot_id} back to "
                f"{end.snapshot_id}: that was read already. Is the option endingVersion or endingTimestamp before what "
                "the checkpoint has read?",
                table=self.feed.table.qualified_name,
            )

    def _only_inserts(self, task: ChangeTask) -> ChangeTask:
        """Leave out what changes rows; what the options do not let pass stops the stream here, too.

        Before 4.2 Spark does not tell the start when it asks for the end.
        """
        snapshots, name = self.feed.history(task.span).snapshots, self.feed.table.qualified_name
        taken = up_to_change(snapshots, self.options, name, self.feed.has_deletes)
        up_to_change(snapshots[len(taken) :], self.options, name, self.feed.has_deletes)
        passed_over = skipped(snapshots, self.options)
        files = tuple(f for f in task.files if f.holds_new_rows)
        return replace(task, files=files, rewrites=task.rewrites | passed_over, update_snapshots=frozenset())

    def _move_to(self, end: FeedOffset) -> None:
        self.position, self.moved_at, self.quiet_until = end, datetime.now(UTC), SnapshotId(-1)

    def stop(self) -> None:
        """End. A query that was told an end, but planned nothing, had read up to there: see `_without_start`."""
        try:
            if self.told_end is not None and self.position is None:
                record_next_columns(self.feed, self.columns, self.told_end)
        finally:
            self.feed.close()

    # ---- who reads

    def record(self, offset: FeedOffset) -> None:
        """Write how far this consumer has read; without news, only now and then, to show that it is alive."""
        options = self.options
        if options.consumer_id is None or offset.is_first:
            return
        now = datetime.now(UTC)
        is_due = (
            self.heard_at is None or now - self.heard_at >= options.consumer_expiration / _HEARTBEATS_PER_EXPIRATION
        )
        if is_due or offset.snapshot_id != self.recorded:
            self.heard_at, self.recorded = now, offset.snapshot_id
            self.feed.lake.record_consumer(
                Consumer(
                    options.consumer_id,
                    self.feed.table.table_uuid,
                    offset.snapshot_id,
                    now,
                    now + options.consumer_expiration,
                )
            )
