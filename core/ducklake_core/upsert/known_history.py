"""What is known of the versions of a batch's keys, in numbers: made of rows of a table, of its companion and of events.

Pure. Rows get the same number where all values are equal, so that an event which comes again changes nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ducklake_core.errors import InvalidInput
from ducklake_core.plan.conform import conform_column
from ducklake_core.upsert.differences import row_numbers
from ducklake_core.upsert.events import Arrived
from ducklake_core.upsert.hidden_changes import IS_DELETE, column_name, table_rows
from ducklake_core.upsert.history_columns import HistoryColumns
from ducklake_core.upsert.key_history import Change, HistoryPlan, Version, plan_history
from ducklake_core.upsert.ranks import Ranks


@dataclass(frozen=True, slots=True, eq=False)
class KeptRows:
    """Rows of a table or of its companion that have a key of the batch, and the numbers of these keys."""

    numbers: np.ndarray
    values: pa.Table


@dataclass(frozen=True, slots=True, eq=False)
class KnownHistory:
    """All by the numbers of keys. `rows`: what versions and changes have. Places are those among the rows kept."""

    rows: pa.Table
    ranks: Ranks
    versions: Mapping[int, Mapping[Version, int]]  # with their places in the table
    hidden: Mapping[int, Mapping[Change, int]]  # with their places in the companion
    changes: Mapping[int, Sequence[Change]]  # in the order in which they came

    def plans(self) -> dict[int, HistoryPlan]:
        return {
            number: plan_history(list(self.versions.get(number, ())), self.hidden.get(number, ()), changes)
            for number, changes in self.changes.items()
        }


def know_history(
    columns: HistoryColumns, arrived: Arrived, stored: KeptRows, companion: KeptRows | None
) -> KnownHistory:
    """Return all that is known; raise InvalidInput for two versions of one key that begin together."""
    assert arrived.sequence is not None  # noqa: S101 # the rules ask for one
    sequence = conform_column(arrived.sequence.column(0), columns.start, columns.rows.qualified_name)
    start, end = stored.values.column(columns.start.name), stored.values.column(columns.end.name)
    own = stored.values.select([c.name for c in columns.rows.columns])
    hidden = _Hidden.of(columns, companion, own.slice(0, 0), start.slice(0, 0))
    rows = pa.concat_tables([own, hidden.rows, arrived.rows()], promote_options="default")
    ranks, looks = Ranks.of(sequence, start, end, hidden.starts), _Looks.of(rows, columns)
    first_of_events = own.num_rows + hidden.rows.num_rows
    return KnownHistory(
        rows,
        ranks,
        _versions(columns, stored, looks, ranks.find(start), ranks.find(end)),
        hidden.changes(looks, own.num_rows, ranks.find(hidden.starts)),
        _changes(arrived, looks, first_of_events, ranks.find(sequence)),
    )


@dataclass(frozen=True, slots=True)
class _Looks:
    """Of each row the number of the first that is equal to it, in all columns and in those that are tracked."""

    rows: list[int]
    looks: list[int]

    @classmethod
    def of(cls, rows: pa.Table, columns: HistoryColumns) -> _Looks:
        tracked = rows.select([c.name for c in columns.tracked])
        looks = row_numbers(tracked).tolist() if columns.tracked else [0] * rows.num_rows
        return cls(row_numbers(rows).tolist(), looks)

    def change(self, rank: int, place: int) -> Change:
        return Change(rank, self.rows[place], self.looks[place])


@dataclass(frozen=True, slots=True, eq=False)
class _Hidden:
    """Hidden changes as a companion has them, with the names of the table's columns."""

    numbers: list[int]
    rows: pa.Table
    starts: pa.ChunkedArray
    is_delete: list[bool]

    @classmethod
    def of(
        cls, columns: HistoryColumns, companion: KeptRows | None, no_rows: pa.Table, no_starts: pa.ChunkedArray
    ) -> _Hidden:
        if companion is None:
            return cls([], no_rows, no_starts, [])
        values = companion.values
        rows = table_rows(columns, values)
        starts, deletes = values.column(column_name(columns.start)), values.column(IS_DELETE).to_pylist()
        return cls(companion.numbers.tolist(), rows, starts, deletes)

    def changes(self, looks: _Looks, first: int, ranks: Sequence[int]) -> Mapping[int, Mapping[Change, int]]:
        found: dict[int, dict[Change, int]] = defaultdict(dict)
        for place, (number, rank, is_delete) in enumerate(zip(self.numbers, ranks, self.is_delete, strict=True)):
            change = Change(rank, None) if is_delete else looks.change(rank, first + place)
            found[number][change] = place
        return found


def _versions(
    columns: HistoryColumns, stored: KeptRows, looks: _Looks, starts: Sequence[int], ends: Sequence[int]
) -> Mapping[int, Mapping[Version, int]]:
    found: dict[int, dict[Version, int]] = defaultdict(dict)
    begun: set[tuple[int, int]] = set()
    for place, (number, start, end) in enumerate(zip(stored.numbers.tolist(), starts, ends, strict=True)):
        if (number, start) in begun:
            raise _twice(columns, stored.values, place)
        begun.add((number, start))
        found[number][Version(start, end or None, looks.rows[place], looks.looks[place])] = place  # null: until now
    return found


def _twice(columns: HistoryColumns, rows: pa.Table, place: int) -> InvalidInput:
    shown = rows.select([c.name for c in (*columns.keys, columns.start)]).slice(place, 1).to_pylist()[0]
    return InvalidInput(
        f"table '{columns.rows.qualified_name}' has two versions of a key that begin together, {shown}: delete the one "
        "that should not be there",
        keys=[shown],
    )


def _changes(arrived: Arrived, looks: _Looks, first: int, ranks: Sequence[int]) -> Mapping[int, Sequence[Change]]:
    """Return the events of each key; rows of those that are no deletes follow on each other from a first one."""
    found: dict[int, list[Change]] = defaultdict(list)
    place = first
    for number, rank, is_delete in zip(arrived.index.numbers.tolist(), ranks, arrived.deletes.tolist(), strict=True):
        found[number].append(Change(rank, None) if is_delete else looks.change(rank, place))
        place += not is_delete
    return found
