"""The rows of a listing: of its files and inlined rows, filtered, counted, or with where they are. Runs anywhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ducklake_core.files.delete_files import read_deletes
from ducklake_core.files.parquet_reader import POSITIONS, ROW_IDS, ReadRequest, read_data_file
from ducklake_core.files.storage import Storage
from ducklake_core.model import Column, DataFile, SnapshotId
from ducklake_core.plan.filter_arrow import to_arrow
from ducklake_core.plan.predicates import Predicate
from ducklake_core.read.listing import Listing
from ducklake_core.spec.types import arrow_type

_INDEX = "\0index"  # no column can have such a name


@dataclass(frozen=True, slots=True, eq=False)
class FilePart:
    """Live rows of one data file, in the columns asked for, with where they are in the file."""

    file: DataFile
    rows: pa.Table
    row_ids: np.ndarray
    positions: np.ndarray


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
