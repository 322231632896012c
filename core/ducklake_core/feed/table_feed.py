"""The change feed of one table: its snapshots, the columns it had and has, and what its rows did. Runs on the driver.

The table is found by name once, and by its id from then on: a rename changes nothing for a feed that runs.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc

from ducklake_core.catalog import reader
from ducklake_core.catalog.database import Database
from ducklake_core.catalog.session import Session
from ducklake_core.errors import ObjectNotFound, OffsetMismatch
from ducklake_core.feed.change_types import ChangeType
from ducklake_core.feed.history import History, TableSnapshot, find_gap
from ducklake_core.feed.listing import (
    FeedRequest,
    ListedChanges,
    OnLoss,
    list_known,
    list_range,
    list_state,
    read_change_sizes,
    read_history,
)
from ducklake_core.feed.rows import CHANGE_TYPE, change_schema, read_changes
from ducklake_core.feed.sizes import ChangeSize
from ducklake_core.feed.task import ChangeTask, FeedMode
from ducklake_core.files.storage import Storage
from ducklake_core.model import Column, ColumnsVersion, Snapshot, SnapshotId, SnapshotSpan, TableVersion

_MAX_THREADS = 8  # that read the files of a feed in this process


class TableFeed:
    """What happened to one table. Made by `Lake.feed`, whose connections it uses.

    Definitions are read again only when the lake's schema version moves. Ranges are `(start, end]`.
    """

    def __init__(
        self, database: Database, storage: Storage, data_path: str, table: TableVersion, snapshot: Snapshot
    ) -> None:
        self.table = table  # as it was when last looked at: `refresh`
        self._database = database
        self._storage = storage
        self._data_path = data_path
        self._known = (table, snapshot)

    # ---- snapshots

    @property
    def seen_at(self) -> Snapshot:
        """The snapshot at which the table was last looked at."""
        return self._known[1]

    def head(self) -> Snapshot:
        """Return the newest snapshot."""
        return self._database.ask(reader.read_head)

    def refresh(self) -> Snapshot:
        """Return the newest snapshot, and have the table as it is there; raise OffsetMismatch when it was dropped."""
        head = self.head()
        self.table = self.table_at(head)
        return head

    def snapshot(self, at: int | datetime) -> Snapshot:
        """Return a snapshot by its id, or the last one not after a time; raise ObjectNotFound."""
        return self._database.ask(lambda session: reader.read_snapshot(session, at))

    def head_and(self, snapshot: SnapshotId) -> tuple[Snapshot, Snapshot | None]:
        """Return the newest snapshot and another one, None when that has expired."""

        def ask(session: Session) -> tuple[Snapshot, Snapshot | None]:
            head = reader.read_head(session)
            if head.snapshot_id == snapshot:
                return head, head
            try:
                return head, reader.read_snapshot(session, snapshot)
            except ObjectNotFound:
                return head, None

        return self._database.ask(ask)

    def before(self, first: int | datetime) -> SnapshotId:
        """Return the snapshot after which a feed begins that has everything from a snapshot or a time on."""
        if not isinstance(first, datetime):
            return SnapshotId(reader.checked_id(first) - 1)
        found = self._database.ask(lambda session: reader.read_first_snapshot(session, first))
        return SnapshotId(found - 1)

    def before_earliest(self) -> SnapshotId:
        """Return the snapshot before the oldest one whose changes are all there."""
        before = SnapshotId(self.table.begin_snapshot - 1)
        head = self.head().snapshot_id
        while before < head:
            gap = find_gap(self.history(SnapshotSpan(before, head)), self.table.begin_snapshot)
            if gap is None:
                break
            before = gap[1]
        return before

    def history(self, span: SnapshotSpan) -> History:
        """Return what the snapshots of a range did to the table."""
        return self._database.ask(lambda session: read_history(session, self.table, span))

    # ---- definitions

    def table_at(self, snapshot: Snapshot) -> TableVersion:
        """Return the table as a snapshot has it; raise OffsetMismatch when it is not there."""
        table, seen = self._known
        if snapshot.schema_version == seen.schema_version and snapshot.snapshot_id >= seen.snapshot_id:
            return table
        at, root = snapshot.snapshot_id, self._data_path
        found = self._database.ask(lambda session: reader.find_table_by_id(session, table.table_id, at, root))
        if found is None or found.table_uuid != table.table_uuid:
            raise OffsetMismatch(
                f"table '{self.table.qualified_name}' is not there at snapshot {at}: it was dropped, or created later. "
                "A table created anew under its name is another one: read it with a new checkpoint",
                table=self.table.qualified_name,
                snapshot=at,
            )
        self._known = found, snapshot
        return found

    def columns_versions(self) -> Sequence[ColumnsVersion]:
        """Return all columns that the table has ever had."""
        table = self.table
        return self._database.ask(
            lambda session: reader.read_columns_versions(session, table.table_id, table.qualified_name)
        )

    def columns_at(self, snapshot: int) -> tuple[Column, ...]:
        """Return the columns that the table had at a snapshot, which may have expired."""
        versions = [v for v in self.columns_versions() if v.since <= snapshot]
        return versions[-1].columns if versions else ()

    # ---- changes

    def list_changes(self, request: FeedRequest, on_loss: OnLoss = lambda _: None) -> ListedChanges:
        """Return everything that changed in a range; raise SnapshotsExpired when some of it is lost."""
        return list_range(self._database, request, on_loss)

    def list_state(self, request: FeedRequest) -> ChangeTask:
        """Return the rows that the table has at the end of a range, as a task."""
        return list_state(self._database, request)

    def sizes(self, history: History) -> Mapping[int, ChangeSize]:
        """Return about how much each snapshot of a range has changed."""
        return read_change_sizes(self._database, self.table, history)

    def has_deletes(self, snapshot: TableSnapshot, history: History) -> bool:
        """Tell whether a snapshot of a history has deleted rows, by these rows themselves."""
        own = history.only(snapshot)
        task = list_known(self._database, FeedRequest(self.table, (), own.span, inlined=None), own)
        inserted = pa.scalar(ChangeType.insert.name)
        kinds = (record_batch.column(CHANGE_TYPE) for record_batch in read_changes(self._storage, task))
        return any(pc.any(pc.not_equal(kind, inserted)).as_py() for kind in kinds)

    def read(self, start: SnapshotId, end: Snapshot, columns: Sequence[Column], *, mode: FeedMode) -> pa.Table:
        """Read the changes of `(start, end]` in this process, in no order; see `Lake.changes`."""
        schema = change_schema(columns)
        span = SnapshotSpan(start, end.snapshot_id)
        if span.start >= span.end:
            return pa.Table.from_batches([], schema)
        # All inlined rows at once: left in the catalog, they might be flushed before they are read.
        request = FeedRequest(self.table_at(end), tuple(columns), span, mode, inlined=None)
        task = self.list_changes(request).task
        threads = min(os.cpu_count() or 1, _MAX_THREADS)
        return pa.Table.from_batches(read_changes(self._storage, task, threads=threads), schema)
