"""The companion of a table: which event of a key was the last, where the table itself does not tell.

Runs on the driver. A companion is a table of the lake in a schema of ours, written in the same snapshot. It has the
keys that were deleted lately; and where the sequence is no column of the table, those of all its rows (ADR 17).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np
import pyarrow as pa

from ducklake_core.errors import SchemaMismatch
from ducklake_core.model import Column, TableVersion
from ducklake_core.pending import PendingTable
from ducklake_core.plan.conform import conform
from ducklake_core.plan.predicates import Comparison, FieldRef, IsNull, Operator
from ducklake_core.row_writes import RowWriter
from ducklake_core.spec.names import fold
from ducklake_core.spec.types import type_text
from ducklake_core.upsert.events import Events
from ducklake_core.upsert.keyed_write import KeyedWrite
from ducklake_core.upsert.memory import SearchMemory
from ducklake_core.upsert.rules import UpsertRules
from ducklake_core.upsert.search import Found

SCHEMA = "ducklake_streaming"
DELETED_AT = "deleted_at"
_KEY, _SEQUENCE = "key_", "sequence_"
_OF_TABLE, _OF_EVENTS = "column ", "events: "  # in comments


def companion_name(table: TableVersion) -> str:
    """Return the name of a table's companion; it stays when the table is renamed."""
    return f"{SCHEMA}.sequences_{table.table_uuid.hex}"


def companion_columns(keys: Sequence[Column], sequence: Sequence[Column]) -> dict[str, str]:
    """Return the columns of a companion, by name."""
    named = [(f"{_KEY}{i}", type_text(c)) for i, c in enumerate(keys, 1)]
    named += [(f"{_SEQUENCE}{i}", type_text(c)) for i, c in enumerate(sequence, 1)]
    return dict([*named, (DELETED_AT, "timestamptz")])


@dataclass(slots=True)
class Companion:
    """The companion in a transaction, while events are applied to its table. `keeps_all`: not only deleted keys."""

    writer: RowWriter
    pending: PendingTable
    events: Events
    keeps_all: bool
    now: datetime
    memory: SearchMemory

    def find(self) -> Found:
        """Return what is known of the events' keys."""
        return self._write(self._rows(np.zeros(0, bool))).find(self._of(_SEQUENCE))

    def sequences(self, found: Found) -> Iterator[tuple[np.ndarray, pa.Table]]:
        """Yield the numbers of keys that are known, and the sequence of the last event of each."""
        return found.select([c.name for c in self._of(_SEQUENCE)])

    def deleted_keys(self) -> Iterator[tuple[np.ndarray, pa.Table]]:
        """Yield the same of keys that were deleted: all that is known once the table is emptied."""
        sequence, deleted_at = self._of(_SEQUENCE), self._of(DELETED_AT)
        for hits in self._write(self._rows(np.zeros(0, bool))).find((*sequence, *deleted_at)).hits:
            deleted = hits.only(hits.values.column(DELETED_AT).is_valid().to_numpy())
            yield deleted.numbers, deleted.values.select([c.name for c in sequence])

    def remember(self, found: Found, is_late: np.ndarray) -> None:
        """Keep the sequences of the events that are applied, as far as the table itself does not tell them."""
        kept = np.ones(len(is_late), bool) if self.keeps_all else self.events.is_delete
        write = self._write(self._rows(kept))
        write.apply(found, write.decide(found, is_late))

    def forget_before(self, time: datetime) -> int:
        """Forget keys that were deleted before a time; return how many."""
        limit = pa.scalar(time, pa.timestamp("us", "UTC"))
        return self.writer.delete(self.pending, Comparison(_deleted_at(self.pending), Operator.LT, limit))

    def _of(self, prefix: str) -> tuple[Column, ...]:
        return tuple(c for c in self.pending.table.columns if c.name.startswith(prefix))

    def _write(self, events: Events) -> KeyedWrite:
        names = tuple(c.name for c in self._of(_KEY))
        rules = UpsertRules(names, on_duplicate_keys="keep_first")
        return KeyedWrite(self.writer, self.pending, events, rules, self.memory)

    def _rows(self, kept: np.ndarray) -> Events:
        """Return the events as changes of the companion: what is kept is a row, of the others nothing is known."""
        events, numbers = self.events, np.flatnonzero(kept)
        assert events.sequence is not None  # noqa: S101 # who has a companion has a sequence
        deleted_at = [self.now if is_delete else None for is_delete in events.is_delete[numbers].tolist()]
        columns = [*events.keys.take(numbers).columns, *events.sequence.take(numbers).columns]
        rows = pa.table([*columns, pa.array(deleted_at, pa.timestamp("us", "UTC"))], names=self._names())
        rows = conform(rows, self.pending.table.columns, self.pending.table.qualified_name)
        row_of = np.full(events.index.count, -1)
        row_of[numbers] = np.arange(len(numbers))
        keys = events.keys.rename_columns([c.name for c in self._of(_KEY)])
        lasts, nobody = np.arange(len(row_of)), np.zeros(len(row_of), bool)
        return Events(events.index, keys, lasts, rows, row_of, nobody, None, event_count=len(row_of))

    def _names(self) -> list[str]:
        return [c.name for c in self.pending.table.columns]


def forget_rows(writer: RowWriter, companion: PendingTable) -> None:
    """Forget the sequences of rows that are gone with their whole table; deleted keys stay for their time."""
    writer.delete(companion, IsNull(_deleted_at(companion)))


def _deleted_at(companion: PendingTable) -> FieldRef:
    column = companion.table.column(DELETED_AT)
    assert column is not None  # noqa: S101 # each companion has it
    return FieldRef(column, (DELETED_AT,))


def companion_origins(keys: Sequence[Column], sequence: Sequence[Column], *, in_table: bool) -> dict[str, str]:
    """Return the comments of a companion's columns, by name: what each has the values of."""
    named = {f"{_KEY}{i}": _of_table(c) for i, c in enumerate(keys, 1)}
    return named | {
        f"{_SEQUENCE}{i}": _of_table(c) if in_table else f"{_OF_EVENTS}{fold(c.name)}"
        for i, c in enumerate(sequence, 1)
    }


def check_companion(companion: TableVersion, origins: dict[str, str], table: TableVersion) -> None:
    """Raise SchemaMismatch when a companion was made for other keys or another sequence.

    Columns of the table are told by their ids, so that they can be renamed. A comment that is not ours says nothing.
    """
    kept = {c.name: c.comment for c in companion.columns if c.name != DELETED_AT}
    is_same = list(kept) == list(origins) and all(_agree(kept[name] or "", origin) for name, origin in origins.items())
    if not is_same:
        told = [f"{name} ({comment})" if comment else name for name, comment in kept.items()]
        wanted = [f"{name} ({comment})" for name, comment in origins.items()]
        raise SchemaMismatch(
            f"'{companion.qualified_name}' keeps the order of events of '{table.qualified_name}' by {', '.join(told)}, "
            f"and not by {', '.join(wanted)}: keys and sequence_by of a table stay the same; drop that table to begin "
            "anew",
            columns=list(kept),
        )


def _of_table(column: Column) -> str:
    return f"{_OF_TABLE}{column.column_id}: {column.name}"


def _agree(kept: str, wanted: str) -> bool:
    if not kept.startswith((_OF_TABLE, _OF_EVENTS)):
        return True
    same_column = kept.partition(":")[0] == wanted.partition(":")[0]
    return kept == wanted or (same_column and wanted.startswith(_OF_TABLE))
