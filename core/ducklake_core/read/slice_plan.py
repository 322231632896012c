"""Reading a table by many: shares its rows out as slices, which others read. Runs on the driver; no Spark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import assert_never

from ducklake_core.catalog.database import Database
from ducklake_core.catalog.inlined_reader import RowIdRange
from ducklake_core.catalog.session import Session
from ducklake_core.files.storage import Storage
from ducklake_core.model import Column, RowSpan, Snapshot, TableVersion
from ducklake_core.read.listing import Listing, ask_catalog, check_retained, list_parts
from ducklake_core.read.parts import CatalogRows, FileRows, Part, ShippedRows
from ducklake_core.read.request import RowRequest
from ducklake_core.read.sharing import DEFAULT_LIMITS, Cut, Extent, SliceLimits, count_slices, cut_evenly
from ducklake_core.read.slices import Slice

_OPEN_COST = 2**20  # bytes that could be read in the time it takes to open a file
_FILE_GRAIN = 122_880  # rows of a row group, in DuckDB's files and in ours
_CATALOG_GRAIN = 10_000
_NO_END = 2**63 - 1  # the last span of a file has all that follows, whatever the catalog says of its rows


def plan_slices(
    database: Database,
    storage: Storage,
    table: TableVersion,
    snapshot: Snapshot,
    request: RowRequest,
    limits: SliceLimits = DEFAULT_LIMITS,
) -> list[Slice]:
    """Share out the rows of a table at a snapshot that match; the order of rows is that of slices.

    Raises ObjectNotFound when the snapshot has expired, for then its files may be gone from the catalog.
    """

    def ask(session: Session, known: TableVersion) -> Listing:
        check_retained(session, table, snapshot)
        return list_parts(session, known, request, limits)

    return share_parts(storage, table, request, ask_catalog(database, table, ask).parts, limits)


def share_parts(
    storage: Storage,
    table: TableVersion,
    request: RowRequest,
    parts: Sequence[Part],
    limits: SliceLimits = DEFAULT_LIMITS,
) -> list[Slice]:
    """Share out the rows of some parts of a table."""
    share = _share_of(request.needed_columns, table.columns)
    extents = [_extent(part, share) for part in parts]
    shared = cut_evenly(extents, limits.count or count_slices(sum(extent.cost for extent in extents)))
    return [
        Slice(request, storage, tuple(_part(parts[cut.extent], extents[cut.extent], cut) for cut in cuts))
        for cuts in shared
    ]


def _share_of(columns: Sequence[Column], all_columns: Sequence[Column]) -> float:
    """Return about which share of a file's bytes some columns are: each leaf counts the same."""
    leaves, all_leaves = (sum(1 for c in some for _ in c.leaves()) for some in (columns, all_columns))
    return leaves / max(1, all_leaves)


def _extent(part: Part, share: float) -> Extent:
    """Return how far a part reaches, of which only a share of each row is read if it is a file."""
    match part:
        case FileRows(file):
            opened = 1 + len(file.delete_files)
            return Extent(max(1, file.record_count), file.file_size_bytes * share + opened * _OPEN_COST, _FILE_GRAIN)
        case ShippedRows():
            return Extent(1, part.rows.nbytes, 1)
        case CatalogRows(row_ids=ids):
            return Extent(ids.end - ids.first, part.extent.size_bytes, _CATALOG_GRAIN)
        case _:
            assert_never(part)


def _part(part: Part, extent: Extent, cut: Cut) -> Part:
    """Return what a cut of an extent is to read."""
    if (cut.first, cut.end) == (0, extent.rows):
        return part
    match part:
        case FileRows(file):
            return FileRows(file, RowSpan(cut.first, _NO_END if cut.end == extent.rows else cut.end))
        case CatalogRows():
            first = part.row_ids.first
            return replace(part, row_ids=RowIdRange(first + cut.first, first + cut.end))
        case ShippedRows():
            raise AssertionError("an extent of one row is never cut")
        case _:
            assert_never(part)
