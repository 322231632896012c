"""A table as a change feed sees it: its head, its snapshots, the columns it had and has. Runs on the driver.

The table is found by name once, and by its id from then on: a rename changes nothing for a feed that runs.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc

from ducklake_core import Lake
from ducklake_core.catalog import reader
from ducklake_core.errors import InvalidInput, OffsetMismatch, SnapshotsExpired
from ducklake_core.feed.change_types import ChangeType
from ducklake_core.feed.history import History, TableSnapshot, find_gap
from ducklake_core.feed.listing import FeedRequest, list_changes, read_change_sizes, read_history
from ducklake_core.feed.rows import CHANGE_TYPE, read_changes
from ducklake_core.feed.sizes import ChangeSize
from ducklake_core.log_lines import log_event
from ducklake_core.model import Column, ColumnsVersion, Snapshot, SnapshotId, SnapshotSpan, TableVersion
from ducklake_sources.option_values import Start
from ducklake_sources.options import SourceOptions

_log = logging.getLogger(__name__)


def log_loss(error: SnapshotsExpired) -> None:
    """Say which changes are gone, where that is accepted."""
    lost = {"table": error.table, "first_snapshot": error.first_lost, "last_snapshot": error.last_lost}
    log_event(_log, logging.WARNING, "changes_lost", **lost, reason="expired")


def open_lake(options: SourceOptions) -> Lake:
    """Open the lake that a source reads."""
    return Lake.open(
        options.catalog,
        metadata_schema=options.metadata_schema,
        data_path=options.data_path,
        catalog_timeout=options.catalog_timeout,
    )


class TableFeed:
    """One table of one lake. Definitions are read again only when the lake's schema version moves."""

    def __init__(self, options: SourceOptions) -> None:
        self.options = options
        self.lake = open_lake(options)
        try:
            found = self.lake.table(options.table)
        except BaseException:  # an interrupt must leave no connection behind, either
            self.lake.close()
            raise
        self.table: TableVersion = found.version
        self._at: Snapshot = found.snapshot

    def close(self) -> None:
        self.lake.close()

    def head(self) -> Snapshot:
        """Return the newest snapshot."""
        return self.lake.database.ask(reader.read_head)

    def table_at(self, snapshot: Snapshot) -> TableVersion:
        """Return the table as a snapshot has it; raise OffsetMismatch when it was dropped."""
        if (snapshot.schema_version, snapshot.snapshot_id >= self._at.snapshot_id) != (self._at.schema_version, True):
            table_id, at, root = self.table.table_id, snapshot.snapshot_id, self.lake.data_path
            found = self.lake.database.ask(lambda session: reader.find_table_by_id(session, table_id, at, root))
            if found is None or found.table_uuid != self.table.table_uuid:
                raise OffsetMismatch(
                    f"table '{self.table.qualified_name}' is not there at snapshot {snapshot.snapshot_id}: it was "
                    "dropped, or created later. A table created anew under its name is another one: read it with a new "
                    "checkpoint",
                    table=self.table.qualified_name,
                    snapshot=snapshot.snapshot_id,
                )
            self.table, self._at = found, snapshot
        return self.table

    def snapshot(self, at: int | datetime) -> Snapshot:
        return self.lake.database.ask(lambda session: reader.read_snapshot(session, at))

    def history(self, span: SnapshotSpan) -> History:
        return self.lake.database.ask(lambda session: read_history(session, self.table, span))

    def columns_versions(self) -> Sequence[ColumnsVersion]:
        """Return all columns that the table has ever had."""
        table = self.table
        return self.lake.database.ask(
            lambda session: reader.read_columns_versions(session, table.table_id, table.qualified_name)
        )

    def columns_at(self, snapshot: int) -> tuple[Column, ...]:
        """Return the columns that the table had at a snapshot, which may have expired."""
        versions = [v for v in self.columns_versions() if v.since <= snapshot]
        return versions[-1].columns if versions else ()

    # ---- where a feed begins

    @property
    def is_start_fixed(self) -> bool:
        """Tell whether the feed begins at the same snapshot whenever it is asked."""
        symbolic = isinstance(self.options.starting_version, Start)
        return not symbolic and self.options.starting_timestamp is None

    def start(self) -> SnapshotId | None:
        """Return the snapshot after which the feed begins; None when it begins with the table itself."""
        since, moment = self.options.starting_version, self.options.starting_timestamp
        if moment is not None:
            first = self.lake.database.ask(lambda session: reader.read_first_snapshot(session, moment))
            return SnapshotId(first - 1)
        if since is None:
            return None
        if since is Start.LATEST:
            return self.head().snapshot_id
        if since is Start.EARLIEST:
            return self._before_earliest()
        head = self.head().snapshot_id
        if since > head + 1:
            raise InvalidInput(
                f"startingVersion {since} is not there yet: the newest snapshot is {head}, and a feed may begin at "
                f"{head + 1} at the latest",
                head=head,
                start=since,
            )
        return SnapshotId(since - 1)

    def _before_earliest(self) -> SnapshotId:
        """Return the snapshot before the oldest one whose changes are all there."""
        before = SnapshotId(self.table.begin_snapshot - 1)
        head = self.head().snapshot_id
        while before < head:
            gap = find_gap(self.history(SnapshotSpan(before, head)), self.table.begin_snapshot)
            if gap is None:
                break
            before = gap[1]
        return before

    def end(self) -> SnapshotId | None:
        """Return the last snapshot that the feed reads; None when there is none, or at which it never ends."""
        if self.options.ending_timestamp is not None:
            return self.snapshot(self.options.ending_timestamp).snapshot_id
        return self.options.ending_version

    # ---- how much there is

    def has_deletes(self, snapshot: TableSnapshot) -> bool:
        """Tell whether a snapshot has deleted rows, by these rows themselves."""
        span = SnapshotSpan(SnapshotId(snapshot.snapshot_id - 1), snapshot.snapshot_id)
        task = list_changes(self.lake.database, FeedRequest(self.table, (), span, accept_loss=True))
        inserted = pa.scalar(ChangeType.insert.name)
        kinds = (record_batch.column(CHANGE_TYPE) for record_batch in read_changes(self.lake.storage, task))
        return any(pc.any(pc.not_equal(kind, inserted)).as_py() for kind in kinds)

    def sizes(self, history: History) -> Mapping[int, ChangeSize]:
        """Return about how much each snapshot of a range has changed."""
        return read_change_sizes(self.lake.database, self.table, history)

    def with_columns(self, columns: tuple[Column, ...]) -> TableVersion:
        """Return the table as it is, with the columns that the feed has."""
        return replace(self.table, columns=columns)
