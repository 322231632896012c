"""Which columns a feed has: fixed when a query begins, and since which snapshot they are so. Runs on the driver."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import types as T  # noqa: N812 # Spark's own convention

from ducklake_core.errors import SchemaChanged
from ducklake_core.model import Column, SnapshotId, TableVersion
from ducklake_core.plan.definition import find_column
from ducklake_sources.column_changes import ColumnChange, column_changes, told
from ducklake_sources.offsets import FeedOffset
from ducklake_sources.options import SourceOptions, has_range
from ducklake_sources.partitions import feed_schema
from ducklake_sources.schema_tracking import SchemaTracking
from ducklake_sources.table_feed import TableFeed


@dataclass(frozen=True, slots=True)
class FeedColumns:
    """The columns of a feed, as the table had them at a snapshot."""

    columns: tuple[Column, ...]
    as_of: SnapshotId
    is_all: bool  # not only some of the table's columns

    def changes_to(self, columns: tuple[Column, ...]) -> list[ColumnChange]:
        """Return how other columns of the table differ from these."""
        return list(column_changes(self.columns, self._same(columns)))

    def changes_from(self, columns: tuple[Column, ...]) -> list[ColumnChange]:
        """Return how these differ from other columns of the table."""
        return list(column_changes(self._same(columns), self.columns))

    def _same(self, columns: tuple[Column, ...]) -> tuple[Column, ...]:
        ids = {c.column_id for c in self.columns}
        return columns if self.is_all else tuple(c for c in columns if c.column_id in ids)


def is_feed(options: SourceOptions) -> bool:
    """Tell whether a read is one of changes, as far as its options tell: Spark does not say whether it is a stream."""
    return options.read_change_feed or options.schema_tracking_location is not None or has_range(options)


def schema_of_feed(options: SourceOptions) -> T.StructType:
    """Return the Spark schema of a feed that begins now."""
    feed = TableFeed(options)
    try:
        return feed_schema(feed_columns(feed, options).columns, with_changes=options.read_change_feed)
    finally:
        feed.close()


def check_schema(given: T.StructType, own: T.StructType, table: str) -> None:
    """Refuse a schema that the user gave, or that was right when the DataFrame was made."""
    if given != own:
        raise SchemaChanged(
            f"the schema of the DataFrame is not that of table '{table}': leave '.schema(…)' out and choose columns "
            "with the option 'columns'; if the table's columns have changed since the DataFrame was made, make it "
            f"anew. The DataFrame has {given.simpleString()}, the table has {own.simpleString()}",
            table=table,
        )


def feed_columns(feed: TableFeed, options: SourceOptions) -> FeedColumns:
    """Return the columns that a query which begins now has.

    Those of the newest snapshot, or of the end of the range; with a schemaTrackingLocation those recorded there, at
    first the ones of where the feed begins.
    """
    head = feed.head()
    feed.table_at(head)
    end = feed.end()
    at = head.snapshot_id if end is None else min(end, head.snapshot_id)
    if options.schema_tracking_location is not None:
        tracking = SchemaTracking.of(options.schema_tracking_location)
        recorded = tracking.last(feed.table)
        if recorded is None:
            start = feed.start()
            recorded = at if start is None else SnapshotId(min(max(start + 1, feed.table.begin_snapshot), at))
            tracking.record(feed.table, recorded)
        at = recorded
    return FeedColumns(_chosen(feed.with_columns(feed.columns_at(at)), options.columns), at, options.columns is None)


def _chosen(table: TableVersion, names: Sequence[str] | None) -> tuple[Column, ...]:
    return table.columns if names is None else tuple(find_column(table, [name]) for name in names)


def check_columns_of_start(feed: TableFeed, columns: FeedColumns, offset: FeedOffset) -> None:
    """Refuse to go on with columns that those of the last batch are not found in, unless the change was recorded."""
    start = offset.snapshot_id
    is_recorded = feed.options.schema_tracking_location is not None and columns.as_of <= start + 1
    if offset.columns_as_of == columns.as_of or is_recorded:
        return
    before = feed.columns_at(offset.columns_as_of)
    breaking = [change for change in columns.changes_from(before) if change.is_breaking]
    if breaking:
        raise SchemaChanged(
            f"cannot go on after snapshot {start} of table '{feed.table.qualified_name}': since then "
            f"{told(breaking)}. To go through these changes one by one, restart the query with schemaTrackingLocation "
            f"set to an empty directory and startingVersion={start + 1}; to read the table as it is now, use a new "
            "checkpoint",
            table=feed.table.qualified_name,
            snapshot=start,
        )


def record_next_columns(feed: TableFeed, columns: FeedColumns, read: SnapshotId) -> None:
    """Record the columns that come right after what was read, for a query that tracks them."""
    location = feed.options.schema_tracking_location
    since, _ = _next_change(feed, columns)
    if location is not None and since == read + 1:
        SchemaTracking.of(location).record(feed.table, SnapshotId(since))


def _next_change(feed: TableFeed, columns: FeedColumns) -> tuple[SnapshotId | None, list[ColumnChange]]:
    """Return the first snapshot that has other columns than the query, and what it changed."""
    later = ((v.since, columns.changes_to(v.columns)) for v in feed.columns_versions() if v.since > columns.as_of)
    return next(((since, changes) for since, changes in later if changes), (None, []))


def last_before_change(feed: TableFeed, columns: FeedColumns, start: SnapshotId, end: SnapshotId) -> SnapshotId:
    """Return the last snapshot of a range that has the query's columns; raise SchemaChanged when none has.

    With a schemaTrackingLocation the new columns are recorded there first: the query goes on when it is restarted.
    """
    since, changes = _next_change(feed, columns)
    if since is None or since > end:
        return end
    if since - 1 > start:
        return SnapshotId(since - 1)
    location = feed.options.schema_tracking_location
    remedy = "restart the query to go on with the new columns"
    if location is not None:
        SchemaTracking.of(location).record(feed.table, since)
        remedy = f"they are recorded in '{location}': restart the query to go on with them"
    elif any(change.is_breaking for change in changes):
        remedy = (
            f"restart the query with schemaTrackingLocation set to an empty directory and startingVersion={start + 1} "
            "to go on with the new columns, or use a new checkpoint"
        )
    raise SchemaChanged(
        f"the columns of table '{feed.table.qualified_name}' changed in snapshot {since}: {told(changes)}. All changes "
        f"before it were read; {remedy}",
        table=feed.table.qualified_name,
        snapshot=since,
    )
