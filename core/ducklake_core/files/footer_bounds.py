"""Which new values rows cannot have had: those outside of what their row groups have, as footers of files say.

Runs on the driver. So many changes are seen without a look at old values: a time of change is mostly later than all in
older files. What a footer says is kept, as the file never changes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ducklake_core.files.footer_cache import FOOTERS
from ducklake_core.files.parquet_reader import ReadRequest, key_leaves, plan_of_footer
from ducklake_core.files.recent import Recent
from ducklake_core.files.row_groups import bounds_of
from ducklake_core.files.storage import Storage
from ducklake_core.model import Column, ColumnId, DataFile
from ducklake_core.spec.arrays import single

# Whose bounds are compared as the values are, as numbers or as bytes.
_WHOLE = {
    **{name: pa.int64() for name in ("int8", "int16", "int32", "int64", "timestamp", "timestamptz")},
    "date": pa.int32(),
}
_PHYSICAL = ("INT32", "INT64")
_MOST_BYTES = 4 * 2**20
_PAIR_BYTES = 300  # roughly
_Pair: TypeAlias = tuple[Any, Any] | None  # Any: integers or texts; None: the footer does not tell


@dataclass(frozen=True, slots=True, eq=False)
class FileBounds:
    """Where the row groups of a file end, and the least and greatest values that each has of some columns."""

    columns: tuple[Column, ...]  # all of the table
    ends: np.ndarray
    groups: Sequence[Mapping[ColumnId, _Pair]]

    @classmethod
    def of(cls, footer: pq.FileMetaData, file: DataFile, columns: tuple[Column, ...]) -> FileBounds:
        told = tuple(c for c in columns if _is_told(c))
        leaves = key_leaves(footer, plan_of_footer(footer, file, ReadRequest(told, table_columns=columns)), told)
        groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
        ends = np.cumsum([group.num_rows for group in groups])
        return cls(columns, ends, [{c.column_id: _bounds(group, c, leaf) for c, leaf in leaves} for group in groups])


_KNOWN: Recent[tuple[Storage, str, int], FileBounds] = Recent(_MOST_BYTES)


def find_bounds(storage: Storage, file: DataFile, columns: tuple[Column, ...]) -> FileBounds | None:
    """Return what the footer of a file says, for a table with these columns; None if the footer is not at hand."""
    footer, key = FOOTERS.find(storage, file), (storage, file.path, file.file_size_bytes)
    if footer is None:
        return None
    known = _KNOWN.find(key)
    if known is None or known.columns != columns:
        known = FileBounds.of(footer, file, columns)
        _KNOWN.keep(key, known, _PAIR_BYTES * sum(map(len, known.groups)))
    return known


def certainly_other(
    places: Sequence[tuple[FileBounds | None, np.ndarray]], columns: Sequence[Column], new: pa.Table
) -> np.ndarray:
    """Tell of rows at positions of files, one file after the other, whether some column has another value than the new.

    `columns` are all of the table; the new rows may have some of them. What no bounds are known of may be the same.
    """
    groups: list[Mapping[ColumnId, _Pair]] = [{}]
    group_of = [np.empty(0, np.int64)]
    for bounds, positions in places:
        numbers = 0 if bounds is None else len(groups) + np.searchsorted(bounds.ends, positions, "right")
        group_of.append(np.broadcast_to(numbers, len(positions)))
        groups += [] if bounds is None else bounds.groups
    used, group_places = np.unique(np.concatenate(group_of), return_inverse=True)
    found, names = np.zeros(len(group_places), bool), set(new.column_names)
    for column in columns:
        if column.name in names and _is_told(column) and not found.all():
            pairs = [groups[number].get(column.column_id) for number in used.tolist()]
            found |= _is_outside(_comparable(new.column(column.name), column), pairs, pa.array(group_places))
    return found


def _is_told(column: Column) -> bool:
    return column.type in _WHOLE or column.type == "varchar"


def _bounds(group: pq.RowGroupMetaData, column: Column, leaf: int) -> _Pair:
    if column.type == "varchar":
        return bounds_of(group, leaf)
    chunk = group.column(leaf)
    if chunk.physical_type not in _PHYSICAL or chunk.statistics is None or not chunk.statistics.has_min_max:
        return None
    return chunk.statistics.min_raw, chunk.statistics.max_raw


def _comparable(values: pa.ChunkedArray, column: Column) -> pa.Array:
    whole = _WHOLE.get(column.type)
    return single(values) if whole is None else single(values).cast(whole)


def _is_outside(values: pa.Array, pairs: Sequence[_Pair], places: pa.Array) -> np.ndarray:
    """Tell which values are outside of their row group's pair; a null may be anywhere."""
    if all(pair is None for pair in pairs):
        return np.zeros(len(values), bool)
    low, high = (pa.array([p and p[end] for p in pairs], values.type).take(places) for end in (0, 1))
    outside = pc.or_(pc.less(values, low), pc.greater(values, high))
    return np.asarray(pc.fill_null(outside, pa.scalar(value=False)).to_numpy(zero_copy_only=False))
