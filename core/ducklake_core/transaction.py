"""A transaction: several operations on several tables that become one snapshot. Runs on the driver; no Spark needed.

It reads at its base, the head when it first touched the lake, plus its own changes. Files are written as it goes and
removed again when it does not commit.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeAlias, assert_never

import pyarrow as pa
from uuid6 import uuid7

from ducklake_core.arrow_input import to_table
from ducklake_core.catalog.commit import Commit, CommitResult
from ducklake_core.errors import CatalogLimitExceeded, InvalidInput, ObjectExists, ObjectNotFound
from ducklake_core.files.parquet_writer import FileLayout
from ducklake_core.files.written import WrittenFiles
from ducklake_core.log_lines import log_event
from ducklake_core.model import (
    DataFileId,
    Epoch,
    NewDataFile,
    SchemaId,
    SchemaVersion,
    Snapshot,
    SnapshotId,
    SortKey,
    TableId,
    TableVersion,
)
from ducklake_core.partition_advice import warn_of_repeats
from ducklake_core.pending import AddedCount, PendingTable
from ducklake_core.plan import definition
from ducklake_core.plan.evolution import AddColumn, EvolutionStep, PromoteColumn, plan_evolution
from ducklake_core.plan.filter_sql import parse_filter
from ducklake_core.plan.predicates import Predicate
from ducklake_core.plan.staged import CommitInfo, Staged
from ducklake_core.row_writes import INLINE_BYTES, RowWriter, file_layout
from ducklake_core.spec.inlined import find_uninlinable
from ducklake_core.spec.names import check_name, fold, join_table_name, quoted, split_path, split_table_name
from ducklake_core.spec.paths import directory_name, join_path
from ducklake_core.spec.types import build_columns

if TYPE_CHECKING:
    from ducklake_core.lake import Lake

log = logging.getLogger(__name__)

TableSchema: TypeAlias = pa.Schema | Mapping[str, str | pa.DataType]


class Transaction:
    """Use as `with lake.transaction() as tx:`; the end of the block commits, an error in it discards everything.

    Methods are those of `Lake`, without a snapshot of their own; `result` has the commit's once it is made. They raise
    a `TerminalError` for what they are given; only the commit raises `CommitConflict`, `ContentionError` and
    `CommitOutcomeUnknown`.
    """

    def __init__(self, lake: Lake, info: CommitInfo, epoch: Epoch | None = None, *, trust_cache: bool = False) -> None:
        self._lake = lake
        self._info = info
        self._epoch = epoch
        self._definitions = lake.definitions(fresh=not trust_cache)
        self._tables: dict[TableId, PendingTable] = {}
        self._names: dict[tuple[str, str], TableId] = {}
        self._created_schemas: list[SchemaVersion] = []
        self._dropped_schemas: list[SchemaVersion] = []
        self._next_provisional = -1
        self._rows = RowWriter(lake.database, lake.storage, self._definitions.snapshot.snapshot_id)
        self._has_ended = self._has_failed = False
        self._commit: Commit | None = None
        self.result: CommitResult | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if kind is not None:
            self.discard()
        elif not self._has_ended:
            self.commit()

    @property
    def base(self) -> Snapshot:
        """The snapshot that this transaction reads."""
        return self._definitions.snapshot

    @property
    def in_doubt(self) -> bool:
        """Whether a snapshot may have its changes although the commit has failed: files that it names must stay."""
        return self._commit is not None and self._commit.in_doubt

    def commit(self) -> CommitResult:
        """Make the snapshot; nothing to do makes none. A definite failure removes the files that were written."""
        self._refuse_ended()
        self._has_ended = True
        try:
            self.result = self._run_commit()
        finally:  # an interrupt must leave no file behind, either
            if self._commit is None or self._commit.is_void:
                self._remove_written()
        if self.result.snapshot is not None:
            self._remove_superseded(self.result.snapshot.snapshot_id)
        schema_version = None if self.result.snapshot is None else self.result.snapshot.schema_version
        if self.result.base_is_gone or schema_version not in (None, self.base.schema_version):
            self._lake.forget()
        return self.result

    def _run_commit(self) -> CommitResult:
        self._refuse_failed()
        self._refuse_missing_message()
        next_id = SnapshotId(self.base.snapshot_id + 1)
        staged = self._stage(next_id)  # files are written before any lock is taken
        if self._epoch is None and staged.is_empty:
            return CommitResult(None)
        self._commit = Commit(staged, self._stage)
        try:
            return self._lake.committer.run(self._commit)
        except CatalogLimitExceeded as error:  # such as a row of many columns that does not fit on a page
            if self.in_doubt or not any(pending.added for pending in self._tables.values()):
                raise
            rows = sum(self._rows.write_added(pending) for pending in self._tables.values())
            log_event(log, logging.WARNING, "rows_not_inlined", rows=rows, reason=error)
        self._commit = Commit(self._stage(next_id), self._stage)
        return self._lake.committer.run(self._commit)

    def discard(self) -> None:
        """End the transaction and remove the files that were written; one that has ended is left alone.

        What cannot be removed stays as an orphan for maintenance.
        """
        if not self._has_ended:
            self._has_ended = True
            self._remove_written()

    def _remove_written(self) -> None:
        paths = [path for pending in self._tables.values() for path in pending.written_paths()]
        WrittenFiles(self._lake.storage, paths).remove()
        self._tables.clear()

    def _remove_superseded(self, snapshot_id: SnapshotId) -> None:
        """Remove delete files that were written for ids which other commits took."""
        paths = [path for pending in self._tables.values() for path in pending.superseded_paths(snapshot_id)]
        WrittenFiles(self._lake.storage, paths).remove()

    def _stage(self, snapshot_id: SnapshotId) -> Staged:
        """Return everything to be committed as a value, its delete files written for a snapshot id."""
        tables = tuple(p.stage(self._lake.storage, self._lake.data_path, snapshot_id) for p in self._tables.values())
        tables = tuple(t for t in tables if not (t.before is None and t.after is None))
        schemas = tuple(self._created_schemas), tuple(self._dropped_schemas)
        return Staged(self.base, tables, *schemas, self._info, self._epoch, snapshot_id)

    def added(self) -> dict[str, AddedCount]:
        """Return what this transaction adds to each table that gets rows, by its name."""
        live = [p for p in self._tables.values() if p.after is not None]
        counts = {join_table_name(p.table.schema_name, p.table.name): p.count_added() for p in live}
        return {name: added for name, added in counts.items() if added.inlined_rows or added.files}

    # ---- data

    def append(
        self,
        table: str,
        data: Any,  # Any: whatever Arrow can take
        *,
        fill_missing: bool = False,
        inline_rows: int | None = None,
        inline_bytes: int = INLINE_BYTES,
    ) -> None:
        """Add rows: Arrow data, or anything `pyarrow.table` takes. Missing columns are an error unless filled.

        Up to `inline_rows` rows are kept in the catalog, where that can be; None: up to the table's own limit. Rows
        that would make more than `inline_bytes` of the transaction's for the table, as Arrow has them, go to files.
        """
        self._rows.append(
            self._pending(table),
            to_table(data),
            fill_missing=fill_missing,
            inline_rows=inline_rows,
            inline_bytes=inline_bytes,
        )

    def append_files(self, table: str, files: Sequence[NewDataFile], *, lent: bool = False) -> None:
        """Add data files that were written elsewhere, by executors for instance, with `write_data_files`.

        They go when the transaction does not commit. `lent`: they stay, for another transaction or to be removed there.
        """
        pending = self._pending(table)
        pending.files += files
        if lent:
            pending.lent.update(file.path for file in files)

    def delete(self, table: str, where: str | Predicate | None) -> int:
        """Delete the rows that match a filter such as `id = 3`, all for None; return their number."""
        pending = self._pending(table)
        predicate = self._predicate(pending, where)
        with self._all_or_nothing():
            return self._rows.delete(pending, predicate)

    def delete_positions(self, table: str, data_file_id: int, positions: Sequence[int]) -> int:
        """Delete rows of one data file by their positions in it; return how many were live."""
        return self._rows.delete_positions(self._pending(table), DataFileId(data_file_id), positions)

    def update(self, table: str, values: Mapping[str, object], where: str | Predicate | None = None) -> int:
        """Set columns of the rows that match to Python values or `pyarrow.compute` expressions; return their number."""
        pending = self._pending(table)
        predicate = self._predicate(pending, where)
        with self._all_or_nothing():
            return self._rows.update(pending, values, predicate)

    @contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        """Remember that a change of rows failed: some may be ended whose new versions were never added."""
        try:
            yield
        except BaseException:  # an interrupt in the middle is half a change, too
            self._has_failed = True
            raise

    # ---- definition

    def create_schema(self, name: str) -> None:
        check_name(name, "schema")
        if self._find_schema(name) is not None:
            raise ObjectExists(f"schema '{name}' exists already", name=name)
        uuid = uuid7()
        schema = SchemaVersion(SchemaId(self._provisional()), uuid, name, directory_name(name, uuid))
        self._created_schemas.append(schema)

    def drop_schema(self, name: str, *, cascade: bool = False) -> None:
        """Drop a schema; one that has tables only with `cascade`."""
        schema = self._schema(name)
        inside = [t for t in self._live_tables() if t.schema_id == schema.schema_id]
        if self._definitions.has_views(schema.schema_id):
            raise InvalidInput(f"schema '{name}' has views: drop it with DuckDB, which wrote them")
        if inside and not cascade:
            raise InvalidInput(
                f"schema '{name}' has tables, such as '{inside[0].name}': drop them first, or use cascade"
            )
        for table in inside:
            self._drop(self._load(table))
        if schema in self._created_schemas:
            self._created_schemas.remove(schema)
        else:
            self._dropped_schemas.append(schema)

    def create_table(
        self,
        name: str,
        schema: TableSchema,
        *,
        partition_by: Sequence[str] = (),
        sorted_by: Sequence[str | SortKey] = (),
        comment: str | None = None,
        defaults: Mapping[str, object] | None = None,
    ) -> None:
        """Create a table from an Arrow schema, or from names and type texts."""
        schema_name, table_name = split_table_name(name)
        check_name(table_name, "table")
        owner = self._schema(schema_name)
        self._refuse_taken(owner, table_name)
        table = self._new_table(owner, table_name, schema, defaults or {})
        if partition_by:
            table = self._partitioned(table, partition_by)
        if sorted_by:
            table = definition.set_sort_order(table, sorted_by, self._provisional())
        self._register(None, definition.set_comment(table, comment))

    def drop_table(self, name: str) -> None:
        self._drop(self._pending(name))

    def rename_table(self, name: str, new_name: str) -> None:
        """Rename a table within its schema."""
        check_name(new_name, "table")
        pending = self._pending(name)
        table = pending.table
        if fold(table.name) != fold(new_name):
            self._refuse_taken(self._schema(table.schema_name), new_name)
        pending.after = replace(table, name=new_name)
        self._names.pop(_key(table.schema_name, table.name), None)
        self._names[_key(table.schema_name, new_name)] = table.table_id

    def add_column(
        self, table: str, column: str, type_: str | pa.DataType, default: object = None, *, nulls_allowed: bool = True
    ) -> None:
        self._alter(table, lambda t: definition.add_column(t, column, type_, default, nulls_allowed=nulls_allowed))

    def drop_column(self, table: str, column: str) -> None:
        self._alter(table, lambda t: definition.drop_column(t, column))

    def rename_column(self, table: str, column: str, new_name: str) -> None:
        self._alter(table, lambda t: definition.rename_column(t, column, new_name, self._provisional()))

    def promote_column(self, table: str, column: str, type_: str | pa.DataType) -> None:
        """Change a column's type to one that holds all its values."""
        old = definition.find_column(self._pending(table).table, split_path(column))
        self._alter(table, lambda t: definition.promote_column(t, column, type_))
        if old.type == "float32":
            self._rows.restate_bounds(self._pending(table), old.column_id)

    def merge_schema(self, table: str, schema: TableSchema) -> tuple[EvolutionStep, ...]:
        """Add the columns and struct fields that a schema has and the table lacks, and promote types that are narrower.

        Nothing is ever dropped, renamed or narrowed. Return what was done.
        """
        steps = plan_evolution(self._pending(table).table.columns, build_columns(schema))
        for step in steps:
            match step:
                case AddColumn():
                    self.add_column(table, step.path, step.type)
                case PromoteColumn():
                    self.promote_column(table, step.path, step.type)
                case _:
                    assert_never(step)
        return steps

    def set_default(self, table: str, column: str, default: object) -> None:
        self._alter(table, lambda t: definition.set_default(t, column, default))

    def set_not_null(self, table: str, column: str) -> None:
        """Forbid nulls in a column that has none."""
        pending = self._pending(table)
        definition.set_nulls_allowed(pending.table, column, allowed=False)  # refuses a field before its rows are read
        name = definition.find_column(pending.table, split_path(column)).name
        count = self._rows.count(pending, parse_filter(f"{quoted(name)} IS NULL", pending.table.columns))
        if count:
            raise InvalidInput(
                f"column '{column}' of '{pending.table.qualified_name}' has {count} nulls: fill them first"
            )
        self._alter(table, lambda t: definition.set_nulls_allowed(t, column, allowed=False))

    def drop_not_null(self, table: str, column: str) -> None:
        self._alter(table, lambda t: definition.set_nulls_allowed(t, column, allowed=True))

    def set_comment(self, table: str, comment: str | None, column: str | None = None) -> None:
        self._alter(table, lambda t: definition.set_comment(t, comment, column))

    def set_partitioning(self, table: str, partition_by: Sequence[str]) -> None:
        """Partition rows to come; existing files stay as they are. An empty list ends partitioning."""
        self._alter(table, lambda t: self._partitioned(t, partition_by))

    def set_sort_order(self, table: str, sorted_by: Sequence[str | SortKey]) -> None:
        """Sort rows to come within each file; an empty list ends sorting."""
        self._alter(table, lambda t: definition.set_sort_order(t, sorted_by, self._provisional()))

    # ---- looking up

    def table_version(self, name: str) -> TableVersion:
        """Return a table as this transaction sees it."""
        return self._pending(name).table

    def has_table(self, name: str) -> bool:
        """Tell whether this transaction sees a table of that name."""
        try:
            self._pending(name)
        except ObjectNotFound:
            return False
        return True

    def has_schema(self, name: str) -> bool:
        return self._find_schema(name) is not None

    def file_layout(self, table: str) -> FileLayout:
        """Return how files for `append_files` must be laid out; it travels to executors."""
        pending = self._pending(table)
        return file_layout(pending.table, pending.options)

    def _pending(self, name: str) -> PendingTable:
        self._refuse_ended()
        schema_name, table_name = split_table_name(name)
        table_id = self._names.get(_key(schema_name, table_name))
        if table_id is not None:
            pending = self._tables[table_id]
            if pending.after is None:
                raise ObjectNotFound(f"table '{name}' was dropped in this transaction", name=name)
            return pending
        table = self._definitions.find_table(schema_name, table_name)
        if table is None or table.table_id in self._tables:
            raise self._definitions.table_not_found(name)
        return self._load(table)

    def _load(self, table: TableVersion) -> PendingTable:
        return self._tables.get(table.table_id) or self._register(table, table)

    def _register(self, before: TableVersion | None, after: TableVersion) -> PendingTable:
        pending = PendingTable(before, after, self._definitions.options_of(after))
        pending.is_inlinable = find_uninlinable(after.columns, self._lake.database.dialect.inlined_rules) is None
        self._tables[after.table_id] = pending
        self._names[_key(after.schema_name, after.name)] = after.table_id
        return pending

    def _alter(self, name: str, change: Callable[[TableVersion], TableVersion]) -> None:
        pending = self._pending(name)
        if pending.added or pending.files:
            raise InvalidInput(
                f"cannot alter '{name}' after adding rows to it in the same transaction: alter it first, then add"
            )
        pending.after = change(pending.table)
        pending.is_inlinable = (
            find_uninlinable(pending.table.columns, self._lake.database.dialect.inlined_rules) is None
        )

    def _partitioned(self, table: TableVersion, partition_by: Sequence[str]) -> TableVersion:
        partitioned = definition.set_partitioning(table, partition_by, self._provisional())
        warn_of_repeats(partitioned)
        return partitioned

    def _drop(self, pending: PendingTable) -> None:
        WrittenFiles(self._lake.storage, pending.written_paths()).remove()
        table = pending.table
        dropped = PendingTable(pending.before, None, pending.options)
        if pending.before is None:
            del self._tables[table.table_id]
            del self._names[_key(table.schema_name, table.name)]
        else:
            self._tables[table.table_id] = dropped

    def _new_table(
        self, owner: SchemaVersion, name: str, schema: TableSchema, defaults: Mapping[str, object]
    ) -> TableVersion:
        columns = build_columns(schema)
        definition.check_table_columns(columns, name)
        uuid = uuid7()
        path = directory_name(name, uuid)
        table = TableVersion(
            table_id=TableId(self._provisional()),
            table_uuid=uuid,
            schema_id=owner.schema_id,
            schema_name=owner.name,
            name=name,
            path=path,
            path_is_relative=True,
            directory=join_path(self._lake.data_path, owner.path, is_relative=owner.path_is_relative) + path,
            columns=columns,
            next_column_id=1 + sum(1 for c in columns for _ in c.walk()),
        )
        for column_name, default in defaults.items():
            column = definition.find_column(table, [column_name])
            filled = definition.with_default(column, default, is_new=True)
            table = table.with_columns(tuple(filled if c is column else c for c in table.columns))
        return table

    def _refuse_taken(self, owner: SchemaVersion, name: str) -> None:
        known = self._names.get(_key(owner.name, name))
        is_live = known is not None and self._tables[known].after is not None
        stored = self._definitions.find_table(owner.name, name) if known is None and owner.schema_id >= 0 else None
        if is_live or (stored is not None and stored.table_id not in self._tables):
            raise ObjectExists(f"table '{owner.name}.{name}' exists already", name=name)
        if owner.schema_id >= 0 and self._definitions.has_view(owner.schema_id, name):
            raise ObjectExists(f"'{owner.name}.{name}' is a view", name=name)

    def _live_tables(self) -> list[TableVersion]:
        stored = [t for t in self._definitions.tables() if t.table_id not in self._tables]
        return stored + [p.after for p in self._tables.values() if p.after is not None]

    def _schema(self, name: str) -> SchemaVersion:
        schema = self._find_schema(name)
        if schema is None:
            raise ObjectNotFound(f"there is no schema '{name}': create it with create_schema('{name}')", name=name)
        return schema

    def _find_schema(self, name: str) -> SchemaVersion | None:
        self._refuse_ended()
        stored = [s for s in self._definitions.schemas() if s not in self._dropped_schemas]
        return next((s for s in [*stored, *self._created_schemas] if fold(s.name) == fold(name)), None)

    def _predicate(self, pending: PendingTable, where: str | Predicate | None) -> Predicate | None:
        return parse_filter(where, pending.table.columns) if isinstance(where, str) else where

    def _refuse_ended(self) -> None:
        if self._has_ended:
            raise InvalidInput("this transaction has ended: begin a new one")

    def _refuse_failed(self) -> None:
        if self._has_failed:
            raise InvalidInput("a delete or update of this transaction failed halfway: begin again in a new one")

    def _refuse_missing_message(self) -> None:
        if self._definitions.lake_options.requires_message and self._info.message is None:
            raise InvalidInput("this lake requires a message for every commit: give one with transaction(message=…)")

    def _provisional(self) -> int:
        self._next_provisional -= 1
        return self._next_provisional


def _key(schema_name: str, table_name: str) -> tuple[str, str]:
    return fold(schema_name), fold(table_name)
