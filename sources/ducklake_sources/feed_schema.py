"""Which columns a feed has: fixed when a query begins, and since which snapshot they are so. Runs on the driver."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace

from pyspark.sql import types as T  # noqa: N812 # Spark's own convention

from ducklake_core.errors import SchemaChanged
from ducklake_core.model import Column, SnapshotId, TableVersion
from ducklake_core.plan.definition import find_column
from ducklake_sources.column_changes import ColumnChange, column_changes, describe
from ducklake_sources.offsets import FeedOffset
from ducklake_sources.options import SourceOptions, has_range
from ducklake_sources.partitions import feed_schema
from ducklake_sources.schema_tracking import SchemaTracking
from ducklake_sources.source_feed import SourceFeed


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
    with closing(SourceFeed(options)) as source:
        return feed_schema(feed_columns(source).columns, with_changes=options.read_change_feed)


def check_schema(given: T.StructType, own: T.StructType, table: str) -> None:
    """Refuse a schema that the user gave, or that was right when the DataFrame was made."""
    if given != own:
        raise SchemaChanged(
            f"the schema of the DataFrame is not that of table '{table}': leave '.schema(…)' out and choose columns "
            "with the option 'columns'; if the table's columns have changed since the DataFrame was made, make it "
            f"anew. The DataFrame has {given.simpleString()}, the table has {own.simpleString()}",
            table=table,
        )


def feed_columns(source: SourceFeed) -> FeedColumns:
    """Return the columns that a query which begins now has.

    Those of the newest snapshot, or of the end of the range; with a schemaTrackingLocation those recorded there, at
    first the ones of where the feed begins.
    """
    head, end = source.feed.refresh().snapshot_id, source.end()
    return columns_as_of(source, _tracked(source, head if end is None else min(end, head)))


def columns_as_of(source: SourceFeed, at: SnapshotId) -> FeedColumns:
    """Return the columns of a query that has those of a snapshot."""
    names = source.options.columns
    return FeedColumns(_chosen(replace(source.table, columns=source.feed.columns_at(at)), names), at, names is None)


def _tracked(source: SourceFeed, last: SnapshotId) -> SnapshotId:
    """Return the snapshot whose columns the query has: the last one, unless it tracks them."""
    location, table = source.options.schema_tracking_location, source.table
    if location is None:
        return last
    tracking = SchemaTracking.of(location, source.lake.storage.options)
    recorded = tracking.last(table)
    if recorded is None:
        start = source.start()
        recorded = last if start is None else SnapshotId(min(max(start + 1, table.begin_snapshot), last))
        tracking.record(table, recorded)
    return recorded


def _chosen(table: TableVersion, names: Sequence[str] | None) -> tuple[Column, ...]:
    return table.columns if names is None else tuple(find_column(table, [name]) for name in names)


def check_columns_of_start(source: SourceFeed, columns: FeedColumns, offset: FeedOffset) -> None:
    """Refuse to go on with columns that those of the last batch are not found in, unless the change was recorded."""
    start = offset.snapshot_id
    is_recorded = source.options.schema_tracking_location is not None and columns.as_of <= start + 1
    if offset.columns_as_of == columns.as_of or is_recorded:
        return
    before = source.feed.columns_at(offset.columns_as_of)
    breaking = [change for change in columns.changes_from(before) if change.is_breaking]
    if breaking:
        raise SchemaChanged(
            f"cannot go on after snapshot {start} of table '{source.table.qualified_name}': since then "
            f"{describe(breaking)}. To go through these changes one by one, restart the query with "
            f"schemaTrackingLocation set to an empty directory and startingVersion={start + 1}; to read the table as "
            "it is now, use a new checkpoint",
            table=source.table.qualified_name,
            snapshot=start,
        )


@dataclass(frozen=True, slots=True)
class ColumnsChange:
    """The first snapshot that has other columns than a query, and what it changed."""

    since: SnapshotId
    changes: tuple[ColumnChange, ...]

    @property
    def last_before(self) -> SnapshotId:
        return SnapshotId(self.since - 1)


def next_columns_change(source: SourceFeed, columns: FeedColumns) -> ColumnsChange | None:
    """Return the first change of columns that a query has not seen; None when there is none."""
    later = (version for version in source.feed.columns_versions() if version.since > columns.as_of)
    found = (ColumnsChange(version.since, tuple(columns.changes_to(version.columns))) for version in later)
    return next((change for change in found if change.changes), None)


def record_next_columns(source: SourceFeed, columns: FeedColumns, read: SnapshotId) -> None:
    """Record the columns that come right after what was read, for a query that tracks them."""
    location = source.options.schema_tracking_location
    change = next_columns_change(source, columns)
    if location is not None and change is not None and change.last_before == read:
        SchemaTracking.of(location, source.lake.storage.options).record(source.table, change.since)


def last_before_change(source: SourceFeed, columns: FeedColumns, start: SnapshotId, end: SnapshotId) -> SnapshotId:
    """Return the last snapshot of a range that has the query's columns; raise SchemaChanged when none has."""
    change = next_columns_change(source, columns)
    if change is None or change.since > end:
        return end
    if change.last_before > start:
        return change.last_before
    raise columns_changed_error(source, change, start)


def columns_changed_error(source: SourceFeed, change: ColumnsChange, read: SnapshotId) -> SchemaChanged:
    """Return the error for a query that has read everything before its columns change.

    With a schemaTrackingLocation the new columns are recorded there first: the query goes on when it is restarted.
    """
    location = source.options.schema_tracking_location
    remedy = "restart the query to go on with the new columns"
    if location is not None:
        SchemaTracking.of(location, source.lake.storage.options).record(source.table, change.since)
        remedy = f"they are recorded in '{location}': restart the query to go on with them"
    elif any(one.is_breaking for one in change.changes):
        remedy = (
            f"restart the query with schemaTrackingLocation set to an empty directory and startingVersion={read + 1} "
            "to go on with the new columns, or use a new checkpoint"
        )
    return SchemaChanged(
        f"the columns of table '{source.table.qualified_name}' changed in snapshot {change.since}: "
        f"{describe(change.changes)}. All changes before it were read; {remedy}",
        table=source.table.qualified_name,
        snapshot=change.since,
    )
