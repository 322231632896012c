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
from ducklake_core.upsert.plain_history import DELETED, PlainPlan, Points, Spans, plan_plain
from ducklake_core.upsert.ranks import Ranks


@dataclass(frozen=True, slots=True, eq=False)
class KeptRows:
    """Rows of a table or of its companion that have a key of the batch, and the numbers of these keys."""

    numbers: np.ndarray
    values: pa.Table


@dataclass(frozen=True, slots=True, eq=False)
class KnownHistory:
    """`rows`: what versions and changes have. `plain`: the plan of all keys that need no more.

    Of the others, all by the numbers of keys. Places are those among the rows kept.
    """

    rows: pa.Table
    ranks: Ranks
    stored: Spans
    plain: PlainPlan
    versions: Mapping[int, Mapping[Version, int]]  # with their places in the table
    hidden: Mapping[int, Mapping[Change, int]]  # with their places in the companion
    changes: Mapping[int, Sequence[Change]]  # in the order in which they came

    def plans(self) -> dict[int, HistoryPlan]:
        """Return the plan of each key that is not plain."""
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
    events = looks.points(arrived.index.numbers, ranks.find(sequence), arrived.deletes, hidden.first_of_events(own))
    spans = looks.spans(stored.numbers, ranks.find(start), ranks.find(end))
    plain = plan_plain(arrived.index.count, events, spans, hidden.numbers)
    return KnownHistory(
        rows,
        ranks,
        spans,
        plain,
        _versions(columns, stored.values, spans, ~plain.is_plain),
        hidden.changes(looks, own.num_rows, ranks.find(hidden.starts)),
        _changes(events.only(np.flatnonzero(~plain.is_plain[events.numbers]))),
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Looks:
    """Of each row the number of the first that is equal to it, in all columns and in those that are tracked."""

    rows: np.ndarray
    looks: np.ndarray

    @classmethod
    def of(cls, rows: pa.Table, columns: HistoryColumns) -> _Looks:
        tracked = rows.select([c.name for c in columns.tracked])
        looks = row_numbers(tracked) if columns.tracked else np.zeros(rows.num_rows, np.int64)
        return cls(row_numbers(rows), looks)

    def points(self, numbers: np.ndarray, ranks: np.ndarray, is_delete: np.ndarray, first: int) -> Points:
        """Return changes; the rows of those that are no deletes follow on each other from a first one."""
        places = (first - 1 + np.cumsum(~is_delete))[~is_delete]
        rows, looks = np.full(len(numbers), DELETED), np.full(len(numbers), DELETED)
        rows[~is_delete], looks[~is_delete] = self.rows[places], self.looks[places]
        return Points(numbers, ranks, rows, looks)

    def spans(self, numbers: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> Spans:
        """Return the versions of the first rows."""
        return Spans(numbers, starts, ends, self.rows[: len(numbers)], self.looks[: len(numbers)])


@dataclass(frozen=True, slots=True, eq=False)
class _Hidden:
    """Hidden changes as a companion has them, with the names of the table's columns."""

    numbers: np.ndarray
    rows: pa.Table
    starts: pa.ChunkedArray
    is_delete: list[bool]

    @classmethod
    def of(
        cls, columns: HistoryColumns, companion: KeptRows | None, no_rows: pa.Table, no_starts: pa.ChunkedArray
    ) -> _Hidden:
        if companion is None:
            return cls(np.empty(0, np.int64), no_rows, no_starts, [])
        values = companion.values
        rows = table_rows(columns, values)
        starts, deletes = values.column(column_name(columns.start)), values.column(IS_DELETE).to_pylist()
        return cls(companion.numbers, rows, starts, deletes)

    def first_of_events(self, own: pa.Table) -> int:
        """Return where rows of events begin, after those of the table and these."""
        return int(own.num_rows + self.rows.num_rows)

    def changes(self, looks: _Looks, first: int, ranks: np.ndarray) -> Mapping[int, Mapping[Change, int]]:
        found: dict[int, dict[Change, int]] = defaultdict(dict)
        told = zip(self.numbers.tolist(), ranks.tolist(), self.is_delete, strict=True)
        for place, (number, rank, is_delete) in enumerate(told):
            row, look = int(looks.rows[first + place]), int(looks.looks[first + place])
            found[number][Change(rank, None) if is_delete else Change(rank, row, look)] = place
        return found


def _versions(
    columns: HistoryColumns, values: pa.Table, spans: Spans, is_wanted: np.ndarray
) -> Mapping[int, Mapping[Version, int]]:
    found: dict[int, dict[Version, int]] = defaultdict(dict)
    begun: set[tuple[int, int]] = set()
    places = np.flatnonzero(is_wanted[spans.numbers])
    numbers, starts, ends, rows, looks = (
        column[places].tolist() for column in (spans.numbers, spans.starts, spans.ends, spans.rows, spans.looks)
    )
    for place, number, start, end, row, look in zip(places.tolist(), numbers, starts, ends, rows, looks, strict=True):
        if (number, start) in begun:
            raise _twice(columns, values, place)
        begun.add((number, start))
        found[number][Version(start, end or None, row, look)] = place  # null: until now
    return found


def _twice(columns: HistoryColumns, rows: pa.Table, place: int) -> InvalidInput:
    shown = rows.select([c.name for c in (*columns.keys, columns.start)]).slice(place, 1).to_pylist()[0]
    return InvalidInput(
        f"table '{columns.rows.qualified_name}' has two versions of a key that begin together, {shown}: delete the one "
        "that should not be there",
        keys=[shown],
    )


def _changes(events: Points) -> Mapping[int, Sequence[Change]]:
    """Return the events of each key."""
    found: dict[int, list[Change]] = defaultdict(list)
    told = (column.tolist() for column in (events.numbers, events.ranks, events.rows, events.looks))
    for number, rank, row, look in zip(*told, strict=True):
        found[number].append(Change(rank, None) if row == DELETED else Change(rank, row, look))
    return found
