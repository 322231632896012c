"""Reading a table by many: the driver plans slices, each executor reads some. No Spark.

A slice pickles and says all that its reader needs. Files are read without the catalog. Few inlined rows travel in the
slice itself; many are left in the catalog, which their reader then asks by row ids.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias, assert_never

import pyarrow as pa

from ducklake_core.catalog.database import Database
from ducklake_core.catalog.inlined_reader import InlinedExtent, RowIdRange, read_inlined_extents
from ducklake_core.catalog.reader import read_snapshot
from ducklake_core.catalog.session import Session
from ducklake_core.errors import CatalogTableMissing, DuckLakeError, ObjectNotFound, TransientError, UnreadableFile
from ducklake_core.files.parquet_reader import ReadRequest, iterate_data_file
from ducklake_core.files.storage import Storage
from ducklake_core.model import Column, DataFile, InlinedTable, RowSpan, Snapshot, SnapshotId, TableVersion
from ducklake_core.plan.filter_arrow import to_arrow
from ducklake_core.plan.predicates import Predicate
from ducklake_core.read.listing import ask_catalog, inlined_part, list_files, needed_columns
from ducklake_core.read.rows import dropped_positions
from ducklake_core.read.sharing import Cut, Extent, count_slices, cut_evenly
from ducklake_core.spec.types import arrow_schema

_OPEN_COST = 2**20  # bytes that could be read in the time it takes to open a file
_FILE_GRAIN = 122_880  # rows of a row group, in DuckDB's files and in ours
_CATALOG_GRAIN = 10_000
_NO_END = 2**63 - 1  # the last span of a file has all that follows, whatever the catalog says of its rows


@dataclass(frozen=True, slots=True)
class SliceLimits:
    """How a read is shared out. Inlined rows travel in slices up to these bounds. `count` None: by the bytes."""

    shipped_rows: int = 100_000
    shipped_bytes: int = 16 * 2**20
    count: int | None = None


DEFAULT_LIMITS = SliceLimits()


@dataclass(frozen=True, slots=True)
class FileRows:
    """Rows of a data file; `span` None: all."""

    file: DataFile
    span: RowSpan | None


@dataclass(frozen=True, slots=True)
class ShippedRows:
    """Inlined rows themselves, filtered, as an Arrow IPC stream."""

    stream: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class CatalogRows:
    """Inlined rows that stay in the catalog until they are read. Its `database` knows a password: never shown."""

    database: Database = field(repr=False)
    inlined: InlinedTable
    row_ids: RowIdRange
    table_rows: int  # that the whole inlined table had when this was planned


Part: TypeAlias = FileRows | ShippedRows | CatalogRows


@dataclass(frozen=True, slots=True)
class Slice:
    """Some rows of a table at a snapshot. Made by the driver, read by an executor."""

    table: str
    snapshot: SnapshotId
    request: ReadRequest
    storage: Storage
    projection: tuple[str, ...]
    predicate: Predicate | None
    parts: tuple[Part, ...] = field(repr=False)  # files may have keys

    @property
    def paths(self) -> list[str]:
        """The data files that it reads."""
        return [part.file.path for part in self.parts if isinstance(part, FileRows)]


def plan_slices(
    database: Database,
    storage: Storage,
    table: TableVersion,
    snapshot: Snapshot,
    projection: Sequence[Column],
    predicate: Predicate | None,
    limits: SliceLimits = DEFAULT_LIMITS,
) -> list[Slice]:
    """Cut out the rows of a table at a snapshot that match; the order of rows is that of slices.

    Raises ObjectNotFound when the snapshot has expired, for then its files may be gone from the catalog.
    """
    needed = tuple(projection) if predicate is None else needed_columns(table, projection, predicate)

    def ask(session: Session, known: TableVersion) -> list[tuple[Part, Extent]]:
        _check_retained(session, table, snapshot)
        files = list_files(session, known, snapshot.snapshot_id, predicate)
        share = _share_of(needed, table.columns)
        found = [(_whole(file), _file_extent(file, share)) for file in files]
        return [*_inlined_extents(session, known, snapshot, needed, predicate, limits), *found]

    extents = ask_catalog(database, table, ask)
    cost = sum(extent.cost for _, extent in extents)
    shared = cut_evenly([extent for _, extent in extents], limits.count or count_slices(cost))
    request = ReadRequest(needed, snapshot.snapshot_id, table_columns=table.columns)
    names = tuple(c.name for c in projection)
    return [
        Slice(
            table.qualified_name,
            snapshot.snapshot_id,
            request,
            storage,
            names,
            predicate,
            tuple(_part(*extents[cut.extent], cut) for cut in cuts),
        )
        for cuts in shared
    ]


def read_slice(one: Slice) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a slice; what goes wrong names the table, the snapshot and the file."""
    try:
        for part in one.parts:
            for record_batch in _read_part(part, one):
                yield _projected(record_batch, one)
    except DuckLakeError as error:
        where = f"cannot read table '{one.table}' at snapshot {one.snapshot}"
        message = f"{where}: {error.message}{_hint(error, one.storage)}"
        raise type(error)(message, **error.facts) from error


# ------------------------------------------------------------------------------------------- planning


def _check_retained(session: Session, table: TableVersion, snapshot: Snapshot) -> None:
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


def _share_of(columns: Sequence[Column], all_columns: Sequence[Column]) -> float:
    """Return about which share of a file's bytes some columns are: each leaf counts the same."""
    leaves, all_leaves = (sum(1 for c in some for _ in c.leaves()) for some in (columns, all_columns))
    return leaves / max(1, all_leaves)


def _whole(file: DataFile) -> FileRows:
    return FileRows(file, None)


def _file_extent(file: DataFile, share: float) -> Extent:
    opened = 1 + len(file.delete_files)
    return Extent(max(1, file.record_count), file.file_size_bytes * share + opened * _OPEN_COST, _FILE_GRAIN)


def _inlined_extents(
    session: Session,
    table: TableVersion,
    snapshot: Snapshot,
    columns: Sequence[Column],
    predicate: Predicate | None,
    limits: SliceLimits,
) -> Iterator[tuple[Part, Extent]]:
    tables = table.inlined_tables
    extents = read_inlined_extents(session, tables, snapshot.snapshot_id)
    live = [(inlined, extent) for inlined, extent in zip(tables, extents, strict=True) if extent.rows]
    is_little = (
        sum(extent.rows for _, extent in live) <= limits.shipped_rows
        and sum(extent.size_bytes for _, extent in live) <= limits.shipped_bytes
    )
    for inlined, extent in live:
        if is_little:
            rows = inlined_part(session, inlined, columns, snapshot.snapshot_id).rows
            rows = rows if predicate is None else rows.filter(to_arrow(predicate))
            stream = _stream_of(rows.cast(arrow_schema(columns)))
            yield ShippedRows(stream), Extent(1, len(stream), 1)
        else:
            yield _left_in_catalog(session.database, inlined, extent)


def _left_in_catalog(database: Database, inlined: InlinedTable, extent: InlinedExtent) -> tuple[Part, Extent]:
    ids = extent.row_ids
    part = CatalogRows(database, inlined, ids, extent.rows)
    return part, Extent(ids.end - ids.first, extent.size_bytes, _CATALOG_GRAIN)


def _stream_of(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_table(rows)
    return bytes(sink.getvalue())


def _part(part: Part, extent: Extent, cut: Cut) -> Part:
    """Return what a cut of an extent is to read."""
    if (cut.first, cut.end) == (0, extent.rows):
        return part
    match part:
        case FileRows(file):
            return FileRows(file, RowSpan(cut.first, _NO_END if cut.end == extent.rows else cut.end))
        case CatalogRows():
            first = part.row_ids.first
            ids = RowIdRange(first + cut.first, first + cut.end)
            return replace(part, row_ids=ids)
        case ShippedRows():
            raise AssertionError("an extent of one row is never cut")
        case _:
            assert_never(part)


# -------------------------------------------------------------------------------------------- reading


def _read_part(part: Part, one: Slice) -> Iterator[pa.RecordBatch]:
    row_filter = None if one.predicate is None else to_arrow(one.predicate)
    match part:
        case FileRows(file, span):
            dropped = dropped_positions(one.storage, file, one.snapshot)
            yield from iterate_data_file(
                one.storage, file, one.request, dropped_positions=dropped, row_filter=row_filter, span=span
            )
        case ShippedRows(stream):
            yield from pa.ipc.open_stream(stream)
        case CatalogRows():
            rows = _read_from_catalog(part, one)
            yield from (rows if row_filter is None else rows.filter(row_filter)).to_batches()
        case _:
            assert_never(part)


def _read_from_catalog(part: CatalogRows, one: Slice) -> pa.Table:
    """Read inlined rows, if they are all still there: a flush since the plan was made has moved them to a file."""
    database = part.database

    def read(session: Session) -> pa.Table | None:
        [extent] = read_inlined_extents(session, [part.inlined], one.snapshot)
        if extent.rows != part.table_rows:
            return None
        return inlined_part(session, part.inlined, one.request.columns, one.snapshot, part.row_ids).rows

    try:
        rows = database.ask(read)
    except CatalogTableMissing:
        rows = None
    finally:
        database.close()
    if rows is None:
        raise TransientError("rows that were inlined when the read was planned have been flushed since: begin it again")
    return rows


def _projected(record_batch: pa.RecordBatch, one: Slice) -> pa.RecordBatch:
    names = list(one.projection)
    return record_batch if record_batch.schema.names == names else record_batch.select(names)


def _hint(error: DuckLakeError, storage: Storage) -> str:
    """Say what helps when a file is not there: maintenance removes files of expired snapshots."""
    path = error.facts.get("path")
    if not isinstance(error, UnreadableFile) or path is None or storage.exists(path):
        return ""
    return "; the file is gone: if its snapshot has expired meanwhile, begin the read again"
