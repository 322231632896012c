"""A transaction: several operations on several tables that become one snapshot. Runs on the driver; no Spark needed.

It reads at its base, the head when it first touched the lake, plus its own changes. Files are written as it goes and
removed again when it does not commit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, assert_never

import numpy as np
import pyarrow as pa

from ducklake_core.added_files import TransactionAddedFiles
from ducklake_core.arrow_input import to_table
from ducklake_core.catalog.commit import Commit, CommitResult
from ducklake_core.catalog.session import Session
from ducklake_core.definitions import Definitions
from ducklake_core.errors import CatalogLimitExceeded, InvalidInput, ObjectNotFound, UntoldValue
from ducklake_core.files.parquet_writer import FileLayout
from ducklake_core.files.written import WrittenFiles
from ducklake_core.keyed_changes import TransactionKeyedChanges
from ducklake_core.model import (
    DataFileId,
    Epoch,
    NewDataFile,
    Snapshot,
    SnapshotId,
    SortKey,
    TableVersion,
)
from ducklake_core.observe import RowsNotInlined
from ducklake_core.pending import AddedCount, PendingTable
from ducklake_core.pending_definitions import PendingDefinitions, TableSchema
from ducklake_core.plan import definition
from ducklake_core.plan.evolution import AddColumn, EvolutionStep, PromoteColumn, plan_evolution
from ducklake_core.plan.predicates import Predicate
from ducklake_core.plan.staged import CommitInfo, Staged
from ducklake_core.read.positions import RowPositions
from ducklake_core.replacements import TransactionReplacements
from ducklake_core.row_writes import INLINE_BYTES, RowWriter, file_layout
from ducklake_core.spec.names import join_table_name, quoted, split_path
from ducklake_core.spec.types import build_columns
from ducklake_core.upsert.newcomers import TablesApart

if TYPE_CHECKING:
    from ducklake_core.lake import Lake


class Transaction(TransactionAddedFiles, TransactionKeyedChanges, TransactionReplacements):
    """Use as `with lake.transaction() as tx:`; the end of the block commits, an error in it discards everything.

    Methods are those of `Lake`, without a snapshot of their own; `result` has the commit's once it is made. They raise
    a `TerminalError` for what they are given; only the commit raises `ContentionError` and `CommitOutcomeUnknown`, and
    only it, `end_rows` and `delete_positions` raise `CommitConflict`.
    """

    def __init__(self, lake: Lake, base: Definitions, info: CommitInfo, epoch: Epoch | None = None) -> None:
        self._lake = lake
        self._definitions = base
        self._info = info
        self._epoch = epoch
        self._pending = PendingDefinitions(base, lake.storage)
        learns = lake.committer.last_head == base.snapshot
        self._rows = RowWriter(lake.database, lake.storage, base.snapshot, lake.known_tables, learns)
        self._has_ended = self._has_failed = False
        self._commit: Commit | None = None
        self._apart = TablesApart(lake.storage, lake.data_path, base.snapshot)
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
        if self._has_ended:
            raise _has_ended_error()
        self._has_ended = True
        try:
            self.result = self._run_commit()
        finally:  # an interrupt must leave no file behind, either
            if self._commit is None or self._commit.is_void:
                self._remove_written()
        if (made := self.result.snapshot) is not None:
            self._lake.known_tables.follow(self._commit.made if self._commit else None)
            self._remove_superseded(made.snapshot_id)
        if self.result.base_is_gone or (made is not None and made.schema_version != self.base.schema_version):
            self._lake.forget()
        return self.result

    def _run_commit(self) -> CommitResult:
        self._refuse_failed()
        self._refuse_missing_message()
        next_id = SnapshotId(self.base.snapshot_id + 1)
        staged = self._stage(next_id)  # files are written before any lock is taken
        self._refuse_wrong_base(staged)
        if self._epoch is None and staged.is_empty:
            return CommitResult(None)
        try:
            return self._run(staged)
        except CatalogLimitExceeded as error:  # such as a row of many columns that does not fit on a page
            if self.in_doubt or not any(pending.added for pending in self._pending.tables.values()):
                raise
            rows = sum(self._rows.write_added(pending) for pending in self._pending.tables.values())
            self._lake.recorder.record(RowsNotInlined(rows, error))
        return self._run(self._stage(next_id))

    def _run(self, staged: Staged) -> CommitResult:
        self._commit = Commit(staged, self._stage, self._find_apart, self._lake.known_tables.foresee)
        return self._lake.committer.run(self._commit)

    def discard(self) -> None:
        """End the transaction and remove the files that were written; one that has ended is left alone.

        What cannot be removed stays as an orphan for maintenance.
        """
        if not self._has_ended:
            self._has_ended = True
            self._remove_written()

    def _remove_written(self) -> None:
        paths = [path for pending in self._pending.tables.values() for path in pending.written_paths()]
        WrittenFiles(self._lake.storage, paths).remove()
        self._pending.tables.clear()

    def _remove_superseded(self, snapshot_id: SnapshotId) -> None:
        """Remove delete files that were written for ids which other commits took."""
        deleted = [pending for pending in self._pending.tables.values() if pending.deleted]
        paths = [path for pending in deleted for path in pending.superseded_paths(snapshot_id)]
        if paths:
            WrittenFiles(self._lake.storage, paths).remove()

    def _stage(self, snapshot_id: SnapshotId) -> Staged:
        """Return everything to be committed as a value, its delete files written for a snapshot id."""
        storage, data_path = self._lake.storage, self._lake.data_path
        epoch = self._epoch
        if epoch is not None and epoch.table is not None:
            epoch = epoch.of_table(self._pending.table(epoch.table).table.table_uuid)
        staged = [p.stage(storage, data_path, snapshot_id) for p in self._pending.tables.values()]
        tables = tuple([t for t in staged if t.before is not None or t.after is not None])
        schemas = tuple(self._pending.created_schemas), tuple(self._pending.dropped_schemas)
        return Staged(self._definitions.snapshot, tables, *schemas, self._info, epoch, snapshot_id)

    def _find_apart(self, session: Session, head: SnapshotId) -> frozenset[int]:
        """Return the tables of upserts whose new rows since the base have none of the keys."""
        return self._apart.find(session, head, self._pending.tables.values())

    def added(self) -> dict[str, AddedCount]:
        """Return what this transaction adds to each table that gets rows, by its name."""
        live = [p for p in self._pending.tables.values() if p.after is not None]
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
        row_ids: Sequence[int] | None = None,
    ) -> None:
        """Add rows: Arrow data, or anything `pyarrow.table` takes. Missing columns are an error unless filled.

        Up to `inline_rows` rows are kept in the catalog, where that can be; None: up to the table's own limit. Rows
        that would make more than `inline_bytes` of the transaction's for the table, as Arrow has them, go to files.
        `row_ids`: they are new versions of rows that `end_rows` has ended, and keep their ids.
        """
        self._rows.append(
            self._table(table),
            to_table(data),
            fill_missing=fill_missing,
            inline_rows=inline_rows,
            inline_bytes=inline_bytes,
            row_ids=None if row_ids is None else np.asarray(row_ids, dtype=np.int64),
        )

    def append_files(self, table: str, files: Sequence[NewDataFile], *, lent: bool = False) -> None:
        """Add data files that were written elsewhere, by executors for instance, with `write_data_files`.

        They go when the transaction does not commit. `lent`: they stay, for another transaction or to be removed there,
        also one that no snapshot gets because the transaction changes rows of it afterwards.
        """
        pending = self._table(table)
        pending.files += files
        if lent:
            pending.lent.update(file.path for file in files)

    def delete(self, table: str, where: str | Predicate | None) -> int:
        """Delete the rows that match a filter such as `id = 3`, all for None; return their number."""
        pending = self._table(table)
        predicate = self._predicate(pending, where)
        with self._all_or_nothing():
            return self._rows.delete(pending, predicate)

    def delete_positions(self, table: str, data_file_id: int, positions: Sequence[int]) -> int:
        """Delete rows of one data file by their positions in it; return how many were live.

        Raises CommitConflict when the file is not there any more: a merge or a rewrite has moved its rows; and
        ObjectNotFound for a file that the table never had.
        """
        found = RowPositions()
        found.add_of_file(DataFileId(data_file_id), np.asarray(positions, dtype=np.int64))
        return self.end_rows(table, found, self.base.snapshot_id)

    def end_rows(self, table: str, positions: RowPositions, read_at: SnapshotId) -> int:
        """Delete rows by where they are, as a read `with_positions` tells; return how many were live.

        `read_at`: the snapshot that was read. Raises CommitConflict when a file or inlined rows are not there any
        more; or when inlined rows were read at another snapshot than the transaction's base: a row id alone does not
        tell which version was read.
        """
        return self._rows.end_rows(self._table(table), positions, read_at)

    def update(self, table: str, values: Mapping[str, object], where: str | Predicate | None = None) -> int:
        """Set columns of the rows that match to Python values or `pyarrow.compute` expressions; return their number."""
        pending = self._table(table)
        predicate = self._predicate(pending, where)
        with self._all_or_nothing():
            return self._rows.update(pending, values, predicate)

    @contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        """Have a change of rows as failed until it is whole: some may be ended whose new versions were never added."""
        had_failed, self._has_failed = self._has_failed, True
        try:
            yield  # an interrupt in the middle is half a change, too
        except UntoldValue:  # raised before any row is changed
            self._has_failed = had_failed
            raise
        self._has_failed = had_failed

    # ---- definition

    def create_schema(self, name: str) -> None:
        self._open().create_schema(name)

    def drop_schema(self, name: str, *, cascade: bool = False) -> None:
        """Drop a schema; one that has tables only with `cascade`."""
        self._open().drop_schema(name, cascade=cascade)

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
        self._open().create_table(
            name, schema, partition_by=partition_by, sorted_by=sorted_by, comment=comment, defaults=defaults or {}
        )

    def drop_table(self, name: str) -> None:
        self._open().drop_table(name)

    def rename_table(self, name: str, new_name: str) -> None:
        """Rename a table within its schema."""
        self._open().rename_table(name, new_name)

    def add_column(
        self, table: str, column: str, type_: str | pa.DataType, default: object = None, *, nulls_allowed: bool = True
    ) -> None:
        self._alter(table, lambda t: definition.add_column(t, column, type_, default, nulls_allowed=nulls_allowed))

    def drop_column(self, table: str, column: str) -> None:
        self._alter(table, lambda t: definition.drop_column(t, column))

    def rename_column(self, table: str, column: str, new_name: str) -> None:
        self._alter(table, lambda t: definition.rename_column(t, column, new_name, self._pending.next_id()))

    def promote_column(self, table: str, column: str, type_: str | pa.DataType) -> None:
        """Change a column's type to one that holds all its values."""
        old = definition.find_column(self._table(table).table, split_path(column))
        self._alter(table, lambda t: definition.promote_column(t, column, type_))
        if old.type == "float32":
            self._rows.rewrite_bounds(self._table(table), old.column_id)

    def merge_schema(self, table: str, schema: TableSchema) -> tuple[EvolutionStep, ...]:
        """Add the columns and struct fields that a schema has and the table lacks, and promote types that are narrower.

        Nothing is ever dropped, renamed or narrowed. Return what was done.
        """
        steps = plan_evolution(self._table(table).table.columns, build_columns(schema))
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
        pending = self._table(table)
        definition.set_nulls_allowed(pending.table, column, allowed=False)  # refuses a field before its rows are read
        name = definition.find_column(pending.table, split_path(column)).name
        count = self._rows.count(pending, self._predicate(pending, f"{quoted(name)} IS NULL"))
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
        self._alter(table, lambda t: self._pending.partitioned(t, partition_by))

    def set_sort_order(self, table: str, sorted_by: Sequence[str | SortKey]) -> None:
        """Sort rows to come within each file; an empty list ends sorting."""
        self._alter(table, lambda t: definition.set_sort_order(t, sorted_by, self._pending.next_id()))

    # ---- looking up

    def table_version(self, name: str) -> TableVersion:
        """Return a table as this transaction sees it."""
        return self._table(name).table

    def has_table(self, name: str) -> bool:
        """Tell whether this transaction sees a table of that name."""
        try:
            self._table(name)
        except ObjectNotFound:
            return False
        return True

    def has_schema(self, name: str) -> bool:
        return self._open().find_schema(name) is not None

    def file_layout(self, table: str) -> FileLayout:
        """Return how files for `append_files` must be laid out; it travels to executors."""
        pending = self._table(table)
        return file_layout(pending.table, pending.options)

    def _open(self) -> PendingDefinitions:
        """Return what the transaction defines, unless it has ended."""
        if self._has_ended:
            raise _has_ended_error()
        return self._pending

    def _table(self, name: str) -> PendingTable:
        return self._open().table(name)

    def _alter(self, name: str, change: Callable[[TableVersion], TableVersion]) -> None:
        self._open().alter_table(name, change)

    def _predicate(self, pending: PendingTable, where: str | Predicate | None) -> Predicate | None:
        if not isinstance(where, str):
            return where
        from ducklake_core.plan.filter_sql import parse_filter  # noqa: PLC0415 # its parser takes long to import

        return parse_filter(where, pending.table.columns)

    def _refuse_failed(self) -> None:
        if self._has_failed:
            raise InvalidInput("a delete or update of this transaction failed halfway: begin again in a new one")

    def _refuse_missing_message(self) -> None:
        if self._definitions.lake_options.requires_message and self._info.message is None:
            raise InvalidInput("this lake requires a message for every commit: give one with transaction(message=…)")


def _has_ended_error() -> InvalidInput:
    return InvalidInput("this transaction has ended: begin a new one")
