"""What reads a lake: `LakeReader`, the half of `Lake` that Spark's source needs. Runs on the driver; no Spark.

It imports nothing that writes: the first read of a Spark session starts several Python processes that import this.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from datetime import datetime
from functools import partial
from types import TracebackType
from typing import Self

import pyarrow as pa

from ducklake_core.catalog import reader
from ducklake_core.catalog.database import Database
from ducklake_core.catalog.lake_setup import open_lake
from ducklake_core.catalog.urls import CatalogUrl
from ducklake_core.clock import SYSTEM_CLOCK, Clock
from ducklake_core.definitions import Definitions
from ducklake_core.feed.table_feed import TableFeed
from ducklake_core.feed.task import FeedMode
from ducklake_core.files.storage import Storage
from ducklake_core.files.storage_options import StorageOptions
from ducklake_core.model import Snapshot
from ducklake_core.observe import LOG_RECORDER, FeedRead, Recorder, Recorders
from ducklake_core.progress import Progress
from ducklake_core.read.table import Table
from ducklake_core.retries import DEFAULT_TIMEOUT_SECONDS, CatalogTimeout, Patience
from ducklake_core.storage_settings import StorageSettings, storage_options


class LakeReader(Progress):
    """One DuckLake, to be read. What its readers have come to is written, and nothing else."""

    names_data_path = False  # who opened it said where its files are

    def __init__(
        self,
        database: Database,
        data_path: str,
        recorder: Recorder = LOG_RECORDER,
        clock: Clock = SYSTEM_CLOCK,
        storage: StorageOptions | None = None,
    ) -> None:
        self.database = database
        self.recorder = Recorders(recorder)
        self.clock = clock
        self.data_path = data_path
        self.storage = Storage.of(data_path, storage)
        self._definitions: Definitions | None = None

    @classmethod
    def open(
        cls,
        url: str,
        *,
        data_path: str | None = None,
        metadata_schema: str | None = None,
        override_data_path: bool = False,
        catalog_timeout: CatalogTimeout = DEFAULT_TIMEOUT_SECONDS,
        recorder: Recorder = LOG_RECORDER,
        clock: Clock = SYSTEM_CLOCK,
        storage: Mapping[str, object] | StorageSettings | None = None,
    ) -> Self:
        """Open a lake. `data_path` is checked against the lake's, or with `override_data_path` used instead of it.

        A lake whose catalog has a relative data path is the one of the working directory, unless `data_path` names it.
        `catalog_timeout`: for how long each method waits for a catalog that cannot be reached or is locked, such as
        '30s' or '5m', two minutes by default; then it raises `CatalogUnavailable`. 0: it does not wait.
        `recorder`: is told what happens, in place of the log: see `ducklake_core.observe`. `clock`: tells the times of
        snapshots. `storage`: how an S3 store is reached, such as `{"endpoint": "https://…"}`; no credentials.
        Raises NoLakeFound, UnsupportedFormatVersion, DataPathMismatch, or CatalogError for what is no catalog.
        """
        patience = Patience.of(catalog_timeout).told_to(recorder)
        options = storage_options(storage)
        database = Database(CatalogUrl.parse(url, metadata_schema), patience=patience)
        find = partial(open_lake, database, data_path, override=override_data_path)
        lake = cls._of(database, find, recorder, clock, options)
        lake.names_data_path = data_path is not None
        return lake

    @classmethod
    def _of(
        cls,
        database: Database,
        find_data_path: Callable[[], str],
        recorder: Recorder,
        clock: Clock,
        storage: StorageOptions,
    ) -> Self:
        with ExitStack() as on_failure:
            on_failure.callback(database.close)  # an interrupt must leave no connection behind, either
            lake = cls(database, find_data_path(), recorder, clock, storage)
            on_failure.pop_all()
        return lake

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close connections; the lake can be used again all the same."""
        self.database.close()

    def definitions(self, *, fresh: bool = True) -> Definitions:
        """Return the definitions of the head; `fresh` False: those that were found when last looked for."""
        known = self._definitions  # another thread may forget it meanwhile
        if not fresh and known is not None:
            return known
        found = self._definitions = Definitions.at_head(self.database, self.data_path, known)
        return found

    def forget(self) -> None:
        """Forget definitions and options; they are read again when needed."""
        self._definitions = None

    # ---- reading

    def snapshots(self, since: datetime | None = None, limit: int | None = None) -> list[Snapshot]:
        """Return the snapshots that have not expired, the oldest first, with their changes, author and message.

        `since`: only those that are not older than that. `limit`: of these the newest, so many at most.
        """
        return self.database.ask(lambda session: reader.read_snapshots(session, since, limit))

    def tables(self, at: int | datetime | None = None) -> list[Table]:
        """Return the tables of all schemas, by name."""
        snapshot, versions = self.database.ask(lambda session: reader.read_tables_at(session, at, self.data_path))
        return [Table(self.database, self.storage, version, snapshot) for version in versions]

    def table(self, name: str, at: int | datetime | None = None) -> Table:
        """Return a table at a snapshot id, at a time (in UTC without a zone), or at the head; else ObjectNotFound."""
        if at is None:
            definitions = self.definitions()
        else:
            snapshot = self.database.ask(lambda session: reader.read_snapshot(session, at))
            definitions = Definitions(self.database, self.data_path, snapshot, {})
        known = definitions.known_table(name)
        if known is None:
            raise definitions.table_not_found(name)
        return Table(self.database, self.storage, known.version, definitions.snapshot)

    def changes(
        self,
        table: str,
        start: int | datetime,
        end: int | datetime | None = None,
        *,
        columns: Sequence[str] | None = None,
        net: bool = False,
    ) -> pa.Table:
        """Return what the rows of a table did from one snapshot to another, both ends included; in no order.

        Ends are snapshot ids or times: the first snapshot not before `start`, the last one not after `end`, by default
        the head. Rows have the columns of the table at the end, then `_change_type` (insert, delete, update_preimage,
        update_postimage), `_commit_version`, `_commit_timestamp` and `_rowid`. `net`: one row for each row id, what
        became of it in the whole range. Raises SnapshotsExpired when some of it is gone.
        """
        begun = self.clock.seconds()
        last = self.table(table, at=end)
        shown, feed = last.projection(columns), self._feed_of(last)
        before, mode = feed.before(start), FeedMode.NET if net else FeedMode.CHANGES
        rows = feed.read(before, last.snapshot, shown, mode=mode)
        name, seconds = last.version.qualified_name, self.clock.seconds() - begun
        self.recorder.record(FeedRead(name, before, last.snapshot.snapshot_id, rows.num_rows, seconds))
        return rows

    def feed(self, table: str, at: int | datetime | None = None) -> TableFeed:
        """Return the change feed of a table that is there now (or `at` a snapshot), for those who follow its snapshots.

        It tells the snapshots and columns of the table, and lists changes as tasks that other processes read. From here
        on the table is known by its id: a rename changes nothing. `changes` reads a range at once.
        """
        return self._feed_of(self.table(table, at=at))

    def _feed_of(self, table: Table) -> TableFeed:
        return TableFeed(self.database, self.storage, self.data_path, table.version, table.snapshot)

    def schemas(self, at: int | datetime | None = None) -> list[str]:
        """Return the names of the schemas."""
        return [schema.name for schema in self.database.ask(lambda session: reader.read_schemas_at(session, at))]
