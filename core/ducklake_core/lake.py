"""The public face of core: `Lake`. Runs wherever there is no Spark, and on Spark's driver.

A lake is opened by the address of its catalog; nothing else is needed. Every operation outside of a transaction is a
transaction of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any, Self

from ducklake_core.added_files import LakeAddedFiles
from ducklake_core.arrow_input import to_table
from ducklake_core.catalog.commit import CommitResult
from ducklake_core.catalog.committer import Committer
from ducklake_core.catalog.database import Database
from ducklake_core.catalog.inlined_cleanup import DEFAULT_KEEP
from ducklake_core.catalog.inlined_state import find_tables_inlined_into, read_inlined_state
from ducklake_core.catalog.lake_setup import create_lake
from ducklake_core.catalog.options import write_option
from ducklake_core.catalog.rights import check_can_create, check_rights
from ducklake_core.catalog.urls import CatalogUrl
from ducklake_core.clock import SYSTEM_CLOCK, Clock
from ducklake_core.definition_commits import DefinitionCommits
from ducklake_core.errors import InvalidInput, ObjectNotFound, TerminalError
from ducklake_core.files.storage_options import StorageOptions
from ducklake_core.flush import DEFAULT_MEMORY_BYTES
from ducklake_core.flush_all import flush_all, flush_one
from ducklake_core.keyed_changes import LakeKeyedChanges
from ducklake_core.lake_reader import LakeReader
from ducklake_core.maintenance_calls import MaintenanceCalls
from ducklake_core.model import Epoch, FlushResult, InlinedState, Snapshot
from ducklake_core.observe import LOG_RECORDER, Recorder
from ducklake_core.overview import Overview
from ducklake_core.plan.predicates import Predicate
from ducklake_core.plan.staged import CommitInfo
from ducklake_core.replacements import LakeReplacements
from ducklake_core.retries import DEFAULT_TIMEOUT_SECONDS, CatalogTimeout, Patience, conflict_retries
from ducklake_core.spec.names import fold
from ducklake_core.spec.options import normalize_option
from ducklake_core.spec.quantities import parse_duration
from ducklake_core.storage_settings import StorageSettings, storage_options
from ducklake_core.transaction import Transaction
from ducklake_core.upsert.known_tables import KnownTables


class Lake(
    DefinitionCommits, LakeAddedFiles, LakeKeyedChanges, LakeReplacements, MaintenanceCalls, Overview, LakeReader
):
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
        super().__init__(database, data_path, recorder, clock, storage)
        self.committer = Committer(database, data_path, clock, self.recorder)
        self.known_tables = KnownTables()
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
        tx = Transaction(self, self.definitions(fresh=fresh), CommitInfo(author, message, extra_info), epoch)
        tx.assumes_base = not fresh
        return tx

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
