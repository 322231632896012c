"""A new data file of rows that were in the lake before, be it in the catalog or in other files. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ducklake_core.model import Column, ColumnStats, NewDataFile, NewDeleteFile, SnapshotId
from ducklake_core.plan.statistics import widened_float


@dataclass(frozen=True, slots=True)
class MovedFile:
    """A data file of row versions, each with its row id, and after a flush or a merge with the snapshot that began it.

    `begin` and `last` are the least and greatest of these. `row_id_start` is that of the first row, None where the ids
    do not follow each other; of a flush it is the least one. `deletes` has the versions that have ended, since `ended`.
    """

    file: NewDataFile
    row_id_start: int | None
    begin: SnapshotId
    last: SnapshotId
    partition_id: int | None = None
    deletes: NewDeleteFile | None = None
    ended: SnapshotId | None = None


def with_current_bounds(moved: MovedFile, written: Sequence[Column], now: Sequence[Column]) -> MovedFile:
    """Return a file whose bounds mean its values as the table has them now. `written`: the columns it was made under.

    The text of a float32, read as the float64 that its column is by now, is another number: values would be left out.
    """
    types = {leaf.column_id: leaf.type for column in now for leaf in column.leaves()}
    leaves = [leaf for column in written for leaf in column.leaves()]
    widened = {leaf.column_id for leaf in leaves if (leaf.type, types.get(leaf.column_id)) == ("float32", "float64")}
    if not widened:
        return moved
    stats = tuple(_widened(one) if one.column_id in widened else one for one in moved.file.column_stats)
    return replace(moved, file=replace(moved.file, column_stats=stats))


def _widened(stats: ColumnStats) -> ColumnStats:
    return replace(stats, min_value=widened_float(stats.min_value), max_value=widened_float(stats.max_value))
