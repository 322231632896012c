"""Adds, deletes and updates rows of one pending table: reads what is needed, writes files, records the rest.

Runs on the driver. Rows in committed files and inlined tables are found by a pruned scan at the transaction's base;
rows that the transaction added itself are changed where they wait.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from ducklake_core import faults
from ducklake_core.catalog.database import Database
from ducklake_core.catalog.file_reader import read_file_stats
from ducklake_core.committed_rows import CommittedRows
from ducklake_core.errors import InvalidInput, SchemaMismatch, UnsupportedType
from ducklake_core.files.parquet_reader import ROW_IDS, ReadRequest, read_data_file
from ducklake_core.files.parquet_types import find_unwritable
from ducklake_core.files.parquet_writer import FileLayout, write_data_files
from ducklake_core.files.partition_sort import partition_keys
from ducklake_core.files.storage import Storage
from ducklake_core.model import (
    Column,
    ColumnId,
    DataFile,
    DataFileId,
    NewDataFile,
    Snapshot,
    SnapshotId,
    TableVersion,
)
from ducklake_core.pending import AddedRows, PendingTable
from ducklake_core.plan.conform import conform, conform_column
from ducklake_core.plan.definition import find_internal_name
from ducklake_core.plan.filter_arrow import matches
from ducklake_core.plan.predicates import Predicate
from ducklake_core.plan.staged import RewrittenBounds
from ducklake_core.plan.statistics import widened_float
from ducklake_core.read.listing import Listing, list_table
from ducklake_core.read.positions import RowPositions
from ducklake_core.read.request import RowRequest
from ducklake_core.spec.inlined import find_unstorable
from ducklake_core.spec.options import TableOptions
from ducklake_core.spec.types import arrow_type
from ducklake_core.upsert.known_tables import KnownTables

Change = Callable[[pa.Table], pa.Table]
Match = Callable[[pa.Table], np.ndarray]  # the indices of rows
# More of one transaction and table goes to files, however few rows they are. PostgreSQL takes no more than 1 GB in one
# message, and long before that a file is written faster and read faster.
INLINE_BYTES = 8_000_000
HELD_BYTES = 256 * 2**20  # of new versions of rows, as Arrow has them, before they are written to files


@dataclass(frozen=True, slots=True)
class RowWriter:
    """Changes rows of pending tables that read at one base snapshot."""

    database: Database
    storage: Storage
    base: Snapshot
    known: KnownTables = field(default_factory=KnownTables)
    learns: bool = False  # the base is of our own last commit, so that rows may be known from now on

    def append(
        self,
        pending: PendingTable,
        data: pa.Table,
        *,
        fill_missing: bool = False,
        inline_rows: int | None = None,
        inline_bytes: int = INLINE_BYTES,
        row_ids: np.ndarray | None = None,
    ) -> None:
        """Add rows: few of them as catalog rows, more as files. `inline_rows` None: the table's own limit."""
        table = pending.table
        rows = conform(data, table.columns, table.qualified_name, fill_missing=fill_missing)
        if rows.num_rows:
            row_limit = pending.options.row_limit if inline_rows is None else inline_rows
            self.add(pending, rows, row_ids, row_limit, inline_bytes)

    def write_added(self, pending: PendingTable) -> int:
        """Write the rows that were to be inlined to files instead; return how many there were."""
        waiting, pending.added = [added for added in pending.added if added.rows.num_rows], []
        for added in waiting:
            pending.files += self._write(pending, added.rows, added.row_ids)
        return sum(added.rows.num_rows for added in waiting)

    def delete(self, pending: PendingTable, predicate: Predicate | None) -> int:
        """Delete the rows that match; None deletes all. Return their number."""
        count = self.change_own(pending, lambda rows: matches(rows, predicate), None)
        committed = self._committed(pending, (), predicate)
        ended = RowPositions()
        for rows in committed.record_batches():
            ended.add(rows)
        committed.end(ended)
        return count + len(ended)

    def delete_replaced(self, pending: PendingTable, predicate: Predicate | None) -> int:
        """Delete the rows that match, so that others take their place: what is written rests on there being no more.

        Else two that find no row to delete would both add theirs.
        """
        pending.rest_on_all_rows()
        return self.delete(pending, predicate)

    def delete_partitions(self, pending: PendingTable, rows: pa.Table | None, files: Sequence[NewDataFile]) -> int:
        """Delete all rows of the partitions that some rows and files are in. Return their number."""
        layout = file_layout(pending.table, pending.options)
        partitioning, by_id = layout.partitioning, {c.column_id: c for c in layout.columns}
        if partitioning is None:
            raise InvalidInput(f"table '{pending.table.qualified_name}' has no partitions that could be replaced")
        pending.rest_on_all_rows()
        columns = [by_id[column_id] for column_id in dict.fromkeys(key.column_id for key in partitioning.keys)]

        def keys_of(found: pa.Table) -> list[tuple[str | None, ...]]:
            keys = partition_keys(found, columns, partitioning)
            return list(zip(*(keys.column(i).to_pylist() for i in range(keys.num_columns)), strict=True))

        wanted = {file.partition_values for file in files} | set(keys_of(rows) if rows is not None else ())
        match = partial(_rows_with, wanted=wanted, keys_of=keys_of)
        count = self.change_own(pending, match, None)
        committed, ended = self._committed(pending, columns, None), RowPositions()
        for found in committed.record_batches():
            ended.add(found.take(pa.array(match(pa.Table.from_batches([found])))))
        committed.end(ended)
        return count + len(ended)

    def end_rows(self, pending: PendingTable, positions: RowPositions, read_at: SnapshotId) -> int:
        """Delete committed rows by where they are; those deleted already are left out. Return how many were live."""
        committed = self._committed(pending, (), None)
        live = committed.live(positions, read_at)
        committed.end(live)
        return len(live)

    def count(self, pending: PendingTable, predicate: Predicate | None) -> int:
        """Return how many committed rows match."""
        return sum(rows.num_rows for rows in self._committed(pending, (), predicate).record_batches())

    def rewrite_bounds(self, pending: PendingTable, column_id: ColumnId) -> None:
        """Write the bounds of a float32 column that becomes float64 anew: the old texts leave values out."""
        if pending.before is None:
            return
        before = pending.before
        stats = self.database.ask(lambda session: read_file_stats(session, before, [column_id]))
        bounds = [(file_id, by_column[column_id]) for file_id, by_column in stats.items()]
        files = tuple((i, widened_float(b.min_value), widened_float(b.max_value)) for i, b in bounds)
        pending.rewritten_bounds.append(RewrittenBounds(column_id, files))

    def update(self, pending: PendingTable, values: Mapping[str, object], predicate: Predicate | None) -> int:
        """Give the rows that match new values; they keep their row ids. Return their number."""
        change = _change(pending.table, values)
        count = self.change_own(pending, lambda rows: matches(rows, predicate), change)
        columns = pending.table.columns
        committed = self._committed(pending, columns, predicate, with_row_ids=True)
        ended, versions = RowPositions(), NewVersions(self, pending)
        for rows in committed.record_batches():
            ended.add(rows)
            found = pa.Table.from_batches([rows]).select([c.name for c in columns])
            versions.add(change(found), rows.column(ROW_IDS).to_numpy())
        committed.end(ended)
        versions.finish()
        return count + len(ended)

    # ---- adding

    def add(
        self, pending: PendingTable, rows: pa.Table, row_ids: np.ndarray | None, row_limit: int, byte_limit: int
    ) -> None:
        is_small = rows.num_rows <= row_limit and pending.has_room(rows, byte_limit)
        rules = self.database.dialect.inlined_rules
        if is_small and pending.can_inline and find_unstorable(rows, pending.table.columns, rules) is None:
            pending.added.append(AddedRows(rows, row_ids))
        else:
            pending.files += self._write(pending, rows, row_ids)

    def _write(self, pending: PendingTable, rows: pa.Table, row_ids: np.ndarray | None) -> Sequence[NewDataFile]:
        table = pending.table
        reason = find_unwritable(table.columns)
        if reason is not None:
            raise UnsupportedType(
                f"cannot write {rows.num_rows} rows of '{table.qualified_name}' to Parquet: {reason}; "
                f"up to {pending.options.row_limit} rows at once (option 'data_inlining_row_limit') of no more than "
                f"{INLINE_BYTES} bytes are kept in the catalog"
            )
        ids = None if row_ids is None else pa.array(row_ids)
        files = write_data_files(self.storage, file_layout(table, pending.options), rows, row_ids=ids)
        faults.at("after_file_write")
        return files

    # ---- finding

    def _committed(
        self,
        pending: PendingTable,
        columns: Sequence[Column],
        predicate: Predicate | None,
        *,
        with_row_ids: bool = False,
    ) -> CommittedRows:
        """Return the committed rows that match; a table that the transaction created has none."""
        request = RowRequest.of(pending.table, self.base.snapshot_id, columns, predicate)
        request = replace(request, with_row_ids=with_row_ids, with_positions=True)
        is_new = pending.before is None
        listing = Listing((), ()) if is_new else list_table(self.database, pending.table, request)
        return CommittedRows(self.database, self.storage, pending, request, listing)

    def own_rows(self, pending: PendingTable) -> Iterator[tuple[pa.Table, np.ndarray | None]]:
        """Yield the rows that the transaction has added, with the ids of those that have one."""
        yield from ((added.rows, added.row_ids) for added in pending.added if added.rows.num_rows)
        yield from (self._read_own(pending.table, file) for file in pending.files)

    def change_own(self, pending: PendingTable, match: Match, change: Change | None) -> int:
        """Delete (no change given) or update matching rows among those that the transaction added."""
        count = 0
        for added in pending.added:
            hits = match(added.rows)
            count += len(hits)
            keep = _others(added.rows.num_rows, hits)
            added.rows, added.row_ids = _replaced(added.rows, added.row_ids, hits, keep, change)
        files = list(pending.files)
        if change is not None and pending.added_bytes > INLINE_BYTES:  # the new values are larger
            self.write_added(pending)
        for file in files:
            rows, row_ids = self._read_own(pending.table, file)
            hits = match(rows)
            if not len(hits):
                continue
            count += len(hits)
            rows, row_ids = _replaced(rows, row_ids, hits, _others(rows.num_rows, hits), change)
            pending.files.remove(file)
            if file.path not in pending.lent:
                self.storage.remove_quietly(pending.table.directory + file.path if file.path_is_relative else file.path)
            if rows.num_rows:
                pending.files += self._write(pending, rows, row_ids)
        return count

    def _read_own(self, table: TableVersion, file: NewDataFile) -> tuple[pa.Table, np.ndarray | None]:
        path = table.directory + file.path if file.path_is_relative else file.path
        stored = DataFile(
            DataFileId(-1),
            path,
            self.base.snapshot_id,
            file.record_count,
            file.file_size_bytes,
            0,
            encryption_key=file.encryption_key,
            mapping=file.mapping,
        )
        rows = read_data_file(self.storage, stored, ReadRequest(table.columns, with_row_ids=True))
        row_ids = rows.column(ROW_IDS).to_numpy() if file.has_row_ids else None
        return rows.select([c.name for c in table.columns]), row_ids


class NewVersions:
    """New versions of rows, which keep their row ids: few are inlined, many are written as they come."""

    def __init__(self, writer: RowWriter, pending: PendingTable) -> None:
        self._writer = writer
        self._pending = pending
        self._rows: list[pa.Table] = []
        self._row_ids: list[np.ndarray] = []
        self._held_bytes = 0
        self._has_files = False

    def add(self, rows: pa.Table, row_ids: np.ndarray) -> None:
        self._rows.append(rows)
        self._row_ids.append(row_ids)
        self._held_bytes += rows.nbytes
        if self._held_bytes >= HELD_BYTES:
            self._has_files = True
            self.finish()

    def finish(self) -> None:
        """Add what is still held."""
        if not self._rows:
            return
        rows, row_ids = pa.concat_tables(self._rows), np.concatenate(self._row_ids)
        row_limit = 0 if self._has_files else self._pending.options.row_limit
        self._writer.add(self._pending, rows, row_ids, row_limit, INLINE_BYTES)
        self._rows, self._row_ids, self._held_bytes = [], [], 0


def file_layout(table: TableVersion, options: TableOptions) -> FileLayout:
    """Return how files of a table are laid out; it travels to executors."""
    internal = find_internal_name(table.columns)
    if internal is not None:  # DuckDB allows it where nothing is inlined
        raise InvalidInput(
            f"cannot write to '{table.qualified_name}': its column '{internal}' has the name of an internal column of "
            "DuckLake's data files, and would be taken for it; rename the column first",
            column=internal,
        )
    partitioning = table.partitioning if table.partitioning and table.partitioning.keys else None
    return FileLayout(table.directory, table.columns, partitioning, table.sort_order, options.files)


def _rows_with(
    rows: pa.Table, wanted: AbstractSet[object], keys_of: Callable[[pa.Table], Sequence[object]]
) -> np.ndarray:
    return np.flatnonzero(np.fromiter((key in wanted for key in keys_of(rows)), bool, rows.num_rows))


def _others(count: int, hits: np.ndarray) -> np.ndarray:
    mask = np.ones(count, dtype=bool)
    mask[hits] = False
    return np.flatnonzero(mask)


def _replaced(
    rows: pa.Table, row_ids: np.ndarray | None, hits: np.ndarray, keep: np.ndarray, change: Change | None
) -> tuple[pa.Table, np.ndarray | None]:
    if not len(hits):
        return rows, row_ids
    if change is None:
        return rows.take(keep), None if row_ids is None else row_ids[keep]
    order = np.argsort(np.concatenate([keep, hits]), kind="stable")
    parts = [rows.take(keep), change(rows.take(hits))]
    return pa.concat_tables(parts, promote_options="default").take(order), row_ids  # they may differ in nullability


def _change(table: TableVersion, values: Mapping[str, object]) -> Change:
    """Return the function that sets columns to values: Python values, or `pyarrow.compute` expressions over the row."""
    columns: dict[str, Column] = {}
    for name in values:
        column = table.column(name)
        if column is None:
            raise SchemaMismatch(f"table '{table.qualified_name}' has no column '{name}' to update", columns=[name])
        columns[name] = column

    def change(rows: pa.Table) -> pa.Table:
        computed = {columns[name].name: _computed(rows, columns[name], value) for name, value in values.items()}
        arrays = [computed.get(name, rows.column(name)) for name in rows.column_names]
        return conform(pa.table(arrays, names=rows.column_names), table.columns, table.qualified_name)

    def _computed(rows: pa.Table, column: Column, value: object) -> pa.ChunkedArray:
        if isinstance(value, pc.Expression):
            found = ds.dataset(rows).to_table(columns={column.name: value}).column(0)
        else:
            found = pa.chunked_array([_repeated(value, rows.num_rows, column)])
        return conform_column(found, column, table.qualified_name)

    return change


def _repeated(value: object, count: int, column: Column) -> pa.Array:
    """Return a Python value once per row: in the column's type where Arrow makes it so, else in the value's own."""
    type_ = arrow_type(column)
    try:
        return pa.array([value] * count, None if isinstance(type_, pa.BaseExtensionType) else type_)
    except UnicodeEncodeError as error:
        raise InvalidInput(
            f"cannot set column '{column.name}' to a text that is no Unicode: {error}", column=column.name
        ) from error
    except (pa.ArrowException, TypeError, ValueError):
        return pa.array([value] * count)
