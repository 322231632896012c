"""Puts staged changes on a newer head than the one they were made on, or says why that cannot be. Pure.

It is told what others did since: first the tables that they redefined, then, where that does not decide it, the
changes of their snapshots. `find_drift` and `needs_changes` say whether these have to be asked for at all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import TypeAlias

from ducklake_core.errors import CommitConflict
from ducklake_core.model import SnapshotId, TableId, TableVersion
from ducklake_core.plan.commit_plan import HeadState, changes_of
from ducklake_core.plan.conflicts import find_conflict, mark_renames
from ducklake_core.plan.staged import Staged, StagedTable
from ducklake_core.spec.changes import ChangeKind, parse_changes

Redefined: TypeAlias = Mapping[TableId, TableVersion | None]  # tables that have another definition now; None: dropped
Changes: TypeAlias = tuple[SnapshotId, str | None]  # what a snapshot changed, as the catalog has it
_NEW_ROWS = frozenset({ChangeKind.INLINED_INSERT, ChangeKind.INSERTED_INTO_TABLE})


class Drift(Enum):
    """How a head differs from the base that changes were made on."""

    NONE = "none"  # in nothing that concerns them
    ROWS = "rows"  # others changed rows, perhaps theirs
    DEFINITIONS = "definitions"  # others changed definitions, perhaps those of their tables
    OTHER_LAKE = "other lake"  # it does not follow on that base at all


@dataclass(frozen=True, slots=True)
class Rebased:
    """The changes as they follow on the head."""

    staged: Staged


@dataclass(frozen=True, slots=True)
class NeedsFiles:
    """The changes follow on the head, but delete files must be written for this id first, while no lock is held."""

    snapshot_id: SnapshotId


@dataclass(frozen=True, slots=True)
class Refused:
    """The changes cannot follow: what happened since their base forbids it. `snapshot_id`: where that happened."""

    reason: str
    snapshot_id: SnapshotId
    base: SnapshotId
    rows_moved: bool = False  # the rows are the same, elsewhere: the changes can be made again from the head

    def to_error(self) -> CommitConflict:
        message = f"cannot commit on snapshot {self.base}: {self.reason}"
        return CommitConflict(message, snapshot_id=self.snapshot_id, base=self.base, rows_moved=self.rows_moved)


def find_drift(staged: Staged, head: HeadState) -> Drift:
    """Return how the head differs from the base of the changes, as far as the two tell."""
    if _is_other_lake(staged, head):
        return Drift.OTHER_LAKE
    if head.snapshot.snapshot_id == staged.base.snapshot_id:
        return Drift.NONE
    if head.base is None or head.snapshot.schema_version != staged.base.schema_version:
        return Drift.DEFINITIONS
    return Drift.NONE if staged.is_append_only else Drift.ROWS


def needs_changes(staged: Staged, drift: Drift, redefined: Redefined) -> bool:
    """Tell whether it matters what else others changed: new rows go wherever a table takes the same ones."""
    if drift is Drift.DEFINITIONS:
        return not (staged.is_append_only and _take_same_rows(staged, redefined))
    return drift is Drift.ROWS


def rebase(
    staged: Staged,
    head: HeadState,
    redefined: Redefined,
    others: Sequence[Changes] | None,
    with_sources: frozenset[int] = frozenset(),
    apart: frozenset[int] = frozenset(),
) -> Rebased | NeedsFiles | Refused:
    """Return the changes as they follow on the head. `others`: all snapshots since their base; None: no matter.

    `with_sources`: the compacted tables whose sources the head has as they were. `apart`: tables whose rows the changes
    rest on, and whose new rows are of no concern to them.
    """
    if _is_other_lake(staged, head):
        return _refusal(
            staged,
            head,
            f"it is not the one that was read, the lake is at {head.snapshot.snapshot_id}, so its catalog was restored "
            "from a backup; begin again from what is there",
        )
    if others is not None:
        refused = _find_refusal(staged, head, redefined, others, with_sources, apart)
        if refused is not None:
            return refused
    elif redefined:  # whatever else changed does not touch new rows, but they go where rows go now
        staged = replace(staged, tables=tuple(_at_head(t, redefined) for t in staged.tables))
    next_id = SnapshotId(head.snapshot.snapshot_id + 1)
    has_its_files = not staged.names_snapshot or staged.finished_for == next_id
    return Rebased(staged) if has_its_files else NeedsFiles(next_id)


def is_redefined(before: TableVersion, now: TableVersion | None) -> bool:
    """Tell whether a table has another definition than the one that staged changes rest on."""
    return now is None or _definition(now) != _definition(before)


def _is_other_lake(staged: Staged, head: HeadState) -> bool:
    return head.snapshot.snapshot_id < staged.base.snapshot_id or head.base not in (None, staged.base)


def _find_refusal(
    staged: Staged,
    head: HeadState,
    redefined: Redefined,
    others: Sequence[Changes],
    with_sources: frozenset[int],
    apart: frozenset[int],
) -> Refused | None:
    if len(others) != head.snapshot.snapshot_id - staged.base.snapshot_id:
        return _refusal(
            staged,
            head,
            "snapshots since then have expired, so nobody knows what they changed; begin again from what is there",
        )
    renamed: dict[tuple[str | None, str | None], int] = {
        (t.schema_name, t.name): i for i, t in redefined.items() if t is not None
    }
    parsed = [(snapshot_id, mark_renames(parse_changes(text), renamed)) for snapshot_id, text in others]
    checked = frozenset(t.newest.table_id for t in staged.tables if t.was_checked_against_rows)
    touched = {c.object_id for _, made in parsed for c in made if c.kind not in _NEW_ROWS}
    read = frozenset(t.newest.table_id for t in staged.tables if t.rests_on_rows) - (apart - touched)
    conflict = find_conflict(changes_of(staged), parsed, _names(staged), checked, with_sources, read)
    if conflict is not None:
        return Refused(conflict.describe(), conflict.snapshot_id, staged.base.snapshot_id, conflict.rows_moved)
    if redefined:
        return _refusal(staged, head, f"table '{_names(staged)[next(iter(redefined))]}' has another definition now")
    return None


def _refusal(staged: Staged, head: HeadState, reason: str) -> Refused:
    return Refused(reason, head.snapshot.snapshot_id, staged.base.snapshot_id)


def _take_same_rows(staged: Staged, redefined: Redefined) -> bool:
    """Tell whether all tables have the columns they had; rows may be inlined elsewhere since another's first insert."""
    for before in (t.before for t in staged.tables):
        if before is None or before.table_id not in redefined:
            continue
        now = redefined[before.table_id]
        if now is None or _columns_and_place(now) != _columns_and_place(before):
            return False
    return True


def _definition(table: TableVersion) -> TableVersion:
    """Return what an append rests on: comments and sort order may change beneath it, older inlined tables vanish."""
    newest = table.newest_inlined_table
    columns = tuple(replace(c, comment=None) for c in table.columns)
    return replace(
        table, comment=None, sort_order=None, columns=columns, inlined_tables=() if newest is None else (newest,)
    )


def _columns_and_place(table: TableVersion) -> TableVersion:
    return replace(_definition(table), inlined_tables=())


def _at_head(table: StagedTable, redefined: Redefined) -> StagedTable:
    now = None if table.before is None else redefined.get(table.before.table_id)
    return table if now is None else replace(table, before=now, after=now)


def _names(staged: Staged) -> Mapping[int, str]:
    names: dict[int, str] = {s.schema_id: s.name for s in staged.dropped_schemas}
    for table in staged.tables:
        names[table.newest.table_id] = table.newest.qualified_name
        names[table.newest.schema_id] = table.newest.schema_name
    return names
