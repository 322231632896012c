"""The commit plan: staged changes on top of a head become numbered catalog rows. Pure; run again for each attempt.

The order is the reference's: the snapshot's row first (its key is the lake-wide lock), its changes row last.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

import numpy as np

from ducklake_core.model import (
    InlinedTable,
    SchemaId,
    SchemaVersion,
    Snapshot,
    SnapshotId,
    TableId,
    TableStats,
    TableVersion,
)
from ducklake_core.plan.compaction import Compaction
from ducklake_core.plan.compaction_rows import compaction_writes
from ducklake_core.plan.data_rows import data_file_writes, delete_writes
from ducklake_core.plan.definition_rows import (
    definition_writes,
    has_new_shape,
    has_new_types,
    has_new_version,
    has_same_columns,
)
from ducklake_core.plan.flush import Flush
from ducklake_core.plan.flush_rows import flush_writes
from ducklake_core.plan.inlined_rows import InlinedRows
from ducklake_core.plan.name_mappings import mapping_writes, number_mappings
from ducklake_core.plan.staged import CommitInfo, Staged, StagedTable
from ducklake_core.plan.stats_rows import StatsChange, bounds_writes, stats_writes
from ducklake_core.plan.writes import (
    CreateInlinedTable,
    DeleteInlined,
    EndInlined,
    EndRows,
    InsertInlined,
    InsertRows,
    Write,
)
from ducklake_core.spec.changes import ChangeKind, TableChange, format_changes


@dataclass(frozen=True, slots=True)
class HeadState:
    """What a plan is made on: the newest snapshot, and the statistics of the tables that get data.

    `base`: what the catalog has now under the id of the staged changes' base; None when it has expired. Where the
    head is assumed, it is that base itself.
    """

    snapshot: Snapshot
    stats: Mapping[TableId, TableStats | None]
    base: Snapshot | None = None


@dataclass(frozen=True, slots=True)
class CommitPlan:
    """The snapshot to be made and what its commit writes, in two halves.

    `rows`: all that is known when the plan is made, the snapshot's own row first. `closing()`: the statistics and, last
    of all, the snapshot's changes row. Statistics are merged when they are asked for: by then the rows are on their
    way, and the server takes as long to insert them. Nothing else depends on them.
    """

    snapshot: Snapshot
    rows: tuple[Write, ...]
    changes_row: InsertRows
    stats_changes: tuple[StatsChange, ...] = ()
    created_inlined_tables: frozenset[str] = frozenset()

    @property
    def writes_to_inlined_tables(self) -> bool:
        return any(isinstance(write, InsertInlined | EndInlined | DeleteInlined) for write in self.rows)

    def statistics(self) -> list[Write]:
        """Work out the rows of the statistics of the tables that get rows."""
        return [write for change in self.stats_changes for write in stats_writes(change)]

    def closing(self) -> list[Write]:
        """Work out the second half."""
        return [*self.statistics(), self.changes_row]


@dataclass(frozen=True, slots=True)
class MadeCommit:
    """A commit that was made: what was staged, the plan of it, and the snapshot that it followed on."""

    head: Snapshot
    staged: Staged
    plan: CommitPlan


def plan_commit(staged: Staged, head: HeadState, now: datetime) -> CommitPlan:
    """Return the snapshot after `head` that holds the staged changes."""
    return _Planner(staged, head, now).plan()


def changes_of(staged: Staged) -> tuple[TableChange, ...]:
    """Return the entries of the snapshot's changes text, with the ids that the staged changes have so far."""
    changes = [TableChange(ChangeKind.DROPPED_SCHEMA, object_id=s.schema_id) for s in staged.dropped_schemas]
    changes += [TableChange(ChangeKind.CREATED_SCHEMA, name=s.name) for s in staged.created_schemas]
    for table in staged.tables:
        changes += _table_changes(table)
    return tuple(changes)


def _table_changes(table: StagedTable) -> Iterator[TableChange]:
    before, after, writes = table.before, table.after, table.writes
    table_id = table.newest.table_id
    if after is None:
        if before is not None:
            yield TableChange(ChangeKind.DROPPED_TABLE, object_id=table_id)
        return
    if before is None or (before.schema_id, before.name) != (after.schema_id, after.name):
        renamed = None if before is None else table_id
        yield TableChange(ChangeKind.CREATED_TABLE, renamed, after.schema_name, after.name)
    if before is not None and before is not after and replace(before, name=after.name) != after:
        yield TableChange(ChangeKind.ALTERED_TABLE, object_id=table_id)
    # Who looked at the rows first says that it adds and that it deletes, whatever it does of the two. DuckDB lets an
    # insert follow on inserts, and some deletes on deletes: two might add one key or change one row; and a merge or
    # rewrite that meets inlined deletes alone brings their rows back (format §2.5).
    says_both = table.rests_on_rows and not writes.is_empty
    kinds = (
        (ChangeKind.INSERTED_INTO_TABLE, bool(writes.files) or (says_both and not writes.inlined)),
        (ChangeKind.DELETED_FROM_TABLE, writes.has_file_deletes or says_both),
        (ChangeKind.INLINED_INSERT, bool(writes.inlined)),
        (ChangeKind.INLINED_DELETE, writes.has_inlined_deletes),
        (ChangeKind.INLINE_FLUSH, isinstance(writes.moved, Flush)),
    )
    for kind, happened in kinds:
        if happened:
            yield TableChange(kind, object_id=table_id)
    if isinstance(writes.moved, Compaction):
        yield TableChange(writes.moved.kind, object_id=table_id)


class _Planner:
    """Counters of one plan: the ids it gives out start where the head's end."""

    def __init__(self, staged: Staged, head: HeadState, now: datetime) -> None:
        self.staged = staged
        self.head = head
        self.now = now
        self.snapshot_id = SnapshotId(head.snapshot.snapshot_id + 1)
        self.next_catalog_id = head.snapshot.next_catalog_id
        self.next_file_id = head.snapshot.next_file_id
        self._changes_definitions = staged.changes_definitions
        self._lacking = [_lacks_inlined_table(t) for t in staged.tables]
        bump = self._changes_definitions or any(self._lacking)
        self.schema_version = head.snapshot.schema_version + int(bump)
        self._numbers: dict[int, int] = {}
        self._stats_changes: list[StatsChange] = []

    def plan(self) -> CommitPlan:
        numbered = self._number(self.staged)
        writes = [*self._schema_writes(numbered)]
        for table, is_lacking in zip(numbered.tables, self._lacking, strict=True):
            writes += self._table_writes(table, is_lacking=is_lacking)
        # The reference keys its statistics cache by this counter: it must move for each table although no id is used.
        self.next_file_id += sum(1 for t in numbered.tables if t.writes.inlined and not t.writes.files)
        changes = format_changes(changes_of(numbered))
        ids = self.next_catalog_id, self.next_file_id
        snapshot = Snapshot(self.snapshot_id, self.now, self.schema_version, *ids, changes)
        rows = (_snapshot_row(snapshot), *writes)
        changes_row = _changes_row(snapshot, changes, numbered.info)
        created = frozenset([write.name for write in writes if isinstance(write, CreateInlinedTable)])
        return CommitPlan(snapshot, rows, changes_row, tuple(self._stats_changes), created)

    # ---- numbering

    def _number(self, staged: Staged) -> Staged:
        if not self._changes_definitions:
            return staged
        schemas = tuple(replace(s, schema_id=SchemaId(self._id(s.schema_id))) for s in staged.created_schemas)
        return replace(staged, created_schemas=schemas, tables=tuple(self._number_table(t) for t in staged.tables))

    def _number_table(self, table: StagedTable) -> StagedTable:
        after = table.after
        if after is None or not table.changes_definition:
            return table
        partitioning, order = after.partitioning, after.sort_order
        numbered = replace(
            after,
            table_id=TableId(self._id(after.table_id)),
            schema_id=SchemaId(self._id(after.schema_id)),
            partitioning=partitioning and replace(partitioning, partition_id=self._id(partitioning.partition_id)),
            sort_order=order and replace(order, sort_id=self._id(order.sort_id)),
        )
        return replace(table, after=numbered)

    def _id(self, provisional: int) -> int:
        if provisional >= 0:
            return provisional
        if provisional not in self._numbers:
            self._numbers[provisional] = self.next_catalog_id
            self.next_catalog_id += 1
        return self._numbers[provisional]

    # ---- writes

    def _schema_writes(self, staged: Staged) -> Iterator[Write]:
        for schema in staged.dropped_schemas:
            yield EndRows("ducklake_schema", ({"schema_id": schema.schema_id},), self.snapshot_id)
        if staged.created_schemas:
            yield InsertRows("ducklake_schema", tuple(self._schema_row(s) for s in staged.created_schemas))

    def _schema_row(self, schema: SchemaVersion) -> dict[str, object]:
        return {
            "schema_id": schema.schema_id,
            "schema_uuid": schema.schema_uuid,
            "begin_snapshot": self.snapshot_id,
            "end_snapshot": None,
            "schema_name": schema.name,
            "path": schema.path,
            "path_is_relative": schema.path_is_relative,
        }

    def _table_writes(self, table: StagedTable, *, is_lacking: bool) -> Iterator[Write]:
        is_altered = self._changes_definitions and table.changes_definition
        if is_altered:
            yield from definition_writes(table.before, table.after, self.snapshot_id)
        if table.after is None:
            return
        if is_altered and table.before is not None and has_new_types(table.before, table.after):
            # The reference caches statistics under this counter: those of the old type would be an internal error.
            self.next_file_id += 1
        if table.rewritten_bounds:
            yield from bounds_writes(table.after, table.rewritten_bounds, self.head.stats.get(table.after.table_id))
        # The reference writes no version for a table of inlined rows that an insert makes: it takes its columns for
        # those of the table's first day, and cannot read it when they have changed since.
        if is_lacking or (is_altered and has_new_version(table.before, table.after)):
            row = {
                "begin_snapshot": self.snapshot_id,
                "schema_version": self.schema_version,
                "table_id": table.after.table_id,
            }
            yield InsertRows("ducklake_schema_versions", (row,))
        inlined = table.after.newest_inlined_table
        if is_lacking or (is_altered and table.inlines and has_new_shape(table.before, table.after)):
            inlined = self._new_inlined_table(table.after)
            yield CreateInlinedTable(inlined.name, inlined.columns)
            yield InsertRows("ducklake_inlined_data_tables", (_registration(table.after, inlined),))
        yield from self._data_writes(table, table.after, inlined)

    def _new_inlined_table(self, table: TableVersion) -> InlinedTable:
        name = f"ducklake_inlined_data_{table.table_id}_{self.schema_version}"
        return InlinedTable(name, self.schema_version, table.columns)

    def _data_writes(self, table: StagedTable, after: TableVersion, inlined: InlinedTable | None) -> Iterator[Write]:
        writes = table.writes
        if writes.is_empty:
            return
        stats = self.head.stats.get(after.table_id)
        next_row_id = stats.next_row_id if stats else 0
        files, mappings = number_mappings(writes.files, self.next_file_id)
        yield from mapping_writes(after.table_id, mappings)
        self.next_file_id += len(mappings)
        first_file_id = self.next_file_id
        self.next_file_id += len(writes.files) + len(writes.delete_files)
        if files:
            yield from data_file_writes(after, files, first_file_id, next_row_id, self.snapshot_id)
            next_row_id += sum(f.record_count for f in writes.files)
        for rows in writes.inlined:
            assert inlined is not None  # noqa: S101 # rows are staged as inlined only where a table can be had
            row_ids = _row_ids(rows, next_row_id)
            next_row_id += rows.rows.num_rows if rows.row_ids is None else 0
            yield InsertInlined(inlined.name, inlined.columns, rows, row_ids, self.snapshot_id, inlined.stored_names)
        if writes.has_deletes:
            yield from delete_writes(after, writes, first_file_id + len(writes.files), self.snapshot_id, self.now)
        if writes.files or writes.inlined:
            self._stats_changes.append(StatsChange(after, writes, stats, next_row_id))
        if writes.moved is not None:
            yield from self._move_writes(after, writes.moved, stats)

    def _move_writes(self, table: TableVersion, moved: Flush | Compaction, stats: TableStats | None) -> Iterator[Write]:
        first_file_id = self.next_file_id
        self.next_file_id += moved.file_count
        if isinstance(moved, Flush):
            yield from flush_writes(table, moved, stats, first_file_id, self.now)
        else:
            yield from compaction_writes(table, moved, stats, first_file_id, self.snapshot_id, self.now)


def _row_ids(rows: InlinedRows, first: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    if rows.row_ids is None:
        return np.arange(first, first + rows.rows.num_rows, dtype=np.int64)
    return np.asarray(rows.row_ids, dtype=np.int64)


def _lacks_inlined_table(table: StagedTable) -> bool:
    """Tell whether there are rows to inline and no table for them: none at all, or one of columns of before.

    Columns that change while the row limit is zero make no new table; the reference's small inserts then fail.
    """
    is_redefined = table.changes_definition and table.inlines
    if not table.writes.inlined or (is_redefined and has_new_shape(table.before, table.newest)):
        return False
    inlined = table.newest.newest_inlined_table
    if inlined is None:
        return True
    columns = table.newest.columns
    return inlined.columns is not columns and not has_same_columns(inlined.columns, columns)


def _registration(table: TableVersion, inlined: InlinedTable) -> dict[str, object]:
    return {"table_id": table.table_id, "table_name": inlined.name, "schema_version": inlined.schema_version}


def _snapshot_row(snapshot: Snapshot) -> InsertRows:
    row = {
        "snapshot_id": snapshot.snapshot_id,
        "snapshot_time": snapshot.snapshot_time,
        "schema_version": snapshot.schema_version,
        "next_catalog_id": snapshot.next_catalog_id,
        "next_file_id": snapshot.next_file_id,
    }
    return InsertRows("ducklake_snapshot", (row,))


def _changes_row(snapshot: Snapshot, changes: str, info: CommitInfo) -> InsertRows:
    row = {
        "snapshot_id": snapshot.snapshot_id,
        "changes_made": changes,
        "author": info.author,
        "commit_message": info.message,
        "commit_extra_info": info.extra_info,
    }
    return InsertRows("ducklake_snapshot_changes", (row,))
