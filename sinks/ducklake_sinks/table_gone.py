"""Why a table that a running stream wrote to is gone. Runs on the driver."""

from __future__ import annotations

from collections.abc import Iterator

from ducklake_core import Lake
from ducklake_core.errors import CommitConflict
from ducklake_core.model import SnapshotId, TableId
from ducklake_core.spec.changes import ChangeKind, TableChange, parse_changes


def table_gone_error(lake: Lake, name: str, table_id: TableId) -> CommitConflict:
    """Return the error that says what became of a table, and in which snapshot."""
    what, snapshot_id = "is gone", None
    for found, change in _changes(lake):
        if change.kind is ChangeKind.DROPPED_TABLE and change.object_id == table_id:
            what, snapshot_id = f"was dropped in snapshot {found}", found
    renamed = {(t.version.schema_name, t.version.name) for t in lake.tables() if t.version.table_id == table_id}
    for found, change in _changes(lake) if renamed else ():
        if change.kind is ChangeKind.CREATED_TABLE and (change.schema_name, change.name) in renamed:
            what, snapshot_id = f"was renamed to '{change.schema_name}.{change.name}' in snapshot {found}", found
    return CommitConflict(
        f"cannot write to table '{name}': table '{name}' {what}; start the stream again to have it created anew",
        snapshot_id=snapshot_id,
        table=name,
    )


def _changes(lake: Lake) -> Iterator[tuple[SnapshotId, TableChange]]:
    for snapshot in lake.snapshots():
        for change in parse_changes(snapshot.changes or ""):
            yield snapshot.snapshot_id, change
