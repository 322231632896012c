"""Lists what a table has at a snapshot: asks the catalog once, and leaves out files that cannot match. Runs anywhere.

One short transaction; files are read after it has ended, so no lock is held meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
import pyarrow as pa

from ducklake_core.catalog.database import Database
from ducklake_core.catalog.driver_errors import driver_error
from ducklake_core.catalog.file_reader import read_data_files, read_file_stats
from ducklake_core.catalog.inlined_reader import RowIdRange, read_inlined_rows
from ducklake_core.catalog.queries import inlined_tables
from ducklake_core.catalog.session import Session
from ducklake_core.errors import CatalogTableMissing, CorruptCatalog
from ducklake_core.files.field_match import Constant, Found, assemble, match_fields
from ducklake_core.model import Column, DataFile, InlinedTable, SnapshotId, TableVersion
from ducklake_core.plan.predicates import Predicate, referenced_columns, referenced_fields
from ducklake_core.plan.pruning import may_match
from ducklake_core.spec.types import identified_field

_READ_ATTEMPTS = 3
_Answer = TypeVar("_Answer")


@dataclass(frozen=True, slots=True, eq=False)
class InlinedPart:
    """Live rows of one inlined table, in the columns asked for."""

    table: InlinedTable
    rows: pa.Table
    row_ids: np.ndarray


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


def _list(
    session: Session, table: TableVersion, snapshot: SnapshotId, columns: Sequence[Column], predicate: Predicate | None
) -> Listing:
    files = tuple(list_files(session, table, snapshot, predicate))
    inlined = tuple(inlined_part(session, t, columns, snapshot) for t in table.inlined_tables)
    return Listing(table, files, inlined)


def _without_vanished(database: Database, table: TableVersion) -> TableVersion:
    """Return the table with the inlined tables that are still registered; a flush has moved the rows of the others."""
    table_id = table.table_id
    rows = database.ask(lambda session: inlined_tables(session.tables).ask(session, table_id=table_id))
    names = {row.table_name for row in rows}
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
