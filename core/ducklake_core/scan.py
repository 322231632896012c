"""Reads the rows of a table at a snapshot: what the catalog lists, pruned, then files and inlined rows. Runs anywhere.

The catalog is asked in one short transaction; files are read after it has ended, so no lock is held meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
import pyarrow as pa

from ducklake_core.catalog.database import Database
from ducklake_core.catalog.driver_errors import driver_error
from ducklake_core.catalog.file_reader import read_data_files, read_file_stats
from ducklake_core.catalog.inlined_reader import RowIdRange, read_inlined_rows
from ducklake_core.catalog.queries import of_table
from ducklake_core.catalog.session import Session
from ducklake_core.errors import CatalogTableMissing, CorruptCatalog
from ducklake_core.files.delete_files import read_deletes
from ducklake_core.files.field_match import Constant, Found, assemble, match_fields
from ducklake_core.files.parquet_reader import POSITIONS, ROW_IDS, ReadRequest, read_data_file
from ducklake_core.files.storage import Storage
from ducklake_core.model import Column, DataFile, InlinedTable, SnapshotId, TableVersion
from ducklake_core.plan.filter_arrow import to_arrow
from ducklake_core.plan.predicates import Predicate, referenced_columns, referenced_fields
from ducklake_core.plan.pruning import may_match
from ducklake_core.spec.types import arrow_type, identified_field

_READ_ATTEMPTS = 3
_Answer = TypeVar("_Answer")


@dataclass(frozen=True, slots=True, eq=False)
class InlinedPart:
    """Live rows of one inlined table, in the columns asked for."""

    table: InlinedTable
    rows: pa.Table
    row_ids: np.ndarray


@dataclass(frozen=True, slots=True, eq=False)
class FilePart:
    """Live rows of one data file, in the columns asked for, with where they are in the file."""

    file: DataFile
    rows: pa.Table
    row_ids: np.ndarray
    positions: np.ndarray


@dataclass(frozen=True, slots=True, eq=False)
class Listing:
    """What the catalog says of a table at a snapshot: the files worth reading, and the inlined rows themselves."""

    table: TableVersion
    files: tuple[DataFile, ...]
    inlined: tuple[InlinedPart, ...]


def list_table(
    database: Database,
    table: TableVersion,
    snapshot: SnapshotId,
    columns: Sequence[Column],
    predicate: Predicate | None,
) -> Listing:
    """Ask the catalog once for what a table has at a snapshot."""
    return ask_catalog(database, table, lambda session, known: _list(session, known, snapshot, columns, predicate))


def ask_catalog(database: Database, table: TableVersion, ask: Callable[[Session, TableVersion], _Answer]) -> _Answer:
    """Ask in one transaction; a flush that drops a superseded inlined table meanwhile makes it ask again."""
    for attempt in range(_READ_ATTEMPTS):
        try:
            return _ask_once(database, table, ask)
        except CatalogTableMissing as error:
            if attempt + 1 == _READ_ATTEMPTS:
                raise CorruptCatalog(
                    f"table '{table.qualified_name}' has a registered table of inlined rows that is not there: "
                    f"{driver_error(error)}"
                ) from error
            table = _without_vanished(database, table)
    raise AssertionError("unreachable")  # the last attempt raises


def _ask_once(database: Database, table: TableVersion, ask: Callable[[Session, TableVersion], _Answer]) -> _Answer:
    return database.ask(lambda session: ask(session, table))


def list_files(
    session: Session, table: TableVersion, snapshot: SnapshotId, predicate: Predicate | None
) -> list[DataFile]:
    """Return the files of a table that may have a row which the filter keeps."""
    files = read_data_files(session, table, snapshot, with_partition_values=predicate is not None)
    if predicate is None or not files:
        return files
    ids = sorted({field.column.column_id for field in referenced_fields(predicate)})
    stats = read_file_stats(session, table, ids)
    return [f for f in files if may_match(predicate, stats.get(f.data_file_id, {}), table, f)]


def needed_columns(
    table: TableVersion, projection: Sequence[Column], predicate: Predicate | None
) -> tuple[Column, ...]:
    """Return the columns to be read: those asked for and those the filter needs, in the table's order."""
    names = {c.name for c in projection} | (referenced_columns(predicate) if predicate else frozenset())
    return tuple(c for c in table.columns if c.name in names)


def read_rows(
    storage: Storage, listing: Listing, columns: Sequence[Column], snapshot: SnapshotId, predicate: Predicate | None
) -> pa.Table:
    """Return the rows of a listing that match, in the columns asked for."""
    needed_schema = pa.schema([pa.field(c.name, arrow_type(c)) for c in columns])
    tables = [_filtered(part.rows, predicate) for part in listing.inlined]
    request = ReadRequest(tuple(columns), snapshot, table_columns=listing.table.columns)
    row_filter = None if predicate is None else to_arrow(predicate)
    tables += [
        read_data_file(
            storage, file, request, dropped_positions=dropped_positions(storage, file, snapshot), row_filter=row_filter
        )
        for file in listing.files
    ]
    # Not `empty_table()`: that one cannot make a list of an extension type.
    return pa.concat_tables([pa.Table.from_batches([], needed_schema), *tables])


def count_rows(
    storage: Storage, listing: Listing, columns: Sequence[Column], snapshot: SnapshotId, predicate: Predicate | None
) -> int:
    """Return the number of rows of a listing that match; whole files are counted from the catalog."""
    count: int = sum(len(matches(part.rows, predicate)) for part in listing.inlined)
    request = ReadRequest(tuple(columns), snapshot, with_snapshot_ids=True, table_columns=listing.table.columns)
    row_filter = None if predicate is None else to_arrow(predicate)
    for file in listing.files:
        dropped = dropped_positions(storage, file, snapshot)
        if predicate is None and (file.partial_max or 0) <= snapshot:
            count += file.record_count - (0 if dropped is None else len(dropped))
        else:
            rows = read_data_file(storage, file, request, dropped_positions=dropped, row_filter=row_filter)
            count += rows.num_rows
    return count


def read_file_parts(
    storage: Storage, listing: Listing, columns: Sequence[Column], snapshot: SnapshotId
) -> Iterator[FilePart]:
    """Yield the live rows of each file with their row ids and positions, for those who delete or update them."""
    request = ReadRequest(
        tuple(columns), snapshot, with_row_ids=True, with_positions=True, table_columns=listing.table.columns
    )
    for file in listing.files:
        rows = read_data_file(storage, file, request, dropped_positions=dropped_positions(storage, file, snapshot))
        row_ids = rows.column(ROW_IDS).to_numpy()
        positions = rows.column(POSITIONS).to_numpy()
        yield FilePart(file, rows.select([c.name for c in columns]), row_ids, positions)


def matches(rows: pa.Table, predicate: Predicate | None) -> np.ndarray:
    """Return the indices of the rows that a filter keeps."""
    if predicate is None:
        return np.arange(rows.num_rows)
    numbered = rows.append_column(_INDEX, pa.array(np.arange(rows.num_rows)))
    return np.asarray(numbered.filter(to_arrow(predicate)).column(_INDEX).to_numpy())


_INDEX = "\0index"  # no column can have such a name


def _list(
    session: Session, table: TableVersion, snapshot: SnapshotId, columns: Sequence[Column], predicate: Predicate | None
) -> Listing:
    files = tuple(list_files(session, table, snapshot, predicate))
    inlined = tuple(inlined_part(session, t, columns, snapshot) for t in table.inlined_tables)
    return Listing(table, files, inlined)


def _without_vanished(database: Database, table: TableVersion) -> TableVersion:
    """Return the table with the inlined tables that are still registered; a flush has moved the rows of the others."""
    statement = of_table(database.tables, "ducklake_inlined_data_tables")
    rows = database.ask(lambda session: session.query(statement, table_id=table.table_id))
    names = {row[1] for row in rows}
    return replace(table, inlined_tables=tuple(t for t in table.inlined_tables if t.name in names))


def inlined_part(
    session: Session,
    inlined: InlinedTable,
    columns: Sequence[Column],
    snapshot: SnapshotId,
    row_ids: RowIdRange | None = None,
) -> InlinedPart:
    wanted = {c.column_id for c in columns}
    present = [c for c in inlined.columns if c.column_id in wanted]
    rows, found_ids = read_inlined_rows(session, inlined, present, snapshot, row_ids)
    return InlinedPart(inlined, as_table_columns(rows, len(found_ids), present, columns), found_ids)


def as_table_columns(rows: pa.Table, count: int, present: Sequence[Column], columns: Sequence[Column]) -> pa.Table:
    """Make inlined rows, which have the columns they were written under, those of the table at the snapshot."""
    if tuple(present) == tuple(columns):
        return rows
    arrays = []
    for source in match_fields([identified_field(c) for c in present], columns) if present else _constants(columns):
        array = rows.column(source.index).combine_chunks() if isinstance(source, Found) else None
        arrays.append(assemble(source, array, count))
    return pa.table(arrays, names=[c.name for c in columns])


def _constants(columns: Sequence[Column]) -> list[Constant]:
    return [Constant(c, c.initial_default) for c in columns]


def dropped_positions(storage: Storage, file: DataFile, snapshot: SnapshotId) -> np.ndarray | None:
    """Return the sorted positions of a file that are deleted at a snapshot, None when there is none."""
    inlined = np.asarray(file.inlined_deletes, dtype=np.int64)
    found = [read_deletes(storage, delete_file, snapshot)[0] for delete_file in file.delete_files]
    found += [inlined] if len(inlined) else []
    if not found:
        return None
    return found[0] if len(found) == 1 else np.unique(np.concatenate(found))


def _filtered(rows: pa.Table, predicate: Predicate | None) -> pa.Table:
    return rows if predicate is None else rows.filter(to_arrow(predicate))
