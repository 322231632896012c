"""Lists what a table has at a snapshot: asks the catalog once, and leaves out files that cannot match. Runs anywhere.

One short transaction; files are read after it has ended, so no lock is held meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

from ducklake_core.catalog.database import Database
from ducklake_core.catalog.driver_errors import driver_error
from ducklake_core.catalog.file_reader import read_data_files, read_file_stats
from ducklake_core.catalog.inlined_reader import read_inlined_extents
from ducklake_core.catalog.queries import inlined_tables
from ducklake_core.catalog.reader import read_snapshot
from ducklake_core.catalog.session import Session
from ducklake_core.errors import CatalogTableMissing, CorruptCatalog, ObjectNotFound
from ducklake_core.model import DataFile, Snapshot, SnapshotId, TableVersion
from ducklake_core.plan.predicates import Predicate, referenced_fields
from ducklake_core.plan.pruning import may_match
from ducklake_core.read.inlined import read_inlined
from ducklake_core.read.parts import CatalogRows, FileRows, Part, ShippedRows
from ducklake_core.read.request import RowRequest
from ducklake_core.read.sharing import SliceLimits

_READ_ATTEMPTS = 3
_Answer = TypeVar("_Answer")


@dataclass(frozen=True, slots=True)
class Listing:
    """What the catalog says of a table at a snapshot: the files worth reading, and the inlined rows."""

    files: tuple[DataFile, ...]
    inlined: tuple[ShippedRows | CatalogRows, ...]

    @property
    def parts(self) -> tuple[Part, ...]:
        return (*self.inlined, *map(FileRows, self.files))


def list_table(
    database: Database, table: TableVersion, request: RowRequest, snapshot: Snapshot | None = None
) -> Listing:
    """Ask the catalog once for what a table has at a snapshot; the listing has all its inlined rows that match.

    Raises ObjectNotFound when the snapshot has expired, if it is given: some of its files may be gone then.
    """

    def ask(session: Session, known: TableVersion) -> Listing:
        if snapshot is not None:
            check_retained(session, table, snapshot)
        return list_parts(session, known, request)

    return ask_catalog(database, table, ask)


def check_retained(session: Session, table: TableVersion, snapshot: Snapshot) -> None:
    """Raise ObjectNotFound when a snapshot has expired."""
    try:
        is_same = read_snapshot(session, snapshot.snapshot_id).snapshot_time == snapshot.snapshot_time
    except ObjectNotFound:
        is_same = False
    if not is_same:
        raise ObjectNotFound(
            f"cannot read table '{table.qualified_name}': snapshot {snapshot.snapshot_id} has expired since the table"
            " was opened; open it again for the newest snapshot",
            snapshot=snapshot.snapshot_id,
        )


def list_parts(
    session: Session, table: TableVersion, request: RowRequest, limits: SliceLimits | None = None
) -> Listing:
    """Return what a table has at a snapshot. `limits` None: with all its inlined rows that match."""
    files = tuple(list_files(session, table, request.snapshot, request.predicate))
    if limits is None:
        return Listing(files, tuple(ShippedRows(t, read_inlined(session, t, request)) for t in table.inlined_tables))
    return Listing(files, _inlined_within(session, table, request, limits))


def _inlined_within(
    session: Session, table: TableVersion, request: RowRequest, limits: SliceLimits
) -> tuple[ShippedRows | CatalogRows, ...]:
    """Return the inlined rows themselves where they are few; else all of them are left where they are."""
    extents = read_inlined_extents(session, table.inlined_tables, request.snapshot)
    live = [(t, extent) for t, extent in zip(table.inlined_tables, extents, strict=True) if extent.rows]
    rows, size_bytes = sum(e.rows for _, e in live), sum(e.size_bytes for _, e in live)
    if rows <= limits.shipped_rows and size_bytes <= limits.shipped_bytes:
        return tuple(ShippedRows(t, read_inlined(session, t, request)) for t, _ in live)
    return tuple(CatalogRows(session.database, t, extent.row_ids, extent) for t, extent in live)


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


def _without_vanished(database: Database, table: TableVersion) -> TableVersion:
    """Return the table with the inlined tables that are still registered; a flush has moved the rows of the others."""
    table_id = table.table_id
    rows = database.ask(lambda session: inlined_tables(session.tables).ask(session, table_id=table_id))
    names = {row.table_name for row in rows}
    return replace(table, inlined_tables=tuple(t for t in table.inlined_tables if t.name in names))
