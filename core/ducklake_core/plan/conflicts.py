"""Which changes of other snapshots make ours invalid. Pure; runs where commits are made.

Stricter than the reference where it loses data (a delete beside a compaction, a delete file beside an inlined delete),
more permissive where it need not fail (an append beside a delete: rows and files are disjoint). A conflict is final:
our plan was made from rows, files or columns that are no longer so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ducklake_core.model import SnapshotId
from ducklake_core.spec.changes import COMPACTIONS, ChangeKind, TableChange
from ducklake_core.spec.names import fold

SnapshotChanges = tuple[SnapshotId, tuple[TableChange, ...]]


@dataclass(frozen=True, slots=True)
class Conflict:
    """A change of another snapshot, and the change of ours that it makes invalid."""

    snapshot_id: SnapshotId
    other: TableChange
    mine: TableChange
    subject: str  # "table 'main.orders'"
    rows_moved: bool = False  # its snapshot flushed or compacted the table: the rows are the same, elsewhere

    @property
    def is_about_files(self) -> bool:
        """Whether it lies in which files our compaction read: it is none if they are as they were."""
        return self.mine.kind in _COMPACT and self.other.kind in _DELETE | _COMPACT

    def describe(self) -> str:
        """Say what happened, as in `table 'main.orders' was dropped in snapshot 977`."""
        verb = _VERBS[self.other.kind]
        if _is_rename(self.other):
            verb = f"was renamed to '{_full_name(self.other)}'"
        return f"{self.subject} {verb} in snapshot {self.snapshot_id}"


def find_conflict(
    mine: Sequence[TableChange],
    others: Sequence[SnapshotChanges],
    names: Mapping[int, str],
    row_checked_tables: frozenset[int] = frozenset(),
    tables_with_sources: frozenset[int] = frozenset(),
    read_tables: frozenset[int] = frozenset(),
) -> Conflict | None:
    """Return the first change since the base that makes one of ours invalid, None when ours may follow.

    One that only moved rows, after which a change can be made again from the new head, is returned only if there is
    no other.

    `names` has the name of every schema of the base by its id, else its drop is not seen to conflict with creations
    in it, and those of tables (`main.orders`) for the message. Ids of objects that we create are negative.
    A rename, ours or another's, is a created table with an `object_id` (see `mark_renames`); it counts as an alter.
    `row_checked_tables` are those whose new definition was checked against their rows: rows that came since forbid it.
    `tables_with_sources` are those that we compact and whose source files the head has as they were: what others did
    to the other files of the table is no matter then.
    `read_tables` are those whose rows decided what ours are, as in an upsert: no other may have changed a row of them.
    """
    found: Iterator[Conflict] = (
        conflict
        for conflict in _find_conflicts(mine, others, names, row_checked_tables, read_tables)
        if not (conflict.is_about_files and conflict.mine.object_id in tables_with_sources)
    )
    first = next(found, None)
    return next((c for c in found if not c.rows_moved), first) if first is not None and first.rows_moved else first


def _find_conflicts(
    mine: Sequence[TableChange],
    others: Sequence[SnapshotChanges],
    names: Mapping[int, str],
    row_checked_tables: frozenset[int],
    read_tables: frozenset[int],
) -> Iterator[Conflict]:
    for snapshot_id, changes in others:
        moved = {change.object_id for change in changes if change.kind in _MOVE}
        for other in changes:
            rows_moved = other.object_id in moved and other.kind in _MOVE | _DELETE
            if other.object_id in read_tables and other.kind in _APPEND | _DELETE:
                yield Conflict(snapshot_id, other, other, _subject(other, names), rows_moved)
            for own in mine:
                if _conflicts(own, other, names) or _inserts_into_checked(own, other, row_checked_tables):
                    yield Conflict(snapshot_id, other, own, _subject(other, names), rows_moved)


def mark_renames(
    changes: Sequence[TableChange], renamed: Mapping[tuple[str | None, str | None], int]
) -> tuple[TableChange, ...]:
    """Give the created tables and views that are renames, by (schema, new name), the id of what was renamed."""
    return tuple(
        replace(change, object_id=renamed[change.schema_name, change.name])
        if change.kind in _CREATED_RELATION and (change.schema_name, change.name) in renamed
        else change
        for change in changes
    )


_APPEND = frozenset({ChangeKind.INSERTED_INTO_TABLE, ChangeKind.INLINED_INSERT})
_DELETE = frozenset({ChangeKind.DELETED_FROM_TABLE, ChangeKind.INLINED_DELETE})
_FLUSH = frozenset({ChangeKind.INLINE_FLUSH})
_COMPACT = COMPACTIONS
_MOVE = _FLUSH | _COMPACT
_ALTER = frozenset({ChangeKind.ALTERED_TABLE, ChangeKind.ALTERED_VIEW})
_DROP_TABLE = frozenset({ChangeKind.DROPPED_TABLE, ChangeKind.DROPPED_VIEW})
_DROP_OTHER = frozenset({ChangeKind.DROPPED_SCHEMA, ChangeKind.DROPPED_SCALAR_MACRO, ChangeKind.DROPPED_TABLE_MACRO})
_CREATED_RELATION = frozenset({ChangeKind.CREATED_TABLE, ChangeKind.CREATED_VIEW})

# What we do to an object → what others must not have done to the same object. Two sessions that each see the other's
# change as harmless would both commit, so the rules among deletes, flushes and compactions are symmetric.
_FORBIDDEN: Mapping[frozenset[ChangeKind], frozenset[ChangeKind]] = {
    _APPEND: _ALTER | _DROP_TABLE,
    _DELETE: _ALTER | _DROP_TABLE | _DELETE | _FLUSH | _COMPACT,
    # A flush that also writes delete files carries a delete as well, with its rules.
    _FLUSH: _ALTER | _DROP_TABLE | _DELETE | _FLUSH,
    _COMPACT: _ALTER | _DROP_TABLE | _DELETE | _COMPACT,
    _ALTER: _ALTER | _DROP_TABLE,
    _DROP_TABLE: _DROP_TABLE,
    _DROP_OTHER: _DROP_OTHER,
}
_RULES = {kind: forbidden for kinds, forbidden in _FORBIDDEN.items() for kind in kinds}

_VERBS: Mapping[ChangeKind, str] = {
    **{kind: "was created" for kind in ChangeKind if kind.is_named},
    **dict.fromkeys(_DROP_TABLE | _DROP_OTHER, "was dropped"),
    **dict.fromkeys(_ALTER, "was altered"),
    **dict.fromkeys(_APPEND, "had rows inserted"),
    **dict.fromkeys(_DELETE, "had rows deleted"),
    ChangeKind.INLINE_FLUSH: "had its inlined rows flushed",
    ChangeKind.MERGE_ADJACENT: "had its files merged",
    ChangeKind.REWRITE_DELETE: "had its files rewritten",
    ChangeKind.COMPACTED_TABLE: "had its files compacted",
}


def _conflicts(mine: TableChange, other: TableChange, names: Mapping[int, str]) -> bool:
    return (
        _touch_same_object(mine, other)
        or _create_same_name(mine, other)
        or _is_created_in_dropped(mine, other, names)
        or _is_created_in_dropped(other, mine, names)
    )


def _touch_same_object(mine: TableChange, other: TableChange) -> bool:
    if mine.object_id is None or mine.object_id != other.object_id:
        return False
    return _effect(other) in _RULES[_effect(mine)]


def _inserts_into_checked(mine: TableChange, other: TableChange, row_checked_tables: frozenset[int]) -> bool:
    """Tell whether rows came since, or moved to files that were not looked at."""
    return other.kind in _APPEND | _MOVE and other.object_id in row_checked_tables and other.object_id == mine.object_id


def _effect(change: TableChange) -> ChangeKind:
    return ChangeKind.ALTERED_TABLE if _is_rename(change) else change.kind


def _is_rename(change: TableChange) -> bool:
    return change.kind in _CREATED_RELATION and change.object_id is not None


def _create_same_name(mine: TableChange, other: TableChange) -> bool:
    if not (mine.kind.is_named and other.kind.is_named) or _name_key(mine) != _name_key(other):
        return False
    # Tables and views share their names; schemas and each kind of macro have their own.
    return mine.kind is other.kind or {mine.kind, other.kind} <= _CREATED_RELATION


def _is_created_in_dropped(created: TableChange, dropped: TableChange, names: Mapping[int, str]) -> bool:
    if dropped.kind is not ChangeKind.DROPPED_SCHEMA or created.schema_name is None or dropped.object_id is None:
        return False
    name = names.get(dropped.object_id)
    return name is not None and fold(name) == fold(created.schema_name)


def _name_key(change: TableChange) -> tuple[str, str]:
    return fold(change.schema_name or ""), fold(change.name or "")


def _full_name(change: TableChange) -> str:
    return ".".join(name for name in (change.schema_name, change.name) if name is not None)


def _subject(change: TableChange, names: Mapping[int, str]) -> str:
    noun = _noun(change.kind)
    if change.object_id is None:
        return f"{noun} '{_full_name(change)}'"
    name = names.get(change.object_id)
    return f"{noun} '{name}'" if name is not None else f"{noun} {change.object_id}"


def _noun(kind: ChangeKind) -> str:
    for noun in ("schema", "view", "macro"):
        if kind.value.endswith(noun):
            return noun
    return "table"
