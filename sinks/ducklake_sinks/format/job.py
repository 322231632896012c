"""One write by `format("ducklake")`: what its tasks need, and its commit. Runs in Python processes of the driver.

Spark makes one process to plan a write and another to commit it; both begin with the options. So the files were made
for the table as the first one had found it, and the second one refuses to commit them to another.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from uuid import uuid4

from pyspark.sql import types as T  # noqa: N812 # Spark's own convention

from ducklake_core import CommitResult, Epoch, Transaction
from ducklake_core.errors import InvalidInput, ObjectExists
from ducklake_core.files.written import WrittenFiles
from ducklake_core.plan.filter_sql import parse_filter
from ducklake_core.spec.names import split_table_name
from ducklake_core.spec.paths import is_plain_name
from ducklake_sinks.dead_letters import BatchInfo
from ducklake_sinks.epoch import EpochStart
from ducklake_sinks.format.checkpoint import read_query_id
from ducklake_sinks.format.options import WriteOptions, parse_options, sink_options
from ducklake_sinks.frame_schema import FrameSchema
from ducklake_sinks.modes.append import AppendMode, CreateMode, ReplaceMode, ReplacePartitionsMode
from ducklake_sinks.options import SinkOptions
from ducklake_sinks.part import Part, part_of, target_of
from ducklake_sinks.query import BY_HAND, Query
from ducklake_sinks.routes import route_key
from ducklake_sinks.runtime import SinkRuntime
from ducklake_sinks.shared_storage import refuse_unshared_files
from ducklake_sinks.spark_types import refuse_intervals
from ducklake_sinks.table_setup import TableSetup
from ducklake_sinks.task_writer import Message, Target, TaskResult, TaskWriter
from ducklake_sinks.transaction import MakeMode, SinkTransaction

_TASKS = 8  # how many share what may be inlined: nobody tells how many there are
BY_VERSION = "by txnVersion"  # in place of a query's id


@dataclass(frozen=True)
class WriteJob:
    """A write as Spark describes it: `given` are its options, `overwrites` its mode. Pickles; shows no password."""

    given: Mapping[str, str]
    schema: T.StructType
    overwrites: bool
    is_stream: bool = False

    def __repr__(self) -> str:
        return f"WriteJob({self.sink!r}, overwrites={self.overwrites})"

    def __reduce__(self) -> tuple[type[WriteJob], tuple[object, ...]]:
        return WriteJob, (self.given, self.schema, self.overwrites, self.is_stream)  # not what the address refers to

    @cached_property
    def options(self) -> WriteOptions:
        options = parse_options(self.given)
        _check(options, overwrites=self.overwrites, is_stream=self.is_stream)
        return options

    @cached_property
    def sink(self) -> SinkOptions:
        return sink_options(self.options)

    @property
    def table(self) -> str:
        return str(self.sink.table)

    # ---- before tasks write

    def plan(self) -> TaskWriter | None:
        """Return what tasks do; None: nothing, for this write has been made, or is not wanted."""
        refuse_intervals(self.schema)
        with self._running() as runtime:
            if not self.is_stream and self._start(runtime, None).is_replay:
                return None
            if self.options.if_table_exists == "ignore" and _has_table(runtime, self.table):
                return None
            core = runtime.lake.transaction()
            try:
                return self._task_writer(runtime, core)
            finally:
                core.discard()

    def _task_writer(self, runtime: SinkRuntime, core: Transaction) -> TaskWriter:
        sink, table, where = self.sink, self.table, self.options.replace_where
        dead = sink.dead_letters if sink.quarantines else None
        setup = TableSetup(runtime.lake, sink, runtime.definitions, runtime.tables)
        if self.options.if_table_exists != "append" and core.has_table(table):
            raise ObjectExists(f"table '{table}' exists already: nothing was written to it", name=table)
        setup.prepare(core, table, FrameSchema.of(self.schema))
        if dead is not None:
            setup.prepare(core, dead, None)
        _refuse_odd_names(setup.created)
        columns = core.table_version(table).columns
        return TaskWriter(
            storage=runtime.lake.storage,
            schema=self.schema,
            targets={route_key(table): target_of(core, table)},
            batch=BatchInfo(sink.stream, None, runtime.clock.now()),
            few_rows=sink.inline_rows // _TASKS,
            few_bytes=sink.inline_bytes // _TASKS,
            dead_letters=sink.dead_letters,
            dead=None if dead is None else target_of(core, dead),
            fill_missing=sink.merge_schema,
            where=None if where is None else parse_filter(where, columns),
        )

    # ---- after they have written

    def commit(self, tasks: TaskWriter, results: Sequence[TaskResult], batch_id: int | None = None) -> CommitResult:
        """Make the snapshot of what tasks have written; whatever fails, no file of theirs is left, unless in doubt."""
        with self._running() as runtime, WrittenFiles(runtime.lake.storage, _paths(tasks, results)) as written:
            error = next((result.error for result in results if result.error is not None), None)
            if error is not None:
                raise error
            parts = [*self._parts(tasks, results)]
            for part in parts:
                refuse_unshared_files(runtime.lake.storage, part.directory, part.files)
            start = self._start(runtime, batch_id)
            written.keep()  # from here on the transaction removes them
            with SinkTransaction(runtime, start, self._mode()) as tx:
                tx.add(parts)
                return tx.commit()

    def _parts(self, tasks: TaskWriter, results: Sequence[TaskResult]) -> Iterator[Part]:
        """Yield what tables get: the table itself, also where it gets no row, and dead letters."""
        messages: defaultdict[str, list[Message]] = defaultdict(list, {self.table: []})
        for message in (message for result in results for message in result.messages):
            messages[message.table].append(message)
        schema = FrameSchema.of(self.schema)
        for table, found in messages.items():
            target = next(t for t in targets_of(tasks) if t.name == table)
            yield part_of(target, None if target is tasks.dead else schema, found)

    def _start(self, runtime: SinkRuntime, batch_id: int | None) -> EpochStart:
        """Look up the epoch of this write: of a batch of a stream, of a version of an application, or of none."""
        run_id, app, version = str(uuid4()), self.options.txn_app_id, self.options.txn_version
        if batch_id is not None:
            query_id = read_query_id(self.options.checkpoint_location, self.sink.storage)
            return runtime.gate.start(Query(query_id, run_id), str(self.sink.stream), batch_id)
        known = runtime.lake.definitions().known_table(self.table)  # also makes the lake, where there is none
        if app is not None and version is not None:
            epoch = Epoch(app, version, BY_VERSION, run_id, leaves_gaps=True, table=self.table)
            return runtime.gate.start_version(epoch, None if known is None else known.version.table_uuid)
        return EpochStart(Query(BY_HAND, ""), None)

    def _mode(self) -> MakeMode:
        if self.overwrites and self.options.partition_overwrite_mode == "dynamic":
            return partial(ReplacePartitionsMode, tables=[self.table])
        if self.overwrites:
            return partial(ReplaceMode, tables=[self.table], where=self.options.replace_where)
        if self.options.if_table_exists != "append":
            return partial(CreateMode, table=self.table)
        return AppendMode

    @contextmanager
    def _running(self) -> Iterator[SinkRuntime]:
        with closing(SinkRuntime(self.sink, None)) as runtime:
            yield runtime


def targets_of(tasks: TaskWriter) -> list[Target]:
    return [*tasks.targets.values(), *([] if tasks.dead is None else [tasks.dead])]


def remove_written(tasks: TaskWriter, results: Sequence[TaskResult]) -> None:
    """Remove what tasks of a write have written that will not be committed."""
    WrittenFiles(tasks.storage, _paths(tasks, results)).remove()


def _paths(tasks: TaskWriter, results: Sequence[TaskResult]) -> list[str]:
    directories = {target.name: target.layout.directory for target in targets_of(tasks)}
    messages = (message for result in results for message in result.messages)
    return [directories[message.table] + file.path for message in messages for file in message.files]


def _has_table(runtime: SinkRuntime, table: str) -> bool:
    return runtime.lake.definitions().known_table(table) is not None


def _check(options: WriteOptions, *, overwrites: bool, is_stream: bool) -> None:
    """Refuse options that would not be heeded."""
    fields = WriteOptions.model_fields.items()
    given = {name for name, field in fields if getattr(options, name) != field.default}
    problems = []
    if not overwrites:
        problems += [f"{shown} needs mode('overwrite')" for name, shown in _FOR_OVERWRITE.items() if name in given]
    elif "if_table_exists" in given:
        problems.append("ifTableExists needs mode('append'): an overwrite writes in any case")
    if is_stream:
        problems += [f"{shown} is for df.write" for name, shown in _FOR_BATCHES.items() if name in given]
        problems += [] if "stream" in given else ["stream is missing: it names the stream in the lake's ledger"]
    elif "checkpoint_location" in given:
        problems.append("checkpointLocation is for writeStream")
    if problems:
        raise InvalidInput("cannot write to a DuckLake: " + "; ".join(problems), problems=problems)


_FOR_OVERWRITE = {"replace_where": "replaceWhere", "partition_overwrite_mode": "partitionOverwriteMode"}
_FOR_BATCHES = {"txn_app_id": "txnAppId", "if_table_exists": "ifTableExists"}


def _refuse_odd_names(created: set[str]) -> None:
    """Refuse to create a table whose folder has a name by chance: the process that commits would choose another."""
    for name in created:
        if not all(is_plain_name(part) for part in split_table_name(name)):
            raise InvalidInput(
                f"format(\"ducklake\") cannot create table '{name}': it has a name of other characters than letters, "
                "digits, '_' and '-'; create it by Lake.create_table first",
                name=name,
            )
