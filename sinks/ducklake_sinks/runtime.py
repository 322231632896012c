"""What a sink has while it runs in one process: the open lake, the query it serves, what it remembers between batches.

Runs on the driver. Never pickled: each process makes its own when the first batch comes.
"""

from __future__ import annotations

import json
import math
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from ducklake_core import Epoch, Lake, Transaction, faults
from ducklake_core.errors import InvalidInput, LakeExists, NoLakeFound, ObjectNotFound
from ducklake_core.files.storage import Storage
from ducklake_core.model import Column, LedgerEntry, TableId
from ducklake_core.plan.epochs import EpochDecision, decide_epoch
from ducklake_core.retries import Patience
from ducklake_core.spec.names import join_table_name
from ducklake_sinks.collector import BatchSize
from ducklake_sinks.frame_schema import FrameSchema, json_of_schema
from ducklake_sinks.governor import FlushGovernor
from ducklake_sinks.options import SinkOptions
from ducklake_sinks.own_tables import tables_of_stream
from ducklake_sinks.query import BY_HAND, Query, QueryFinder
from ducklake_sinks.routes import route_key

DEFINITIONS_SECONDS = 5.0  # for so long, what is known of tables and options is taken for true


@dataclass(frozen=True, slots=True)
class EpochStart:
    """A batch that begins: who asks, as which epoch, and whether the ledger has it already."""

    query: Query
    epoch: Epoch | None  # None: rows without a number, which nothing keeps from being written twice
    committed: LedgerEntry | None = None  # the same epoch, when the ledger has it already
    offsets: list[Any] | None = None  # Any: JSON of the sources

    @property
    def is_replay(self) -> bool:
        return self.committed is not None

    @property
    def names(self) -> dict[str, object]:
        """The names of the batch in a log line."""
        return {} if self.epoch is None else {"stream": self.epoch.stream, "batch": self.epoch.batch_id}

    def extra_info(self, options: SinkOptions) -> str:
        """Return what people can read about the snapshot; we look for the stream, which comes first: see `told_of`."""
        epoch = self.epoch
        facts = {
            "stream": options.stream if epoch is None else epoch.stream,
            "batch_id": None if epoch is None else epoch.batch_id,
            "query_id": None if epoch is None else epoch.query_id,
            "run_id": None if epoch is None else epoch.run_id,
            "offsets": self.offsets,
            "job": options.job,
        }
        return json.dumps({name: value for name, value in facts.items() if value is not None})


class SinkRuntime:
    """The process-local half of a sink."""

    def __init__(self, options: SinkOptions, root: SparkSession | None) -> None:
        self.options = options
        self.finder = QueryFinder(root)
        self.sizes: dict[str, BatchSize] = {}
        self.with_invalid_text: set[tuple[str, str]] = set()  # see LargeBatch
        self.prepared: dict[tuple[str, str], tuple[tuple[Column, ...], FrameSchema | None]] = {}  # by `route_key`
        self.routed: dict[tuple[str, str], str] = {}  # names of tables that rows were routed to
        self.table_ids: dict[tuple[str, str], TableId] = {}  # of tables that were in the lake while this sink runs
        self.unconfigured: set[str] = (
            set()
        )  # tables that the sink has created, and `configure_created` does not know yet
        self._frame_schema: FrameSchema | None = None
        self._committed_run: str | None = None
        self._looked_at = -math.inf  # when definitions were read
        self._current = threading.local()  # its query: one sink may serve several, each in a thread of its own

    @cached_property
    def lake(self) -> Lake:
        return self._open_or_create()

    @cached_property
    def governor(self) -> FlushGovernor | None:
        policy = self.options.flush
        if policy is None:
            return None
        options = self.options
        governor = FlushGovernor(
            policy, lambda: open_lake(options, lambda: governor.is_closed), partial(tables_of_stream, options)
        )
        weakref.finalize(self, governor.close)  # with the sink, or at the end of the process
        return governor

    def _open_or_create(self) -> Lake:
        """Open the lake; create it where there is none and the options say where its files go.

        Raises UnwritableFile when no file can be written there: rows of small batches would come in, and never get out
        of the catalog.
        """
        try:
            lake = open_lake(self.options, self._is_stopping)
        except NoLakeFound as error:
            if self.options.data_path is None:
                raise NoLakeFound(
                    f"{error}, or give the sink data_path='…', the place for its files: it creates the lake then"
                ) from error
            Storage.of(self.options.data_path).check_writable()  # before there is a lake that nobody can use
            try:
                return self._create(self.options.data_path)
            except LakeExists:  # another sink has created it meanwhile
                lake = open_lake(self.options, self._is_stopping)
        with ExitStack() as stack:
            stack.enter_context(lake)
            lake.storage.check_writable()
            stack.pop_all()
        return lake

    def _create(self, data_path: str) -> Lake:
        return Lake.create(
            self.options.catalog,
            data_path,
            metadata_schema=self.options.metadata_schema,
            catalog_timeout=Patience.of(self.options.catalog_timeout, self._is_stopping),
        )

    def _is_stopping(self) -> bool:
        """Tell whether the query of the batch in this thread has been stopped: then nobody waits for the catalog."""
        query = self.current_query
        return query is not None and not query.is_active()

    @property
    def current_query(self) -> Query | None:
        """The query of the batch in this thread, once it is known."""
        return getattr(self._current, "query", None)

    def close(self) -> None:
        if self.__dict__.get("governor") is not None:
            self.__dict__["governor"].close()
        if "lake" in self.__dict__:
            self.lake.close()

    def watch_stream(self, stream: str | None) -> None:
        """Have the tables flushed that a stream wrote to before."""
        if self.governor is not None:
            self.governor.watch_stream(stream)

    def begin_without_number(self, session: SparkSession, act: str) -> EpochStart:
        """Begin rows that belong to no batch of a stream. Raises InvalidInput within a batch, which names the act."""
        query = self.finder.find(session, None) if hasattr(session, "_jsparkSession") else None
        if query is not None and query.query_id != BY_HAND:
            raise InvalidInput(
                f"{act} is for rows outside of a streaming query: a batch that Spark repeats would be written "
                "twice. In foreachBatch call sink(df, batch_id), or sink.transaction(batch_id) for several frames"
            )
        if self.governor is not None:
            self.governor.wait_if_behind()
        self.lake.definitions()  # made, where there is none, before anybody looks for its tables
        self.watch_stream(self.options.stream)
        return EpochStart(query or Query(BY_HAND, ""), None)

    def begin(self, batch_id: int, session: SparkSession) -> EpochStart:
        """Find the query and look up the epoch. Raises a LedgerError when it must not be committed."""
        if self.governor is not None:
            self.governor.wait_if_behind()
        query = self._current.query = self.finder.find(session, self.options.stream)
        stream = self._stream(query)
        continues = self._committed_run == query.run_id
        epoch = Epoch(stream, batch_id, query.query_id, query.run_id, continues_run=continues)
        faults.at("before_ledger_read")
        if continues and query.query_id != BY_HAND:
            # Spark repeats no batch in a run, and the commit asks the ledger all the same.
            return EpochStart(query, epoch, offsets=query.offsets(batch_id))
        entry = self.lake.ledger_entry(stream)
        self.watch_stream(stream)
        if decide_epoch(epoch, entry) is not EpochDecision.REPLAY:
            return EpochStart(query, epoch, offsets=query.offsets(batch_id))
        refuse_second_use(epoch, entry)
        return EpochStart(query, epoch, entry)

    def set_table_options(self, table: str) -> None:
        """Give a table that the sink has created its options; the limit of inlined rows holds for others, too."""
        wanted = {"data_inlining_row_limit": self.options.inline_rows, **(self.options.table_options or {})}
        known = self.lake.options(table=table)
        for name, value in wanted.items():
            if name.lower() not in known:
                self.lake.set_option(name, value, table=table)

    def configure_created(self, table: str) -> None:
        """Take notice of a table that the sink has created."""
        self.set_table_options(table)
        self.table_ids[route_key(table)] = self.lake.table(table).version.table_id

    def finish_interrupted_setup(self, committed: LedgerEntry) -> None:
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

    def begin_transaction(self, start: EpochStart) -> Transaction:
        """Begin the lake's transaction of an epoch. Definitions that were looked at a moment ago are not read again.

        A table that another writer has changed since then is a conflict, after which they are.
        """
        info, epoch = start.extra_info(self.options), start.epoch
        is_fresh = time.monotonic() - self._looked_at < DEFINITIONS_SECONDS
        transaction = self.lake.transaction(extra_info=info, epoch=epoch, fresh=not is_fresh)
        if not is_fresh:
            self._looked_at = time.monotonic()
        return transaction

    def expire_definitions(self) -> None:
        """Read definitions anew for the next transaction."""
        self._looked_at = -math.inf

    def remember_commit(self, epoch: Epoch | None) -> None:
        if epoch is not None:
            self._committed_run = epoch.run_id

    def schema_of(self, frame: DataFrame) -> FrameSchema:
        """Return a frame's schema as the lake has it; frames of one stream have the same."""
        known, spelled = self._frame_schema, json_of_schema(frame)
        if known is None or not known.is_of(frame, spelled):
            known = self._frame_schema = FrameSchema.of(frame.schema, spelled)
        return known

    def _stream(self, query: Query) -> str:
        if self.options.stream is not None:
            return self.options.stream
        if query.query_id == BY_HAND:
            raise InvalidInput(
                "the sink does not know which stream this is: outside of a streaming query of the classic client, and "
                "over Spark Connect, give it a name with stream='…'"
            )
        return query.query_id


def open_lake(options: SinkOptions, is_stopped: Callable[[], bool]) -> Lake:
    """Open the lake that a sink writes to. It waits for a catalog that is away, unless it is stopped."""
    return Lake.open(
        options.catalog,
        data_path=options.data_path,
        metadata_schema=options.metadata_schema,
        catalog_timeout=Patience.of(options.catalog_timeout, is_stopped),
    )


def refuse_second_use(epoch: Epoch, entry: LedgerEntry | None) -> None:
    """Refuse an epoch that this very run has committed: Spark brings no batch twice in a run, so rows would be lost."""
    if epoch.query_id != BY_HAND and entry is not None and entry.run_id == epoch.run_id:
        raise InvalidInput(
            f"batch {epoch.batch_id} of stream '{epoch.stream}' has been committed in this run already: to write "
            "several frames of one batch, use 'with sink.transaction(batch_id) as tx' and tx.append for each; where "
            "one query has two sinks, give each a stream='…' of its own"
        )
