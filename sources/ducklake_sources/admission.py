"""How far a micro-batch may read: whole snapshots, within the limits, and none that the reader does not take. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ducklake_core.errors import RowsChanged
from ducklake_core.feed.history import TableSnapshot
from ducklake_core.feed.sizes import ChangeSize
from ducklake_sources.options import SourceOptions


@dataclass(frozen=True, slots=True)
class Limits:
    """Of one micro-batch; None: no limit. Soft: one snapshot is always admitted, however large."""

    versions: int | None = None
    rows: int | None = None
    bytes: int | None = None

    @property
    def need_sizes(self) -> bool:
        return self.rows is not None or self.bytes is not None


def is_relevant(snapshot: TableSnapshot) -> bool:
    """Tell whether a snapshot may have changed rows of the table."""
    return snapshot.inserts or snapshot.deletes


def admit(
    snapshots: Sequence[TableSnapshot], sizes: Mapping[int, ChangeSize], limits: Limits
) -> Sequence[TableSnapshot]:
    """Return the first of the snapshots, which are in order, as many as the limits allow.

    A flush is counted when there are deletes that it may have done.
    """
    versions, rows, size = 0, 0, 0.0
    for index, snapshot in enumerate(snapshots):
        found = sizes.get(snapshot.snapshot_id, ChangeSize())
        if not is_relevant(snapshot) and not found.rows:
            continue
        versions, rows, size = versions + 1, rows + found.rows, size + found.bytes
        is_over = (
            (limits.versions is not None and versions > limits.versions)
            or (limits.rows is not None and rows > limits.rows)
            or (limits.bytes is not None and size > limits.bytes)
        )
        if is_over and versions > 1:
            return snapshots[:index]
    return snapshots


def find_refused(
    snapshots: Sequence[TableSnapshot], options: SourceOptions, has_deletes: Callable[[TableSnapshot], bool]
) -> int | None:
    """Return the index of the first snapshot that the options do not let pass; None when all may.

    `has_deletes` looks at the rows of one whose changes text does not tell a delete from a flush of earlier ones.
    """
    if options.read_change_feed:
        return None
    for index, snapshot in enumerate(snapshots):
        if _is_refused(snapshot, options) and not (snapshot.may_be_flush and not has_deletes(snapshot)):
            return index
    return None


def up_to_change(snapshots: Sequence[TableSnapshot], refused: int | None, table: str) -> Sequence[TableSnapshot]:
    """Return the snapshots before the one that is refused; raise RowsChanged when nothing is left to read there."""
    if refused is None:
        return snapshots
    if any(is_relevant(s) for s in snapshots[:refused]):
        return snapshots[:refused]
    raise rows_changed_error(snapshots[refused], table)


def rows_changed_error(snapshot: TableSnapshot, table: str) -> RowsChanged:
    """Return the error for a snapshot that changes rows, where only inserts are read."""
    return RowsChanged(
        f"snapshot {snapshot.snapshot_id} has updated or deleted rows of table '{table}', and this stream takes "
        "only inserted rows: read all changes with readChangeFeed=true, pass over snapshots that change rows with "
        "skipChangeCommits=true, or over those that only delete with ignoreDeletes=true",
        table=table,
        snapshot=snapshot.snapshot_id,
    )


def passed_over(snapshots: Sequence[TableSnapshot], options: SourceOptions) -> frozenset[int]:
    """Return the snapshots whose inserted rows are passed over, too, because they also change rows."""
    if options.read_change_feed or not options.skip_change_commits:
        return frozenset()
    return frozenset(s.snapshot_id for s in snapshots if s.may_delete)


def _is_refused(snapshot: TableSnapshot, options: SourceOptions) -> bool:
    if not snapshot.may_delete or options.skip_change_commits:
        return False
    return not options.ignore_deletes or snapshot.inserts
