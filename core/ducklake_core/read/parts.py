"""The parts that a table is read by, and how each is read. Runs on driver and executors.

A part pickles and says all that its reader needs. Files are read without the catalog. Few inlined rows travel in the
part itself; many may be left in the catalog, which their reader then asks by row ids.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias, assert_never

import pyarrow as pa

from ducklake_core.arrow_stream import from_stream, to_stream
from ducklake_core.errors import CatalogTableMissing, TransientError
from ducklake_core.files.delete_files import dropped_positions
from ducklake_core.files.parquet_reader import POSITIONS, ROW_IDS, iterate_data_file
from ducklake_core.files.storage import Storage
from ducklake_core.model import DataFile, InlinedTable, RowSpan
from ducklake_core.read.request import RowRequest

if TYPE_CHECKING:
    from ducklake_core.catalog.database import Database
    from ducklake_core.catalog.inlined_reader import InlinedExtent, RowIdRange
    from ducklake_core.catalog.session import Session


@dataclass(frozen=True, slots=True)
class FileRows:
    """Rows of a data file; `span` None: all."""

    file: DataFile
    span: RowSpan | None = None


@dataclass(frozen=True, slots=True, eq=False)
class ShippedRows:
    """Inlined rows themselves, those that match, in the request's schema; they travel as an Arrow stream."""

    inlined: InlinedTable
    rows: pa.Table = field(repr=False)

    def __reduce__(self) -> tuple[Callable[[InlinedTable, bytes], ShippedRows], tuple[InlinedTable, bytes]]:
        return _arrived, (self.inlined, to_stream(self.rows, "zstd"))


def _arrived(inlined: InlinedTable, stream: bytes) -> ShippedRows:
    return ShippedRows(inlined, from_stream(stream).read_all())


@dataclass(frozen=True, slots=True)
class CatalogRows:
    """Inlined rows that stay in the catalog until they are read. Its `database` knows a password: never shown."""

    database: Database = field(repr=False)
    inlined: InlinedTable
    row_ids: RowIdRange
    extent: InlinedExtent  # of the whole inlined table when this was planned


Part: TypeAlias = FileRows | ShippedRows | CatalogRows


def read_part(storage: Storage, part: Part, request: RowRequest) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a part that match, in the request's schema; no record batch is empty."""
    match part:
        case FileRows():
            yield from _read_file(storage, part, request)
        case ShippedRows():
            yield from _filled(part.rows)
        case CatalogRows():
            yield from _filled(_read_from_catalog(part, request))
        case _:
            assert_never(part)


def _filled(rows: pa.Table) -> Iterator[pa.RecordBatch]:
    return (record_batch for record_batch in rows.to_batches() if record_batch.num_rows)


def _read_file(storage: Storage, part: FileRows, request: RowRequest) -> Iterator[pa.RecordBatch]:
    file, schema = part.file, request.schema
    names = [*(c.name for c in request.columns), *([ROW_IDS] if request.with_row_ids else [])]
    dropped = dropped_positions(storage, file, request.snapshot)
    for found in iterate_data_file(
        storage, file, request.of_files, dropped_positions=dropped, row_filter=request.row_filter, span=part.span
    ):
        if not request.with_positions:
            yield found if found.schema.names == names else found.select(names)
            continue
        count = found.num_rows
        places = (pa.repeat(file.data_file_id, count), pa.nulls(count, pa.string()), found.column(POSITIONS))
        yield pa.RecordBatch.from_arrays([*(found.column(name) for name in names), *places], schema=schema)


def _read_from_catalog(part: CatalogRows, request: RowRequest) -> pa.Table:
    """Read inlined rows, if they are all still there: a flush since the plan was made has moved them to a file."""
    from ducklake_core.catalog.inlined_reader import read_inlined_extents  # noqa: PLC0415 # who reads files needs no SQL
    from ducklake_core.read.inlined import read_inlined  # noqa: PLC0415 # likewise

    def read(session: Session) -> pa.Table | None:
        [extent] = read_inlined_extents(session, [part.inlined], request.snapshot)
        return read_inlined(session, part.inlined, request, part.row_ids) if extent.rows == part.extent.rows else None

    try:
        rows = part.database.ask(read)
    except CatalogTableMissing:
        rows = None
    finally:
        part.database.close()
    if rows is None:
        raise TransientError("rows that were inlined when the read was planned have been flushed since: begin it again")
    return rows
