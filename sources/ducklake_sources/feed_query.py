"""A streaming query that reads a change feed: how far its batches read, and what they read. Runs on the driver.

What the driver's process knows while the query runs is here; a checkpoint has only offsets.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import timedelta

from pyspark.sql import types as T  # noqa: N812 # Spark's own convention
from pyspark.sql.datasource import InputPartition

from ducklake_core.clock import Now, utc_now
from ducklake_core.errors import ObjectNotFound, OffsetMismatch
from ducklake_core.feed.history import History, TableSnapshot, find_gap, gap_error
from ducklake_core.feed.listing import FeedRequest, ListedChanges
from ducklake_core.feed.sharing import share_out
from ducklake_core.feed.task import ChangeTask, FeedMode
from ducklake_core.files.storage import Storage
from ducklake_core.model import Column, Snapshot, SnapshotId, SnapshotSpan
from ducklake_sources.admission import (
    Limits,
    admit,
    find_refused,
    is_relevant,
    passed_over,
    rows_changed_error,
    up_to_change,
)
from ducklake_sources.consumer import ConsumerRecord
from ducklake_sources.feed_schema import (
    FeedColumns,
    check_columns_of_start,
    check_schema,
    columns_as_of,
    columns_changed_error,
    feed_columns,
    last_before_change,
    next_columns_change,
    record_next_columns,
)
from ducklake_sources.offsets import FeedOffset, in_utc
from ducklake_sources.option_values import Start
from ducklake_sources.options import SourceOptions
from ducklake_sources.partitions import FeedPartition, feed_schema
from ducklake_sources.ranges import RangePartition
from ducklake_sources.source_feed import SourceFeed, log_loss
from ducklake_sources.spark_versions import HAS_LIMITS

# A stream of a table that nothing happens to still moves on, now and then, so that no expiry of what it need not read
# becomes a gap.
_MAX_IDLE_SNAPSHOTS = 1000
_MAX_IDLE_TIME = timedelta(minutes=1)
_LOOK_AHEAD = 10_000  # snapshots; how far a reader that is limited looks, however far it has fallen behind
_NO_SNAPSHOT = SnapshotId(-1)


class FeedQuery:
    """One query, from its first offset to its stop."""

    def __init__(self, options: SourceOptions, schema: T.StructType | None, clock: Now = utc_now) -> None:
        self._options = options
        self._source = SourceFeed(options)
        with ExitStack() as on_error:
            on_error.callback(self._source.close)
            self._columns = self._checked_columns(schema)
            on_error.pop_all()
        self._feed = self._source.feed
        self._consumer = ConsumerRecord(self._source, clock)
        self._clock = clock
        self._available_until: SnapshotId | None = None  # of a query that takes what was there at its start
        self._reported_end: SnapshotId | None = None  # the last end told to a Spark that did not tell the start
        self._position: FeedOffset | None = None  # where the last batch ended, as far as this process knows
        self._advanced_at = clock()
        self._idle_through = _NO_SNAPSHOT  # no snapshot after the position up to this one has changed the table

    def _checked_columns(self, schema: T.StructType | None) -> FeedColumns:
        """Return the columns of a query that begins now; None: it emits ranges, whatever the columns are."""
        found = feed_columns(self._source)
        own = feed_schema(found.columns, with_changes=self._options.read_change_feed)
        check_schema(own if schema is None else schema, own, self._name)
        return found

    @property
    def storage(self) -> Storage:
        return self._source.lake.storage

    @property
    def _name(self) -> str:
        return self._source.table.qualified_name

    def commit(self, end: FeedOffset) -> None:
        """Note that a batch was processed."""
        self._consumer.record(end)

    def close(self) -> None:
        """Close connections; the query can be asked again all the same."""
        self._source.close()

    def stop(self) -> None:
        """End. A query that was told an end, but planned nothing, had read up to there: see `_without_start`."""
        try:
            if self._reported_end is not None and self._position is None:
                record_next_columns(self._source, self._columns, self._reported_end)
        finally:
            self.close()

    # ---- where to begin

    def initial(self) -> FeedOffset:
        """Return where a query without a checkpoint begins; asked again, as long as its first batch has not ended.

        'latest' and the like are another snapshot then: they are pending until the first batch has found them. Before
        4.2 Spark plans but one batch of a query that takes what is there, so only 'latest' is.
        """
        offset = FeedOffset(self._source.table.table_uuid, _NO_SNAPSHOT, 0, self._columns.as_of, is_initial=True)
        found = self._at_start(offset)  # a mistake in the options is told now
        is_latest = self._options.starting_version is Start.LATEST
        if is_latest or (HAS_LIMITS and not self._source.is_start_fixed):
            found = replace(offset, is_initial=False, is_pending=True)
        self._position = found
        return found

    def _at_start(self, offset: FeedOffset) -> FeedOffset:
        """Return the offset at which the options say that the feed begins; as it is, when it begins with the table."""
        start = self._source.start()
        if start is None:
            return offset
        there = self._feed.history(SnapshotSpan(SnapshotId(start - 1), start)).snapshots
        version, time = (there[0].schema_version, there[0].time) if there else (0, None)
        return offset.moved_to(start, version, self._columns.as_of, time)

    # ---- how far to read

    def newest(self) -> FeedOffset:
        """Return where the lake is."""
        return self._offset_at(self._feed.head())

    def end_at_head(self) -> None:
        """Read nothing that comes from now on."""
        self._available_until = self._feed.head().snapshot_id

    def latest(self, start: FeedOffset | None, *, has_limits: bool) -> FeedOffset:
        """Return the end of the next batch, or its start when there is nothing to read."""
        start = start or self._position
        head = self._feed.refresh()
        ends = (head.snapshot_id, self._available_until, self._source.end())
        end = min(one for one in ends if one is not None)
        if start is None:
            return self._without_start(end)
        self._check(start, head)
        self._consumer.record(start)  # who asks for the next batch has committed the last one
        if start.is_pending:
            return self._at_start(start)
        if start.is_initial:
            return self._after_state(end)
        if end <= max(start.snapshot_id, self._idle_through if start == self._position else 0):
            return start
        return self._after_changes(start, end, has_limits=has_limits)

    def _without_start(self, end: SnapshotId) -> FeedOffset:
        """Return the end when only Spark knows the start: before 4.2, after a restart with nothing to do again.

        Columns that change stop the feed: told the same end twice, Spark has read up to there already.
        """
        change = next_columns_change(self._source, self._columns)
        last = end
        if change is not None and change.since <= end:
            last = change.last_before
            if last == self._reported_end:
                raise columns_changed_error(self._source, change, last)
        self._reported_end = last
        return self._offset_at(self._feed.snapshot(last))

    def _after_state(self, end: SnapshotId) -> FeedOffset:
        last = last_before_change(self._source, self._columns, _NO_SNAPSHOT, end)
        return self._offset_at(self._feed.snapshot(last))

    def _offset_at(self, snapshot: Snapshot) -> FeedOffset:
        uuid = self._source.table.table_uuid
        time = in_utc(snapshot.snapshot_time)
        return FeedOffset(uuid, snapshot.snapshot_id, snapshot.schema_version, self._columns.as_of, time=time)

    def _after_changes(self, start: FeedOffset, end: SnapshotId, *, has_limits: bool) -> FeedOffset:
        check_columns_of_start(self._source, self._columns, start)
        if has_limits:
            end = SnapshotId(min(end, start.snapshot_id + _LOOK_AHEAD))
        history = self._feed.history(SnapshotSpan(start.snapshot_id, end))
        self._check_same_lake(start, history.base)
        has_gap = self._has_gap(history)
        last = self._last_before_change(start, history)
        snapshots = [s for s in history.snapshots if s.snapshot_id <= last]
        if not snapshots:  # all of them have expired
            return start.moved_to(last, start.schema_version, self._columns.as_of, None, last - start.snapshot_id)
        if not has_gap and not any(is_relevant(s) for s in snapshots):
            return self._after_nothing(start, snapshots[-1])
        return self._moved(start, self._admitted(snapshots, history, has_limits=has_limits))

    def _has_gap(self, history: History) -> bool:
        gap = find_gap(history, self._source.table.begin_snapshot)
        if gap is not None and self._options.fail_on_data_loss:
            raise gap_error(self._name, history.span, gap)
        return gap is not None

    def _last_before_change(self, start: FeedOffset, history: History) -> SnapshotId:
        if not history.snapshots:
            return history.span.end
        last = history.snapshots[-1]
        if start.snapshot_id >= self._columns.as_of and start.schema_version == last.schema_version:
            return last.snapshot_id  # no definition has changed
        return last_before_change(self._source, self._columns, start.snapshot_id, last.snapshot_id)

    def _after_nothing(self, start: FeedOffset, last: TableSnapshot) -> FeedOffset:
        """Stay where we are: a batch without rows is work for nothing. But not for ever."""
        is_long = last.snapshot_id - start.snapshot_id >= _MAX_IDLE_SNAPSHOTS
        is_long = is_long or self._clock() - self._advanced_at >= _MAX_IDLE_TIME
        if is_long or self._available_until is not None:
            return start.moved_to(last.snapshot_id, last.schema_version, self._columns.as_of, last.time)
        if start == self._position:
            self._idle_through = last.snapshot_id
        return start

    def _admitted(
        self, snapshots: Sequence[TableSnapshot], history: History, *, has_limits: bool
    ) -> Sequence[TableSnapshot]:
        taken = up_to_change(snapshots, self._find_refused(snapshots, history), self._name)
        options = self._options
        limits = Limits()
        if has_limits:
            per_trigger = options.max_versions_per_trigger, options.max_rows_per_trigger, options.max_bytes_per_trigger
            limits = Limits(*per_trigger)
        return admit(taken, self._feed.sizes(history) if limits.need_sizes else {}, limits)

    def _find_refused(self, snapshots: Sequence[TableSnapshot], history: History) -> int | None:
        return find_refused(snapshots, self._options, lambda one: self._feed.has_deletes(one, history))

    def _moved(self, start: FeedOffset, admitted: Sequence[TableSnapshot]) -> FeedOffset:
        """Return the offset after the admitted snapshots, with how many were lost among them."""
        newest = admitted[-1]
        before = max(start.snapshot_id, self._source.table.begin_snapshot - 1)
        lost = newest.snapshot_id - before - sum(s.snapshot_id > before for s in admitted)
        return start.moved_to(newest.snapshot_id, newest.schema_version, self._columns.as_of, newest.time, lost)

    # ---- what to read

    def plan(self, start: FeedOffset, end: FeedOffset) -> list[InputPartition]:
        """Return what executors read between two offsets."""
        head, last = self._checked_ends(start, end)
        task = self._task(start, end, head, last)
        kinds = self._options.change_types if self._options.read_change_feed else None
        return [] if task is None else [FeedPartition(self.storage, part, kinds) for part in share_out(task)]

    def plan_range(self, start: FeedOffset, end: FeedOffset) -> list[InputPartition]:
        """Return two offsets as what there is to read; who gets them asks another object for `range_task`."""
        self._checked_ends(start, end)
        return [RangePartition.of(start, end)]

    def range_task(self, start: FeedOffset | None, end: FeedOffset) -> tuple[tuple[Column, ...], ChangeTask | None]:
        """Return the columns that the query has which said the end, and what changed; None when nothing has.

        Without a start, the feed begins here.
        """
        if end.columns_as_of != self._columns.as_of:
            self._columns = columns_as_of(self._source, end.columns_as_of)
        start = start or self.initial()
        return self._columns.columns, self._task(start, end, *self._checked_ends(start, end))

    def _checked_ends(self, start: FeedOffset, end: FeedOffset) -> tuple[Snapshot, Snapshot | None]:
        """Return the newest snapshot and the one of the end, None when that has expired; from now on we are there."""
        head, last = self._feed.head_and(end.snapshot_id)
        self._check(start, head)
        self._check_order(start, end)
        self._position, self._advanced_at, self._idle_through = end, self._clock(), _NO_SNAPSHOT
        return head, last

    def _task(self, start: FeedOffset, end: FeedOffset, head: Snapshot, last: Snapshot | None) -> ChangeTask | None:
        if start.is_pending or (start.snapshot_id == end.snapshot_id and not start.is_initial):
            return None
        return self._state(end, last) if start.is_initial else self._changes(start, end, last or head)

    def _state(self, end: FeedOffset, last: Snapshot | None) -> ChangeTask:
        """Return the table itself. Its snapshot must not expire until it was read: the consumer says so."""
        before = SnapshotId(end.snapshot_id - 1)
        self._consumer.record_snapshot(before)
        try:
            if last is not None:
                return self._feed.list_state(self._request(_NO_SNAPSHOT, end, last))
        except ObjectNotFound:
            pass  # it has expired since it was looked for
        raise gap_error(self._name, SnapshotSpan(before, end.snapshot_id), (end.snapshot_id, end.snapshot_id))

    def _changes(self, start: FeedOffset, end: FeedOffset, last: Snapshot) -> ChangeTask:
        check_columns_of_start(self._source, self._columns, start)
        listed = self._feed.list_changes(self._request(start.snapshot_id, end, last), log_loss)
        newest = listed.history.snapshots[-1:]
        self._check_same_lake(start, listed.history.base)
        self._check_same_lake(end, newest[0] if newest else None)
        return self._only_inserts(listed) if self._source.mode is FeedMode.INSERTS else listed.task

    def _only_inserts(self, listed: ListedChanges) -> ChangeTask:
        """Leave out what changes rows; what the options do not let pass stops the stream here, too.

        Before 4.2 Spark does not tell the start when it asks for the end.
        """
        snapshots = listed.history.snapshots
        refused = self._find_refused(snapshots, listed.history)
        if refused is not None:
            raise rows_changed_error(snapshots[refused], self._name)
        return listed.task.only_inserts(passed_over(snapshots, self._options))

    def _request(self, start: SnapshotId, end: FeedOffset, last: Snapshot) -> FeedRequest:
        return FeedRequest(
            self._feed.table_at(last),
            self._columns.columns,
            SnapshotSpan(start, end.snapshot_id),
            self._source.mode,
            accept_loss=not self._options.fail_on_data_loss,
        )

    # ---- what is refused

    def _check(self, start: FeedOffset, head: Snapshot) -> None:
        table = self._source.table
        if start.table_uuid != table.table_uuid:
            raise OffsetMismatch(
                f"the checkpoint is of a table with uuid {start.table_uuid}, but '{table.qualified_name}' has "
                f"{table.table_uuid}: it was dropped and created anew, or the checkpoint is another stream's. "
                "Use a new checkpoint to read this table",
                table=table.qualified_name,
            )
        if start.snapshot_id > head.snapshot_id:
            raise self._restored_error(start, f"the newest one is {head.snapshot_id}", head=head.snapshot_id)

    def _check_same_lake(self, offset: FeedOffset, found: TableSnapshot | None) -> None:
        """Refuse an offset whose snapshot is another one now: what others wrote since a restore would be left out."""
        if found is not None and not offset.is_of(found.snapshot_id, found.time):
            times = f"that was of {offset.time:%F %T%z}, and the one of this number is of {in_utc(found.time):%F %T%z}"
            raise self._restored_error(offset, times, head=None)

    def _restored_error(self, offset: FeedOffset, but: str, head: SnapshotId | None) -> OffsetMismatch:
        return OffsetMismatch(
            f"the checkpoint has read table '{self._name}' up to snapshot {offset.snapshot_id}, but {but}: the catalog "
            "was restored from a backup. What was read of the lost snapshots cannot be taken back; use a new "
            "checkpoint to read the table as it is now",
            table=self._name,
            snapshot=offset.snapshot_id,
            head=head,
        )

    def _check_order(self, start: FeedOffset, end: FeedOffset) -> None:
        if end.snapshot_id < start.snapshot_id:
            raise OffsetMismatch(
                f"cannot read table '{self._name}' from snapshot {start.snapshot_id} back to {end.snapshot_id}: that "
                "was read already. Is the option endingVersion or endingTimestamp before what the checkpoint has read?",
                table=self._name,
            )
