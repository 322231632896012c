"""Adds, deletes and updates rows of one pending table: reads what is needed, writes files, records the rest.

Runs on the driver. Rows in committed files and inlined tables are found by a pruned scan at the transaction's base;
rows that the transaction added itself are changed where they wait.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from ducklake_core import faults
from ducklake_core.catalog.database import Database
from ducklake_core.catalog.file_reader import read_file_stats
from ducklake_core.errors import InvalidInput, ObjectNotFound, SchemaMismatch, UnsupportedType
from ducklake_core.files.parquet_reader import ROW_IDS, ReadRequest, read_data_file
from ducklake_core.files.parquet_types import find_unwritable
from ducklake_core.files.parquet_writer import FileLayout, write_data_files
from ducklake_core.files.storage import Storage
from ducklake_core.model import Column, ColumnId, DataFile, DataFileId, NewDataFile, SnapshotId, TableVersion
from ducklake_core.pending import AddedRows, PendingTable
from ducklake_core.plan.conform import conform, conform_column
from ducklake_core.plan.definition import find_internal_name
from ducklake_core.plan.predicates import Predicate
from ducklake_core.plan.staged import RestatedBounds
from ducklake_core.plan.statistics import widened_float
from ducklake_core.read.listing import list_table, needed_columns
from ducklake_core.read.rows import matches, read_file_parts
from ducklake_core.spec.inlined import find_unreadable, find_unstorable
from ducklake_core.spec.options import TableOptions
from ducklake_core.spec.types import arrow_type

Change = Callable[[pa.Table], pa.Table]
# More of one transaction and table goes to files, however few rows they are. PostgreSQL takes no more than 1 GB in one
# message, and long before that a file is written faster and read faster.
INLINE_BYTES = 8_000_000


@dataclass(frozen=True, slots=True)
class RowWriter:
    """Changes rows of pending tables that read at one base snapshot."""

    database: Database
    storage: Storage
    base: SnapshotId

    def append(
        self,
        pending: PendingTable,
        data: pa.Table,
        *,
        fill_missing: bool = False,
        inline_rows: int | None = None,
        inline_bytes: int = INLINE_BYTES,
    ) -> None:
        """Add rows: few of them as catalog rows, more as files. `inline_rows` None: the table's own limit."""
        rows = conform(data, pending.table.columns, pending.table.qualified_name, fill_missing=fill_missing)
        if rows.num_rows:
            row_limit = pending.options.row_limit if inline_rows is None else inline_rows
            self._add(pending, rows, None, row_limit, inline_bytes)

    def write_added(self, pending: PendingTable) -> int:
        """Write the rows that were to be inlined to files instead; return how many there were."""
        waiting, pending.added = [added for added in pending.added if added.rows.num_rows], []
        for added in waiting:
            pending.files += self._write(pending, added.rows, added.row_ids)
        return sum(added.rows.num_rows for added in waiting)

    def delete(self, pending: PendingTable, predicate: Predicate | None) -> int:
        """Delete the rows that match; None deletes all. Return their number."""
        columns = needed_columns(pending.table, (), predicate)
        count = self._change_own(pending, predicate, None)
        for rows, end in self._committed(pending, columns, predicate):
            hits = matches(rows, predicate)
            end(hits)
            count += len(hits)
        return count

    def delete_positions(self, pending: PendingTable, data_file_id: DataFileId, positions: Sequence[int]) -> int:
        """Delete rows of one data file by their positions in it; those deleted already are left out."""
        listing = list_table(self.database, pending.table, self.base, (), None)
        file = next((f for f in listing.files if f.data_file_id == data_file_id), None)
        if file is None:
            raise ObjectNotFound(
                f"table '{pending.table.qualified_name}' has no data file {data_file_id} at snapshot {self.base}"
            )
        wanted = np.unique(np.asarray(positions, dtype=np.int64))
        if len(wanted) and (wanted[0] < 0 or wanted[-1] >= file.record_count):
            raise InvalidInput(f"data file {data_file_id} has {file.record_count} rows: a position is out of range")
        part = next(read_file_parts(self.storage, replace(listing, files=(file,)), (), self.base))
        live = np.setdiff1d(part.positions, _known(pending, file))
        hits = np.intersect1d(wanted, live)
        pending.delete_positions(file, hits)
        return len(hits)

    def count(self, pending: PendingTable, predicate: Predicate | None) -> int:
        """Return how many committed rows match."""
        columns = needed_columns(pending.table, (), predicate)
        return sum(len(matches(rows, predicate)) for rows, _ in self._committed(pending, columns, predicate))

    def restate_bounds(self, pending: PendingTable, column_id: ColumnId) -> None:
        """Write the bounds of a float32 column that becomes float64 anew: the old texts leave values out."""
        if pending.before is None:
            return
        before = pending.before
        stats = self.database.ask(lambda session: read_file_stats(session, before, [column_id]))
        bounds = [(file_id, by_column[column_id]) for file_id, by_column in stats.items()]
        files = tuple((i, widened_float(b.min_value), widened_float(b.max_value)) for i, b in bounds)
        pending.restated.append(RestatedBounds(column_id, files))

    def update(self, pending: PendingTable, values: Mapping[str, object], predicate: Predicate | None) -> int:
        """Give the rows that match new values; they keep their row ids. Return their number."""
        change = _change(pending.table, values)
        count = self._change_own(pending, predicate, change)
        changed: list[tuple[pa.Table, np.ndarray]] = []
        for rows, end in self._committed(pending, pending.table.columns, predicate):
            hits = matches(rows, predicate)
            row_ids = end(hits)
            if len(hits):
                changed.append((change(rows.take(hits)), row_ids))
        if changed:
            rows = pa.concat_tables([c for c, _ in changed])
            row_ids = np.concatenate([ids for _, ids in changed])
            self._add(pending, rows, row_ids, pending.options.row_limit, INLINE_BYTES)
            count += rows.num_rows
        return count

    # ---- adding

    def _add(
        self, pending: PendingTable, rows: pa.Table, row_ids: np.ndarray | None, row_limit: int, byte_limit: int
    ) -> None:
        is_small = rows.num_rows <= row_limit and rows.nbytes + pending.added_bytes <= byte_limit
        if is_small and self._can_inline(pending, rows):
            pending.added.append(AddedRows(rows, row_ids))
        else:
            pending.files += self._write(pending, rows, row_ids)

    def _can_inline(self, pending: PendingTable, rows: pa.Table) -> bool:
        """Tell whether the catalog can hold these rows so that DuckDB reads them; else they go to a file."""
        columns = pending.table.columns
        if not pending.is_inlinable or find_unreadable(columns) is not None:
            return False
        return find_unstorable(rows, columns, self.database.dialect.inlined_rules) is None

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
        self, pending: PendingTable, columns: Sequence[Column], predicate: Predicate | None
    ) -> list[tuple[pa.Table, Callable[[np.ndarray], np.ndarray]]]:
        """Return the committed rows still live in the transaction, each part with what ends chosen rows of it."""
        if pending.before is None:
            return []
        listing = list_table(self.database, pending.table, self.base, columns, predicate)
        parts: list[tuple[pa.Table, Callable[[np.ndarray], np.ndarray]]] = []
        for inlined in listing.inlined:
            ended = np.fromiter(pending.inlined_ends.get(inlined.table.name, ()), np.int64)
            keep = np.flatnonzero(~np.isin(inlined.row_ids, ended))
            row_ids = inlined.row_ids[keep]
            parts.append((_taken(inlined.rows, keep), _inlined_ender(pending, inlined.table.name, row_ids)))
        for part in read_file_parts(self.storage, listing, columns, self.base):
            keep = np.flatnonzero(~np.isin(part.positions, _known(pending, part.file)))
            ender = _file_ender(pending, part.file, part.positions[keep], part.row_ids[keep])
            parts.append((_taken(part.rows, keep), ender))
        return parts

    def _change_own(self, pending: PendingTable, predicate: Predicate | None, change: Change | None) -> int:
        """Delete (no change given) or update matching rows among those that the transaction added."""
        count = 0
        for added in pending.added:
            hits = matches(added.rows, predicate)
            count += len(hits)
            keep = _others(added.rows.num_rows, hits)
            added.rows, added.row_ids = _replaced(added.rows, added.row_ids, hits, keep, change)
        files = list(pending.files)
        if change is not None and pending.added_bytes > INLINE_BYTES:  # the new values are larger
            self.write_added(pending)
        for file in files:
            rows, row_ids = self._read_own(pending.table, file)
            hits = matches(rows, predicate)
            if not len(hits):
                continue
            count += len(hits)
            rows, row_ids = _replaced(rows, row_ids, hits, _others(rows.num_rows, hits), change)
            pending.files.remove(file)
            self.storage.remove_quietly(pending.table.directory + file.path if file.path_is_relative else file.path)
            if rows.num_rows:
                pending.files += self._write(pending, rows, row_ids)
        return count

    def _read_own(self, table: TableVersion, file: NewDataFile) -> tuple[pa.Table, np.ndarray | None]:
        path = table.directory + file.path if file.path_is_relative else file.path
        stored = DataFile(
            DataFileId(-1),
            path,
            self.base,
            file.record_count,
            file.file_size_bytes,
            0,
            encryption_key=file.encryption_key,
        )
        rows = read_data_file(self.storage, stored, ReadRequest(table.columns, with_row_ids=True))
        row_ids = rows.column(ROW_IDS).to_numpy() if file.has_row_ids else None
        return rows.select([c.name for c in table.columns]), row_ids


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


def _known(pending: PendingTable, file: DataFile) -> np.ndarray:
    return pending.deleted.get(file.data_file_id, (file, np.empty(0, np.int64)))[1]


def _taken(rows: pa.Table, indices: np.ndarray) -> pa.Table:
    """Take rows; of a table without columns too, where Arrow's own `take` forgets how many there are."""
    return rows.take(indices) if rows.num_columns else rows.slice(0, len(indices))


def _inlined_ender(pending: PendingTable, name: str, row_ids: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    def end(hits: np.ndarray) -> np.ndarray:
        ended: np.ndarray = row_ids[hits]
        pending.end_inlined(name, ended)
        return ended

    return end


def _file_ender(
    pending: PendingTable, file: DataFile, positions: np.ndarray, row_ids: np.ndarray
) -> Callable[[np.ndarray], np.ndarray]:
    def end(hits: np.ndarray) -> np.ndarray:
        pending.delete_positions(file, positions[hits])
        ended: np.ndarray = row_ids[hits]
        return ended

    return end


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
