"""`DuckLakeSink`, for `writeStream.foreachBatch`. Runs on the driver; over Spark Connect it pickles to the server."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import Any, Unpack

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from ducklake_core import CommitResult
from ducklake_core.errors import InvalidInput
from ducklake_core.model import SortKey
from ducklake_core.observe import LOG_RECORDER, Recorder, Recorders
from ducklake_core.storage_settings import StorageSettings
from ducklake_sinks.change_rules import ChangeArguments
from ducklake_sinks.flush_policy import FlushPolicy
from ducklake_sinks.modes.append import ReplaceMode
from ducklake_sinks.modes.replay import ReplayMode
from ducklake_sinks.options import Route, SinkOptions, parse_options
from ducklake_sinks.query import Query
from ducklake_sinks.report import failure_of, recorded_failure
from ducklake_sinks.runtime import SinkRuntime
from ducklake_sinks.transaction import SinkTransaction

_lock = threading.Lock()  # two queries may bring their first batches to one sink at once


class DuckLakeSink:
    """Writes micro-batches into a DuckLake, each exactly once: `stream.writeStream.foreachBatch(sink)`.

    A small batch becomes rows of the catalog, a large one Parquet; inlined rows are flushed to Parquet by the policy.

    `SinkOptions` describes the options; `catalog` and one of `table` and `route` are needed. `recorder`: is told what
    happens, in place of the log; `LogRecorder` is the default, and `Recorders(LogRecorder(), mine)` tells both.

    Raises InvalidInput that lists every bad argument. Connects when the first batch comes, not before.
    """

    def __init__(  # noqa: PLR0913 # each is a choice that users make, by name
        self,
        catalog: str,
        table: str | None = None,
        *,
        route: Route | None = None,
        stream: str | None = None,
        data_path: str | None = None,
        override_data_path: bool = False,
        storage: Mapping[str, object] | StorageSettings | None = None,
        metadata_schema: str | None = None,
        partition_by: Sequence[str] | str = (),
        sorted_by: Sequence[str | SortKey] | str = (),
        table_options: Mapping[str, object] | None = None,
        merge_schema: bool = False,
        inline_rows: int = 10_000,
        inline_bytes: int | str = "8MB",
        flush: FlushPolicy | None = FlushPolicy(),  # noqa: B008 # frozen
        on_bad_row: str = "fail",
        dead_letter_table: str | None = None,
        mode: str = "append",
        keys: Sequence[str] | str = (),
        sequence_by: Sequence[str] | str = (),
        apply_as_deletes: str | None = None,
        apply_as_truncates: str | None = None,
        except_columns: Sequence[str] | str = (),
        ignore_null_updates: bool = False,
        kept_columns: str | None = None,
        old_keys: str | None = None,
        on_duplicate_keys: str = "error",
        keep_deleted_keys: str | float | timedelta = "7d",
        stored_as_scd_type: int = 1,
        track_history_columns: Sequence[str] | str = (),
        job: str | None = None,
        catalog_timeout: str | float | timedelta = "2m",
        recorder: Recorder | None = None,
        **unknown: object,
    ) -> None:
        named = {name: value for name, value in locals().items() if name not in ("self", "unknown", "recorder")}
        self.options: SinkOptions = parse_options({**named, **unknown})
        self._recorder = LOG_RECORDER if recorder is None else recorder
        self._runtime: SinkRuntime | None = None
        self._root: SparkSession | None = None

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        """Write one micro-batch; Spark calls this."""
        with self.transaction(batch_id, frame.sparkSession) as tx:
            tx.write(frame)

    def transaction(self, batch_id: int, session: SparkSession | None = None) -> SinkTransaction:
        """Begin the epoch of a batch, to write several frames to several tables in one snapshot.

        `session` is that of the batch's frame, the active one by default. Raises a LedgerError when the ledger forbids
        the epoch.
        """
        runtime, names = self._running(), {"stream": self.options.stream, "batch": batch_id}
        with recorded_failure(runtime.recorder, lambda error: failure_of(runtime.current_query, names, error)):
            return SinkTransaction(runtime, runtime.begin(int(batch_id), session or SparkSession.active()))

    def append(self, frame: DataFrame, table: str | None = None) -> CommitResult:
        """Write a DataFrame outside of a streaming query, as one snapshot; return what became of it.

        It has no number, so nothing keeps it from being written twice: called again, it adds the rows again. What
        else the sink does to a batch, it does here, too: it creates the table, merges schemas, quarantines, inlines
        or writes Parquet, and flushes. `table`: another than the sink's own. Raises InvalidInput inside `foreachBatch`
        with the classic client; over Spark Connect that is not noticed, and a repeated batch is written twice.
        """
        if self.options.changes is not None and table in (None, self.options.table):
            raise InvalidInput("this sink applies rows by key, and sink.append(df) would not: use sink.upsert(df)")
        runtime = self._running()
        with SinkTransaction(runtime, runtime.begin_without_number(frame.sparkSession, "sink.append")) as tx:
            tx.append(frame, table)
            return tx.commit()

    def upsert(self, frame: DataFrame, table: str | None = None, **rules: Unpack[ChangeArguments]) -> CommitResult:
        """Apply a DataFrame of changes by key outside of a streaming query, as one snapshot; else it is as `append`.

        What `rules` do not say is as the sink's own options say.
        """
        runtime = self._running()
        with SinkTransaction(runtime, runtime.begin_without_number(frame.sparkSession, "sink.upsert")) as tx:
            tx.upsert(frame, table, **rules)
            return tx.commit()

    def replace(self, frame: DataFrame, table: str | None = None) -> CommitResult:
        """Replace all rows of a table by those of a DataFrame, in one snapshot; called again, it does so again.

        For a new start of a stream into a table that is there: build it anew as of a snapshot, and stream from the
        next one on. Readers of the table's changes see deletes and inserts. Rows that another adds before the commit
        are replaced as well. Else it is as `append`.
        """
        runtime = self._running()
        start = runtime.begin_without_number(frame.sparkSession, "sink.replace")
        with SinkTransaction(runtime, start, ReplaceMode) as tx:
            tx.append(frame, table)
            return tx.commit()

    def replay(self, ids: Sequence[int], letters: pa.Table, session: SparkSession) -> SinkTransaction:
        """Begin to feed dead letters in again, by their row ids: append their rows to what this returns.

        Its commit marks them in the same snapshot; those that are bad again keep their letter with the new reason. It
        raises CommitConflict when another has fed one of them in meanwhile.
        """
        runtime = self._running()
        start = runtime.begin_without_number(session, "sink.replay")
        return SinkTransaction(runtime, start, partial(ReplayMode, ids=ids, letters=letters))

    def start_flushing(self, stream: str | None = None) -> None:
        """Begin to flush what earlier runs left inlined; the first batch does so in any case, when one comes.

        `stream`: whose tables those are; by default the sink's. Without a name only the sink's own tables are known.
        """
        self._running().watch_stream(stream or self.options.stream)

    @property
    def current_query(self) -> Query | None:
        """The query of the batch in this thread; None outside of one."""
        return None if self._runtime is None else self._runtime.current_query

    def add_recorder(self, recorder: Recorder) -> None:
        """Tell one more recorder what happens. Raises InvalidInput once the sink has begun to work."""
        if self._runtime is not None:
            raise InvalidInput("the sink has begun to work: add a recorder, or start metrics, before the first batch")
        self._recorder = Recorders(self._recorder, recorder)

    def _running(self) -> SinkRuntime:
        with _lock:
            runtime = self._runtime = self._runtime or SinkRuntime(self.options, self._root, self._recorder)
        return runtime

    def close(self) -> None:
        """Let a flush that runs finish, and close connections. The sink can be used again."""
        if self._runtime is not None:
            self._runtime.close()
            self._runtime = None

    def __repr__(self) -> str:
        return f"DuckLakeSink({self.options!r})"

    def __getstate__(self) -> tuple[SinkOptions, Recorder]:
        return self.options, self._recorder

    def __setstate__(self, state: Any) -> None:  # Any: the pickle protocol passes what __getstate__ gave
        self.options, self._recorder = state
        self._runtime = None
        # Over Connect, Spark unpickles a sink in the session that started its query: later there is no way to it.
        self._root = SparkSession.getActiveSession()
