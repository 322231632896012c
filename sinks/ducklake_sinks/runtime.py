"""What a sink has while it runs in one process: the open lake, the query it serves, what it remembers between batches.

Runs on the driver. Never pickled: each process makes its own when the first batch comes.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import cached_property, partial

from pyspark.sql import SparkSession

from ducklake_core import Lake, Transaction
from ducklake_core.clock import SYSTEM_CLOCK, Clock
from ducklake_core.errors import InvalidInput, LakeExists, NoLakeFound
from ducklake_core.files.storage import Storage
from ducklake_core.model import LedgerEntry
from ducklake_core.observe import LOG_RECORDER, Recorder, Recorders
from ducklake_core.pending import AddedCount
from ducklake_core.retries import Patience
from ducklake_core.storage_settings import storage_options
from ducklake_sinks.epoch import EpochGate, EpochStart
from ducklake_sinks.governor import FlushGovernor
from ducklake_sinks.memory import DefinitionMemory, TableMemory
from ducklake_sinks.options import SinkOptions
from ducklake_sinks.own_tables import tables_of_stream
from ducklake_sinks.query import BY_HAND, Query, QueryFinder


class SinkRuntime:
    """The process-local half of a sink."""

    def __init__(
        self,
        options: SinkOptions,
        root: SparkSession | None,
        recorder: Recorder = LOG_RECORDER,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self.options = options
        self.recorder = Recorders(recorder)
        self.clock = clock
        self.finder = QueryFinder(root)
        self.gate = EpochGate(self._read_entry)
        self.definitions = DefinitionMemory(clock.seconds)
        self.tables = TableMemory()
        self._current = threading.local()  # its query: one sink may serve several, each in a thread of its own

    @cached_property
    def lake(self) -> Lake:
        return self._open_or_create()

    @cached_property
    def governor(self) -> FlushGovernor | None:
        policy = self.options.flush
        if policy is None:
            return None
        options, recorder = self.options, self.recorder
        governor = FlushGovernor(
            policy,
            lambda: open_lake(options, lambda: governor.is_closed, recorder),
            partial(tables_of_stream, options),
            self.clock.now,
            recorder,
        )
        weakref.finalize(self, governor.close)  # with the sink, or at the end of the process
        return governor

    def _open_or_create(self) -> Lake:
        """Open the lake; create it where there is none and the options say where its files go.

        Raises UnwritableFile when no file can be written there: rows of small batches would come in, and never get out
        of the catalog.
        """
        try:
            lake = open_lake(self.options, self._is_stopping, self.recorder)
        except NoLakeFound as error:
            if self.options.data_path is None:
                raise NoLakeFound(
                    f"{error}, or give the sink data_path='…', the place for its files: it creates the lake then"
                ) from error
            # Before there is a lake that nobody can use.
            Storage.of(self.options.data_path, storage_options(self.options.storage)).check_writable()
            try:
                return self._create(self.options.data_path)
            except LakeExists:  # another sink has created it meanwhile
                lake = open_lake(self.options, self._is_stopping, self.recorder)
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
            storage=self.options.storage,
            catalog_timeout=Patience.of(self.options.catalog_timeout, self._is_stopping),
            recorder=self.recorder,
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
        return self.gate.start(query, self._stream(query), batch_id)

    def _read_entry(self, stream: str) -> LedgerEntry | None:
        """Ask the ledger; whoever does has a lake, in which the stream's tables can be found."""
        entry = self.lake.ledger_entry(stream)
        self.watch_stream(stream)
        return entry

    def begin_transaction(self, start: EpochStart, *, fresh: bool = False) -> Transaction:
        """Begin the lake's transaction of an epoch. Definitions that were looked at a moment ago are not read again.

        A table that another writer has changed since then is a conflict, after which they are. `fresh`: rows will be
        looked for, so that it must begin with the last commit.
        """
        are_recent = not fresh and self.definitions.are_recent()
        info = start.extra_info(self.options)
        transaction = self.lake.transaction(extra_info=info, epoch=start.epoch, fresh=not are_recent)
        if not are_recent:
            self.definitions.note_reading()
        return transaction

    def note_inlined(self, added: Mapping[str, AddedCount]) -> None:
        """Tell who flushes what a batch has added."""
        if self.governor is not None:
            for name, one in added.items():
                self.governor.note(name, one.inlined_rows, one.inlined_bytes)

    def _stream(self, query: Query) -> str:
        if self.options.stream is not None:
            return self.options.stream
        if query.query_id == BY_HAND:
            raise InvalidInput(
                "the sink does not know which stream this is: outside of a streaming query of the classic client, and "
                "over Spark Connect, give it a name with stream='…'"
            )
        return query.query_id


def open_lake(options: SinkOptions, is_stopped: Callable[[], bool], recorder: Recorder) -> Lake:
    """Open the lake that a sink writes to. It waits for a catalog that is away, unless it is stopped."""
    return Lake.open(
        options.catalog,
        data_path=options.data_path,
        override_data_path=options.override_data_path,
        metadata_schema=options.metadata_schema,
        storage=options.storage,
        catalog_timeout=Patience.of(options.catalog_timeout, is_stopped),
        recorder=recorder,
    )
