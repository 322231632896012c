"""Which new values a row cannot have had: those outside of what its row group has, as the file's footer says.

Pure. So many changes are seen without a look at old values: a time of change is mostly later than all in older files.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ducklake_core.files.parquet_reader import ReadRequest, key_leaves, plan_of_footer
from ducklake_core.files.row_groups import bounds_of
from ducklake_core.model import Column, DataFile
from ducklake_core.spec.arrays import single

# Whose bounds are compared as the values are, as numbers or as bytes.
_WHOLE = {
    **{name: pa.int64() for name in ("int8", "int16", "int32", "int64", "timestamp", "timestamptz")},
    "date": pa.int32(),
}
_PHYSICAL = ("INT32", "INT64")


def certainly_other(
    footer: pq.FileMetaData, file: DataFile, columns: Sequence[Column], positions: np.ndarray, new: pa.Table
) -> np.ndarray:
    """Tell of rows at sorted positions whether some column certainly has another value than the new one.

    `columns` are all of the table; the new rows may have some of them.
    """
    names = set(new.column_names)
    told = [c for c in columns if c.name in names and (c.type in _WHOLE or c.type == "varchar")]
    plan = plan_of_footer(footer, file, ReadRequest(tuple(told), table_columns=tuple(columns)))
    found = np.zeros(len(positions), bool)
    ends = np.cumsum([footer.row_group(group).num_rows for group in range(footer.num_row_groups)])
    marks = np.searchsorted(positions, ends)
    for column, leaf in key_leaves(footer, plan, told):
        values, first = _comparable(new.column(column.name), column), 0
        for group, mark in enumerate(marks.tolist()):
            if first < mark and not found[first:mark].all():
                found[first:mark] |= _is_outside(values.slice(first, mark - first), footer.row_group(group), leaf)
            first = mark
    return found


def _comparable(values: pa.ChunkedArray, column: Column) -> pa.Array:
    whole = _WHOLE.get(column.type)
    return single(values) if whole is None else single(values).cast(whole)


def _is_outside(values: pa.Array, group: pq.RowGroupMetaData, leaf: int) -> np.ndarray:
    """Tell which values a row group certainly has not; a null may be anywhere."""
    if pa.types.is_integer(values.type):
        chunk = group.column(leaf)
        if chunk.physical_type not in _PHYSICAL or chunk.statistics is None or not chunk.statistics.has_min_max:
            return np.zeros(len(values), bool)
        bounds = chunk.statistics.min_raw, chunk.statistics.max_raw
    elif (found := bounds_of(group, leaf)) is not None:
        bounds = found
    else:
        return np.zeros(len(values), bool)
    low, high = (pa.scalar(bound, values.type) for bound in bounds)
    outside = pc.or_(pc.less(values, low), pc.greater(values, high))
    return np.asarray(pc.fill_null(outside, pa.scalar(value=False)).to_numpy(zero_copy_only=False))
