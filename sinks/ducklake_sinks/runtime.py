"""What a sink has while it runs in one process: the open lake, the query it serves, what it remembers between batches.

Runs on the driver. Never pickled: each process makes its own when the first batch comes.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

from pyspark.sql import SparkSession
from pyspark.sql import types as T  # noqa: N812 # Spark's own convention

from ducklake_core import Epoch, Lake, faults
from ducklake_core.catalog.urls import CatalogUrl
from ducklake_core.errors import InvalidInput, NoLakeFound, ObjectNotFound
from ducklake_core.model import Column, LedgerEntry, TableId
from ducklake_core.plan.epochs import EpochDecision, decide_epoch
from ducklake_core.retries import commit_retries
from ducklake_core.spec.names import join_table_name
from ducklake_sinks.collector import Expectation
from ducklake_sinks.governor import FlushGovernor
from ducklake_sinks.incoming import Incoming
from ducklake_sinks.options import SinkOptions
from ducklake_sinks.query import BY_HAND, Query, QueryFinder

Result = TypeVar("Result")

_claims: dict[tuple[str, str], tuple[str, int]] = {}
_claims_lock = threading.Lock()


@dataclass(frozen=True, slots=True)
class Beginning:
    """A batch that begins: who asks, as which epoch, and whether the ledger has it already."""

    query: Query
    epoch: Epoch
    committed: LedgerEntry | None = None  # the same epoch, when the ledger has it already

    @property
    def is_replay(self) -> bool:
        return self.committed is not None

    def extra_info(self, job: str | None) -> str:
        """Return what people can read about the snapshot; nothing else reads it."""
        facts = {
            "stream": self.epoch.stream,
            "batch_id": self.epoch.batch_id,
            "query_id": self.epoch.query_id,
            "run_id": self.epoch.run_id,
            "offsets": self.query.offsets(self.epoch.batch_id),
            "job": job,
        }
        return json.dumps({name: value for name, value in facts.items() if value is not None})


class SinkRuntime:
    """The process-local half of a sink."""

    def __init__(self, options: SinkOptions, root: SparkSession | None) -> None:
        self.options = options
        self.finder = QueryFinder(root)
        self.expectations: dict[str, Expectation] = {}
        self.prepared: dict[str, tuple[tuple[Column, ...], Incoming | None]] = {}
        self.table_ids: dict[str, TableId] = {}  # of tables that were in the lake while this sink runs
        self._incoming: Incoming | None = None
        self._committed: tuple[str, int] | None = None  # the last run and batch

    @cached_property
    def lake(self) -> Lake:
        return patiently(self.open_lake)

    @cached_property
    def governor(self) -> FlushGovernor | None:
        policy = self.options.flush
        return None if policy is None else FlushGovernor(policy, self.open_lake)

    def open_lake(self) -> Lake:
        """Open the lake; create it where there is none and the options say where its files go."""
        catalog, data_path, schema = self.options.catalog, self.options.data_path, self.options.metadata_schema
        try:
            return Lake.open(catalog, data_path=data_path, metadata_schema=schema)
        except NoLakeFound:
            if data_path is None:
                raise
            return Lake.create(catalog, data_path, metadata_schema=schema)

    def close(self) -> None:
        if self.__dict__.get("governor") is not None:
            self.__dict__["governor"].close()
        if "lake" in self.__dict__:
            self.lake.close()

    def begin(self, batch_id: int, session: SparkSession) -> Beginning:
        """Find the query and look up the epoch. Raises a LedgerError when it must not be committed."""
        if self.governor is not None:
            self.governor.wait_if_behind()
        query = self.finder.find(session, self.options.stream)
        stream = self._stream(query)
        self._refuse_second_use(query, stream, batch_id)
        continues = self._committed is not None and self._committed[0] == query.run_id
        epoch = Epoch(stream, batch_id, query.query_id, query.run_id, continues_run=continues)
        faults.at("before_ledger_read")
        entry = patiently(lambda: self.lake.ledger_entry(stream))
        return Beginning(query, epoch, entry if decide_epoch(epoch, entry) is EpochDecision.REPLAY else None)

    def set_table_options(self, table: str) -> None:
        """Give a table that the sink has created its options; the limit of inlined rows holds for others, too."""
        wanted = {"data_inlining_row_limit": self.options.inline_rows, **(self.options.table_options or {})}
        known = self.lake.options(table=table)
        for name, value in wanted.items():
            if name.lower() not in known:
                self.lake.set_option(name, value, table=table)

    def adopt(self, table: str) -> None:
        """Take notice of a table that the sink has created."""
        self.set_table_options(table)
        self.table_ids[table] = self.lake.table(table).version.table_id

    def complete(self, committed: LedgerEntry) -> None:
        """Do what a run that died right after a commit did not live to do: options of the tables that it created."""
        if committed.snapshot_id is None:
            return
        try:
            before, after = (self.lake.tables(at=committed.snapshot_id - n) for n in (1, 0))
        except ObjectNotFound:  # expired, so it was long ago
            return
        old = {table.version.table_id for table in before}
        now = {table.version.table_id for table in self.lake.tables()}
        for version in (table.version for table in after):
            if version.table_id in now - old:
                self.set_table_options(join_table_name(version.schema_name, version.name))

    def has_committed(self, epoch: Epoch) -> None:
        self._committed = (epoch.run_id, epoch.batch_id)

    def incoming(self, schema: T.StructType) -> Incoming:
        """Return a frame's schema as the lake has it; frames of one stream have the same."""
        if self._incoming is None or self._incoming.spark != schema:
            self._incoming = Incoming.of(schema)
        return self._incoming

    def _stream(self, query: Query) -> str:
        if self.options.stream is not None:
            return self.options.stream
        if query.query_id == BY_HAND:
            raise InvalidInput(
                "the sink does not know which stream this is: outside of a streaming query of the classic client, and "
                "over Spark Connect, give it a name with stream='…'"
            )
        return query.query_id

    def _refuse_second_use(self, query: Query, stream: str, batch_id: int) -> None:
        """Refuse what the ledger would take for a replay, and skip: the same epoch twice in one run."""
        if query.query_id == BY_HAND:
            return
        if self._committed == (query.run_id, batch_id):
            raise InvalidInput(
                f"batch {batch_id} of stream '{stream}' was committed by this sink already: to write several frames of "
                "one batch, use 'with sink.transaction(batch_id) as tx' and tx.append for each"
            )
        key = (CatalogUrl.parse(self.options.catalog).shown, stream)
        with _claims_lock:
            run_id, owner = _claims.setdefault(key, (query.run_id, id(self)))
            if run_id == query.run_id and owner != id(self):
                raise InvalidInput(
                    f"two sinks of one query use the stream '{stream}': give each a name of its own with stream='…'"
                )
            _claims[key] = (query.run_id, id(self))


def patiently(act: Callable[[], Result]) -> Result:
    """Do something again while the catalog is away, as long as a commit would be tried."""
    result: Result = commit_retries()(act)
    return result
