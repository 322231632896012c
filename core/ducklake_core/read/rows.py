"""The rows of a listing, read in this process: all that match, or how many there are."""

from __future__ import annotations

import pyarrow as pa

from ducklake_core.files.delete_files import dropped_positions
from ducklake_core.files.storage import Storage
from ducklake_core.read.listing import Listing
from ducklake_core.read.parts import FileRows, Part, read_part
from ducklake_core.read.request import RowRequest


def read_rows(storage: Storage, listing: Listing, request: RowRequest) -> pa.Table:
    """Return the rows of a listing that match, in the request's schema."""
    found = (record_batch for part in listing.parts for record_batch in read_part(storage, part, request))
    return pa.Table.from_batches(found, request.schema)


def count_rows(storage: Storage, listing: Listing, request: RowRequest) -> int:
    """Return the number of rows of a listing that match; whole files are counted from the catalog."""
    return sum(_count(storage, part, request) for part in listing.parts)


def _count(storage: Storage, part: Part, request: RowRequest) -> int:
    if isinstance(part, FileRows) and request.predicate is None and (part.file.partial_max or 0) <= request.snapshot:
        dropped = dropped_positions(storage, part.file, request.snapshot)
        return part.file.record_count - (0 if dropped is None else len(dropped))
    return sum(record_batch.num_rows for record_batch in read_part(storage, part, request))
