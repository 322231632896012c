"""Gathers what is found file by file: how often, a few examples, and the ids that the finding's SQL asks for."""

from __future__ import annotations

from dataclasses import dataclass, field

from ducklake_core.catalog.checks.question import EXAMPLES, Answer
from ducklake_core.catalog.checks.shown import shown_sql
from ducklake_core.catalog.database import Database

_MOST_IDS = 1_000


@dataclass(slots=True)
class _Note:
    sql: str
    count: int = 0
    examples: list[str] = field(default_factory=list)
    ids: set[int] = field(default_factory=set)


class Notes:
    """What was found, by code and table. Small, however much is broken."""

    def __init__(self) -> None:
        self._notes: dict[tuple[str, int | None], _Note] = {}

    def add(self, code: str, table_id: int | None, example: str, sql: str, *ids: int) -> None:
        """Note one thing; `sql` is one of `catalog/checks/shown.py`, which shows things with such ids."""
        note = self._notes.setdefault((code, table_id), _Note(sql))
        note.count += 1
        if len(note.examples) < EXAMPLES:
            note.examples.append(example)
        if len(note.ids) < _MOST_IDS:
            note.ids.update(ids)

    @property
    def is_empty(self) -> bool:
        return not self._notes

    def take(self, other: Notes) -> None:
        """Take over what another has gathered."""
        for key, found in other._notes.items():
            note = self._notes.setdefault(key, _Note(found.sql))
            note.count += found.count
            note.examples = [*note.examples, *found.examples][:EXAMPLES]
            note.ids |= found.ids

    def answers(self, database: Database) -> list[Answer]:
        """Return what was found, as questions answer."""
        return [
            Answer(code, table_id, note.count, tuple(note.examples), shown_sql(database, note.sql, note.ids, table_id))
            for (code, table_id), note in self._notes.items()
        ]
