"""The public face of core: `Lake`. Runs wherever there is no Spark, and on Spark's driver.

A lake is opened by the address of its catalog; nothing else is needed. Every operation outside of a transaction is a
transaction of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from datetime import datetime, timedelta
from functools import partial
from types import TracebackType
from typing import Any, Self

import pyarrow as pa

from ducklake_core.added_files import LakeAddedFiles
from ducklake_core.arrow_input import to_table
from ducklake_core.catalog import reader
from ducklake_core.catalog.commit import CommitResult
from ducklake_core.catalog.committer import Committer
from ducklake_core.catalog.database import Database
from ducklake_core.catalog.inlined_cleanup import DEFAULT_KEEP
from ducklake_core.catalog.inlined_state import find_tables_inlined_into, read_inlined_state
from ducklake_core.catalog.lake_setup import create_lake, open_lake
from ducklake_core.catalog.options import write_option
from ducklake_core.catalog.rights import check_can_create, check_rights
from ducklake_core.catalog.urls import CatalogUrl
from ducklake_core.clock import SYSTEM_CLOCK, Clock
from ducklake_core.definition_commits import DefinitionCommits
from ducklake_core.definitions import Definitions
from ducklake_core.errors import InvalidInput, ObjectNotFound, TerminalError
from ducklake_core.feed.table_feed import TableFeed
from ducklake_core.feed.task import FeedMode
from ducklake_core.files.storage import Storage
from ducklake_core.files.storage_options import StorageOptions
from ducklake_core.flush import DEFAULT_MEMORY_BYTES
from ducklake_core.flush_all import flush_all, flush_one
from ducklake_core.keyed_changes import LakeKeyedChanges
from ducklake_core.maintenance_calls import MaintenanceCalls
from ducklake_core.model import Epoch, FlushResult, InlinedState, Snapshot
from ducklake_core.observe import LOG_RECORDER, FeedRead, Recorder, Recorders
from ducklake_core.overview import Overview
from ducklake_core.plan.predicates import Predicate
from ducklake_core.plan.staged import CommitInfo
from ducklake_core.progress import Progress
from ducklake_core.read.table import Table
from ducklake_core.replacements import LakeReplacements
from ducklake_core.retries import DEFAULT_TIMEOUT_SECONDS, CatalogTimeout, Patience, conflict_retries
from ducklake_core.spec.names import fold
from ducklake_core.spec.options import normalize_option
from ducklake_core.spec.quantities import parse_duration
from ducklake_core.storage_settings import StorageSettings, storage_options
from ducklake_core.transaction import Transaction
from ducklake_core.upsert.known_tables import KnownTables


class Lake(DefinitionCommits, LakeAddedFiles, LakeKeyedChanges, LakeReplacements, MaintenanceCalls, Overview, Progress):
    """One DuckLake. Make it with `Lake.create` or `Lake.open`; use it in a `with` block or `close` it.

    Each method that changes the lake is one commit: it returns the snapshot it made, None when nothing changed.
    What cannot be done is refused by a `TerminalError` before anything is written, `CommitConflict` included; after a
    `TransientError` nothing was written and it may be tried again; after `CommitOutcomeUnknown` look first.
    Names are `table` or `schema.table`, columns `column` or `column.field`; odd parts are quoted, as in `"my.table"`.
    """

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
        self.committer = Committer(database, data_path, clock, self.recorder)
        self.known_tables = KnownTables()
        self._definitions: Definitions | None = None
        self._purged_at: dict[str, datetime] = {}

    @classmethod
    def create(
        cls,
        url: str,
        data_path: str,
        *,
        metadata_schema: str | None = None,
        catalog_timeout: CatalogTimeout = DEFAULT_TIMEOUT_SECONDS,
        recorder: Recorder = LOG_RECORDER,
        clock: Clock = SYSTEM_CLOCK,
        storage: Mapping[str, object] | StorageSettings | None = None,
    ) -> Self:
        """Create an empty lake; its files will be under `data_path`, a directory or a URL such as `s3://bucket/lake`.

        `url` is a SQLAlchemy URL or DuckDB's ATTACH string; the rest as in `open`.
        Raises LakeExists, or CatalogError for what is no catalog.
        """
        patience = Patience.of(catalog_timeout).told_to(recorder)
        options = storage_options(storage)
        database = Database(CatalogUrl.parse(url, metadata_schema), patience=patience)
        return cls._of(database, lambda: create_lake(database, data_path, clock.now()), recorder, clock, options)

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

    def check_rights(self, *, maintains: bool = False) -> None:
        """Raise CatalogForbidden where the database does not let a sink write to the catalog. Nothing is changed.

        `maintains`: also where it does not let us maintain the lake.
        """
        self.database.wait_for(lambda: check_rights(self.database, maintains=maintains))

    @staticmethod
    def check_can_create(
        url: str,
        data_path: str,
        *,
        metadata_schema: str | None = None,
        catalog_timeout: CatalogTimeout = DEFAULT_TIMEOUT_SECONDS,
        recorder: Recorder = LOG_RECORDER,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """Raise CatalogForbidden where `create` with the same arguments could not make a lake. Nothing is made.

        Of a catalog in a file it sees only whether its folder can be written to.
        """
        patience = Patience.of(catalog_timeout).told_to(recorder)
        database = Database(CatalogUrl.parse(url, metadata_schema), patience=patience)
        try:
            database.wait_for(lambda: check_can_create(database, data_path, clock.now()))
        finally:
            database.close()

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

    # ---- writing

    def transaction(
        self,
        *,
        author: str | None = None,
        message: str | None = None,
        extra_info: str | None = None,
        epoch: Epoch | None = None,
        fresh: bool = True,
    ) -> Transaction:
        """Begin a transaction; use it in a `with` block. `epoch` is recorded in the ledger by the same commit.

        `fresh` False: it begins from the lake as it was last looked at, which saves a round trip; a table that another
        has changed since then is a conflict.
        """
        if epoch is not None:
            self._ensure_ledger()
        return Transaction(self, self.definitions(fresh=fresh), CommitInfo(author, message, extra_info), epoch)

    def append(self, table: str, data: Any, *, fill_missing: bool = False) -> Snapshot | None:  # Any: see Transaction
        """Add rows in one snapshot, inlined or as Parquet by the effective limit; None when there are no rows."""
        data = to_table(data)  # a stream can be read once, and there may be two attempts
        if self._definitions is not None:
            try:
                return self._append(table, data, fill_missing=fill_missing, fresh=False)
            except TerminalError:
                self.forget()  # perhaps what we remember has changed: look again
        return self._append(table, data, fill_missing=fill_missing, fresh=True)

    def _append(self, table: str, data: Any, *, fill_missing: bool, fresh: bool) -> Snapshot | None:
        with self.transaction(fresh=fresh) as tx:
            tx.append(table, data, fill_missing=fill_missing)
        return tx.result.snapshot if tx.result else None

    def delete(self, table: str, where: str | Predicate | None) -> Snapshot | None:
        """Delete the rows that match a filter such as `id = 3`; None deletes all."""
        return self._retry_after_move(lambda tx: tx.delete(table, where))

    def update(self, table: str, values: Mapping[str, object], where: str | Predicate | None = None) -> Snapshot | None:
        """Set columns of the rows that match, all without a filter, to values or `pyarrow.compute` expressions."""
        return self._retry_after_move(lambda tx: tx.update(table, values, where))

    # ---- inlined rows

    def flush_inlined(
        self,
        table: str | None = None,
        *,
        memory_bytes: int = DEFAULT_MEMORY_BYTES,
        keep_superseded: float | str | timedelta = DEFAULT_KEEP,
    ) -> FlushResult:
        """Move inlined rows and deletes of a table to Parquet: one snapshot, in which no reader sees a difference.

        None: of every table but those with the option `auto_compact` false, one snapshot each. It takes about
        `memory_bytes` of memory, however many rows there are. Rows that are inserted meanwhile stay for the next
        flush. When others delete inlined rows, flush or alter the table again and again, it gives up with
        `CommitConflict` after several attempts (of all tables: after the others): nothing is lost, flush later.

        Tables of inlined rows that have older columns than the newest, and are empty, are dropped by the first flush
        that comes `keep_superseded` (seconds, or a text such as `1h`) after they were emptied: a DuckDB session that
        is open may know them, and on PostgreSQL it breaks down when it reads one that is gone. 0: at once, as DuckDB's
        own flush does. Raises InvalidInput for what is no time.
        """
        try:
            keep = parse_duration(keep_superseded)
        except ValueError as error:
            raise InvalidInput(f"keep_superseded is {keep_superseded!r}, but must be {error}") from error
        return flush_all(self, memory_bytes, keep) if table is None else flush_one(self, table, memory_bytes, keep)

    def inlined_state(self, table: str) -> InlinedState:
        """Return how much of a table is in the catalog instead of in files.

        It reads the inlined rows once, in three round trips. Bytes are those of rows as PostgreSQL stores them; on
        SQLite the lengths of all values as text, without what the database adds.
        """
        return read_inlined_state(self.database, self.table(table).version)

    def tables_inlined_into(self, extra_info: str) -> list[str]:
        """Return the tables that rows were inlined into by snapshots whose extra info begins with this text.

        Only those of which the snapshots have not expired; whether rows are inlined there still, `inlined_state` tells.
        """
        return find_tables_inlined_into(self.database, extra_info)

    # ---- options and epochs

    def set_option(self, name: str, value: object, *, schema: str | None = None, table: str | None = None) -> None:
        """Set an option of the lake, of a schema or of a table. It makes no snapshot. Raises InvalidInput."""
        text = normalize_option(name, value)
        scope, scope_id = self._scope(schema, table)
        write_option(self.database, name.lower(), text, scope, scope_id)
        self.forget()

    def options(self, *, schema: str | None = None, table: str | None = None) -> dict[str, str]:
        """Return the options set in exactly one scope."""
        return dict(self.definitions().options.get(self._scope(schema, table), {}))

    def commit_epoch(self, epoch: Epoch, write: Callable[[Transaction], object]) -> CommitResult:
        """Commit one epoch exactly once: `write` stages its changes; a replay discards them and says so.

        Raises a `LedgerError` when what the ledger holds forbids the epoch.
        """
        with self.transaction(epoch=epoch) as tx:
            write(tx)
        assert tx.result is not None  # noqa: S101 # a transaction that ended well has one
        return tx.result

    def _in_own_transaction(self, operation: Callable[[Transaction], object]) -> Snapshot | None:
        with self.transaction() as tx:
            operation(tx)
        return tx.result.snapshot if tx.result else None

    def _retry_after_move(self, operation: Callable[[Transaction], object]) -> Snapshot | None:
        """Do it again from the new head when all that came between only moved rows: they are the same, elsewhere."""
        for attempt in conflict_retries(recorder=self.recorder):
            with attempt:
                return self._in_own_transaction(operation)
        raise AssertionError("unreachable")  # the policy re-raises

    def _scope(self, schema: str | None, table: str | None) -> tuple[str | None, int | None]:
        if table is not None:
            found = self.definitions().known_table(f"{schema}.{table}" if schema else table)
            if found is None:
                raise self.definitions().table_not_found(table)
            return "table", found.version.table_id
        if schema is not None:
            ids = {fold(s.name): s.schema_id for s in self.definitions().schemas()}
            if fold(schema) not in ids:
                raise ObjectNotFound(f"there is no schema '{schema}'", name=schema)
            return "schema", ids[fold(schema)]
        return None, None
