"""The grammar of `ducklake_snapshot_changes.changes_made`: which objects a snapshot touched, and how.

`created_table:"main"."orders",inserted_into_table:3`: tokens regardless of case, ids bare, names quoted. Every client
parses the text at every conflict, and the reference fails on a token it does not know: write no others. Pure.

A merge or rewrite of ours also says `inline_flush`, although it flushes nothing. The reference lets a small delete that
was read before follow on a compaction, and the deleted rows are back; on a flush it does not (format §2.5, ADR 15). No
flush is ever in a snapshot with a compaction, so that whoever reads the text leaves that entry out again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from ducklake_core.errors import CorruptCatalog
from ducklake_core.spec.names import quoted


class ChangeKind(Enum):
    """What was done; the value is the token. In the order in which the reference writes them."""

    DROPPED_SCHEMA = "dropped_schema"
    DROPPED_TABLE = "dropped_table"
    DROPPED_VIEW = "dropped_view"
    CREATED_SCHEMA = "created_schema"
    CREATED_TABLE = "created_table"  # also a rename, under the new name
    CREATED_VIEW = "created_view"
    CREATED_SCALAR_MACRO = "created_scalar_macro"
    CREATED_TABLE_MACRO = "created_table_macro"
    DROPPED_SCALAR_MACRO = "dropped_scalar_macro"
    DROPPED_TABLE_MACRO = "dropped_table_macro"
    INSERTED_INTO_TABLE = "inserted_into_table"
    DELETED_FROM_TABLE = "deleted_from_table"
    ALTERED_TABLE = "altered_table"
    ALTERED_VIEW = "altered_view"
    INLINED_INSERT = "inlined_insert"
    INLINED_DELETE = "inlined_delete"
    INLINE_FLUSH = "inline_flush"
    MERGE_ADJACENT = "merge_adjacent"
    REWRITE_DELETE = "rewrite_delete"
    COMPACTED_TABLE = "compacted_table"  # read only: written by old versions

    @property
    def is_named(self) -> bool:
        """Tell whether the token is followed by a name; the others are followed by an id."""
        return self.value.startswith("created_")


ROW_INSERTS = frozenset({ChangeKind.INSERTED_INTO_TABLE, ChangeKind.INLINED_INSERT})
ROW_DELETES = frozenset({ChangeKind.DELETED_FROM_TABLE, ChangeKind.INLINED_DELETE})
COMPACTIONS = frozenset({ChangeKind.MERGE_ADJACENT, ChangeKind.REWRITE_DELETE, ChangeKind.COMPACTED_TABLE})


@dataclass(frozen=True, slots=True)
class TableChange:
    """One entry of the text.

    A created object has `schema_name` and `name` (a schema only `name`), the others `object_id`. The text does not
    tell a rename from a creation; who knows sets `object_id` of a created table or view to the id that was renamed.
    """

    kind: ChangeKind
    object_id: int | None = None
    schema_name: str | None = None
    name: str | None = None


def parse_changes(text: str | None) -> tuple[TableChange, ...]:
    """Parse the text of one snapshot; None and '' are no changes. Raise CorruptCatalog if it breaks the grammar."""
    changes: list[TableChange] = []
    position = 0
    while text and position < len(text):
        entry = _ENTRY.match(text, position)
        if entry is None:
            raise _bad_changes(text)
        changes.append(_parse_entry(entry.group("token"), entry.group("value"), text))
        position = entry.end()
    guards = _guards(changes)
    return tuple(change for change in changes if change not in guards) if guards else tuple(changes)


def format_changes(changes: Iterable[TableChange]) -> str:
    """Return the text in the reference's order: by kind, ids ascending, created objects by schema as first met."""
    distinct = dict.fromkeys(changes)
    distinct |= dict.fromkeys(_guards(distinct))
    schemas = {name: rank for rank, name in enumerate(dict.fromkeys(change.schema_name for change in distinct))}

    def rank(change: TableChange) -> tuple[int, int]:
        within = schemas[change.schema_name] if change.kind.is_named else change.object_id
        return _RANKS[change.kind], within or 0

    return ",".join(dict.fromkeys(_format_entry(change) for change in sorted(distinct, key=rank)))


def _guards(changes: Iterable[TableChange]) -> list[TableChange]:
    """Return what keeps small deletes of the reference from following on compactions: see the docstring above."""
    return [TableChange(ChangeKind.INLINE_FLUSH, c.object_id) for c in changes if c.kind in COMPACTIONS]


_QUOTED = r'"(?:[^"]|"")*"'
_ENTRY = re.compile(rf"(?P<token>\w+):(?P<value>[0-9]+|{_QUOTED}(?:\.{_QUOTED})?)(?:,|\Z)")
_KINDS = {kind.value: kind for kind in ChangeKind} | {"flushed_inlined": ChangeKind.INLINE_FLUSH}
# Tables and views are written interleaved, as they were created.
_RANKS = {kind: rank for rank, kind in enumerate(ChangeKind)}
_RANKS[ChangeKind.CREATED_VIEW] = _RANKS[ChangeKind.CREATED_TABLE]


def _parse_entry(token: str, value: str, text: str) -> TableChange:
    kind = _KINDS.get(token.lower())
    if kind is None or kind.is_named != value.startswith('"'):
        raise _bad_changes(text)
    if not kind.is_named:
        return TableChange(kind, object_id=int(value))
    names = [quoted[1:-1].replace('""', '"') for quoted in re.findall(_QUOTED, value)]
    if len(names) != (1 if kind is ChangeKind.CREATED_SCHEMA else 2):
        raise _bad_changes(text)
    return TableChange(kind, schema_name=names[0] if len(names) == 2 else None, name=names[-1])


def _format_entry(change: TableChange) -> str:
    if not change.kind.is_named:
        return f"{change.kind.value}:{change.object_id}"
    names = [name for name in (change.schema_name, change.name) if name is not None]
    return f"{change.kind.value}:" + quoted(*names)


def _bad_changes(text: str) -> CorruptCatalog:
    return CorruptCatalog(f"cannot parse the changes of a snapshot: '{text}' is not of the format's grammar", text=text)
