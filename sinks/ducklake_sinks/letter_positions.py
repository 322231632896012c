"""Where dead letters are in a lake, so that they can be ended. Runs on the driver."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from ducklake_core import Lake
from ducklake_core.errors import CommitConflict
from ducklake_core.files.parquet_reader import ROW_IDS
from ducklake_core.plan.filter_sql import parse_filter
from ducklake_core.read.positions import RowPositions
from ducklake_core.read.slices import read_slice


def positions_of(lake: Lake, table: str, ids: Sequence[int], *, at: int) -> RowPositions:
    """Return where letters are at a snapshot. Raises CommitConflict when one is gone, or was fed in again meanwhile."""
    found = lake.table(table, at=at)
    predicate = parse_filter("replayed_at IS NULL", found.version.columns)
    positions, wanted = RowPositions(), pa.array(ids, pa.int64())
    for one in found.slices([], predicate, with_row_ids=True, with_positions=True):
        for rows in read_slice(one):
            positions.add(rows.filter(pc.is_in(rows.column(ROW_IDS), value_set=wanted)))
    if len(positions) != len(ids):
        gone = len(ids) - len(positions)
        raise CommitConflict(f"{gone} dead letters of '{table}' were fed in again or removed by another meanwhile")
    return positions
