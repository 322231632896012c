"""Which rows go to which file, and in which order: by partition, then by the table's sort order.

Pure; runs on driver and executors.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from ducklake_core.model import Column, Partitioning, SortKey, SortOrder
from ducklake_core.spec.arrays import plain
from ducklake_core.spec.kinds import NESTED, UNORDERED
from ducklake_core.spec.names import fold
from ducklake_core.spec.partition import partition_values

_PLAIN_NAME = re.compile(r'\s*(?:"((?:[^"]|"")+)"|([A-Za-z_][A-Za-z0-9_$]*))\s*')
PartitionValues = tuple[str | None, ...]


def split_by_partition(
    table: pa.Table, columns: Sequence[Column], partitioning: Partitioning | None
) -> Iterator[tuple[PartitionValues | None, pa.Table]]:
    """Yield each partition's values and rows, the first seen first; without a partitioning, all rows at once."""
    if partitioning is None or not partitioning.keys:
        yield None, table
        return
    keys = partition_keys(table, columns, partitioning)
    numbered = keys.append_column("row", pa.array(range(len(keys)), pa.int64()))
    groups = numbered.group_by(keys.column_names, use_threads=False).aggregate([("row", "list")])
    for group in groups.to_batches():
        rows = group.column("row_list")
        for index in range(group.num_rows):
            values = tuple(group.column(name)[index].as_py() for name in keys.column_names)
            yield values, table.take(rows[index].values)


def sort_rows(table: pa.Table, columns: Sequence[Column], order: SortOrder | None) -> pa.Table:
    """Sort by the longest run of leading keys that are plain columns: order is only advice to readers."""
    keys: list[tuple[str, str, str]] = []
    sortable: dict[str, pa.ChunkedArray] = {}
    for key in order.keys if order else ():
        column = _column_of(key, columns)
        if column is None or column.kind in (*NESTED, *UNORDERED):
            break
        name = str(len(keys))
        sortable[name] = pa.chunked_array([plain(c) for c in table.column(column.name).chunks])
        keys.append((name, *_direction(key)))
    if not keys:
        return table
    return table.take(pc.sort_indices(pa.table(sortable), sort_keys=keys))


def partition_keys(table: pa.Table, columns: Sequence[Column], partitioning: Partitioning) -> pa.Table:
    """Return the value of each key for each row, as texts."""
    by_id = {column.column_id: column for column in columns}
    keys = [(by_id[key.column_id], key.transform) for key in partitioning.keys]
    arrays = [partition_values(table.column(column.name), column, transform) for column, transform in keys]
    return pa.table(arrays, names=[str(index) for index in range(len(arrays))])


def _column_of(key: SortKey, columns: Sequence[Column]) -> Column | None:
    match = _PLAIN_NAME.fullmatch(key.expression)
    if match is None:
        return None
    name = match.group(1).replace('""', '"') if match.group(1) else match.group(2)
    return next((column for column in columns if fold(column.name) == fold(name)), None)


def _direction(key: SortKey) -> tuple[str, str]:
    return "descending" if key.descending else "ascending", "at_start" if key.nulls_first else "at_end"
