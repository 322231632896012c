"""Events as a batch brings them become one event for each key: the last one. Pure.

The last is the one of the greatest sequence; of those with the same sequence, and of all where there is none, it is the
one that comes last in the batch. So it does not matter how a stream of events is cut into batches. Where an event says
only a part of its row, those before it in the batch count as well, but for late ones: these are passed over.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ducklake_core.errors import InvalidInput, SchemaMismatch
from ducklake_core.model import Column, TableVersion
from ducklake_core.plan.conform import conform, conform_column
from ducklake_core.spec.arrays import plain, single
from ducklake_core.spec.kinds import Kind
from ducklake_core.spec.memo import per_object, per_object_while_same
from ducklake_core.spec.names import fold
from ducklake_core.spec.types import build_columns
from ducklake_core.upsert.conditions import rows_where
from ducklake_core.upsert.key_index import KeyIndex
from ducklake_core.upsert.old_keys import with_old_keys
from ducklake_core.upsert.rules import UpsertRules
from ducklake_core.upsert.untold import Untold, untold_values

# Floats are no keys: -0.0 equals 0.0, and NaN itself, for some readers only. The others have no one form, or no order.
_KEY_KINDS = (
    *(Kind.BOOLEAN, Kind.INTEGER, Kind.DECIMAL, Kind.TEXT, Kind.BLOB, Kind.UUID),
    *(Kind.DATE, Kind.TIME, Kind.TIMESTAMP, Kind.TIMESTAMPTZ),
)
_SHOWN = 5
_Asked: TypeAlias = tuple[pa.Schema, UpsertRules]  # what events are like, and what is done with them


@dataclass(frozen=True, slots=True, eq=False)
class Events:
    """The last event of each key; arrays are by the number of the key in `index`.

    `row_of`: which of `rows` the event brings, -1 for a delete. `replaces`: a delete of the key came before in the
    batch, so that nothing of the row which the table has is kept. `has_truncate`: all that the table has goes first.
    `untold`: values of `rows` that no event tells, None where all are told. `all_keys` are those of all events, and
    `lasts` the last ones.
    """

    index: KeyIndex
    all_keys: pa.Table
    lasts: np.ndarray
    rows: pa.Table
    row_of: np.ndarray
    replaces: np.ndarray
    sequence: pa.Table | None
    event_count: int
    has_truncate: bool = False
    untold: Untold | None = None

    @property
    def is_delete(self) -> np.ndarray:
        return self.row_of < 0

    @property
    def keys(self) -> pa.Table:
        return self.all_keys.take(self.lasts)


@per_object
def key_columns(table: TableVersion, rules: UpsertRules) -> tuple[Column, ...]:
    """Return the columns that rows are told apart by; raise InvalidInput for one that cannot be a key."""
    found = tuple(_column_of(table, name, "key") for name in rules.keys)
    for column in found:
        if column.kind not in _KEY_KINDS or column.type == "json":
            raise InvalidInput(
                f"column '{column.name}' of '{table.qualified_name}' is of type '{column.type}', which cannot be a key:"
                " two values of it may be equal and not the same",
                column=column.name,
            )
    return found


def sequence_columns(table: TableVersion, data: pa.Schema, rules: UpsertRules) -> tuple[Column, ...]:
    """Return the columns that order events: as the table has them, or as the events do where the table lacks them."""
    if not rules.sequence_by:
        return ()
    excepted = {fold(name) for name in rules.except_columns}
    wanted = {fold(name) for name in rules.sequence_by}
    own = {fold(c.name): c for c in build_columns(pa.schema([field for field in data if fold(field.name) in wanted]))}
    found = []
    for name in rules.sequence_by:
        column = own.get(fold(name)) if fold(name) in excepted else _column_of(table, name, "sequence")
        if column is None:
            raise _lacks(table, name)
        if column.kind not in _KEY_KINDS:
            raise InvalidInput(f"column '{name}' is of type '{column.type}', which has no order for sequence_by")
        found.append(column)
    return tuple(found)


def is_kept_in_table(table: TableVersion, rules: UpsertRules) -> bool:
    """Tell whether rows hold their sequence themselves."""
    excepted = {fold(name) for name in rules.except_columns}
    inside = [fold(name) not in excepted and table.column(name) is not None for name in rules.sequence_by]
    if any(inside) and not all(inside):
        raise InvalidInput("sequence_by names columns of the table and others: use all of one kind")
    return all(inside)


@dataclass(frozen=True, slots=True, eq=False)
class Arrived:
    """The events of a batch that are after its last truncate, in the order in which they came.

    `places`: where each was in the batch.
    """

    data: pa.Table
    places: np.ndarray
    table: TableVersion
    rules: UpsertRules
    all_keys: pa.Table
    index: KeyIndex
    deletes: np.ndarray
    sequence: pa.Table | None
    event_count: int
    has_truncate: bool

    @classmethod
    def of(cls, data: pa.Table, table: TableVersion, rules: UpsertRules) -> Arrived:
        """Look at events; raise InvalidInput for null keys and sequences."""
        _refuse_doubled(table, (data.schema, rules))
        keys, order_columns = key_columns(table, rules), sequence_columns(table, data.schema, rules)
        deletes = np.ones(data.num_rows, bool) if rules.deletes_all else rows_where(data, rules.apply_as_deletes)
        truncates = rows_where(data, rules.apply_as_truncates)
        data, places, is_old = with_old_keys(data, rules.old_keys, keys, table)
        deletes, truncates, count = deletes[places] | is_old, truncates[places] & ~is_old, data.num_rows
        sequence = _conformed(data, order_columns, table, "sequence") if order_columns else None
        after_truncate = None if rules.apply_as_truncates is None else _after_truncate(truncates, sequence)
        if after_truncate is not None:
            data, deletes, places = data.take(after_truncate), deletes[after_truncate], places[after_truncate]
            sequence = None if sequence is None else sequence.take(after_truncate)
        all_keys = _conformed(data, keys, table, "key")
        index = KeyIndex(all_keys.columns)
        return cls(data, places, table, rules, all_keys, index, deletes, sequence, count, after_truncate is not None)

    def last(self, passed_over: np.ndarray | None = None) -> Events:
        """Return the last event of each key; events can be passed over, but not all of a key."""
        data, table, rules, deletes = self.data, self.table, self.rules, self.deletes
        order = _order(self.index.numbers, self.sequence)
        if passed_over is not None:
            order = order[~passed_over[order]]
        history = _History.of(self.index.numbers[order], deletes[order])
        ends = order[history.ends]
        kept = np.flatnonzero(~deletes[ends])
        row_of = np.full(self.index.count, -1)
        row_of[kept] = np.arange(len(kept))
        given = _given_columns(table, (data.schema, rules))
        rows, cells = _rows(data, given, order, history.only(kept), rules)
        says_part = rules.ignore_null_updates or bool(cells)
        return Events(
            self.index,
            self.all_keys,
            ends,
            conform(rows, _relaxed(given) if says_part else given, table.qualified_name),
            row_of,
            history.has_delete_before,
            None if self.sequence is None else self.sequence.take(ends),
            self.event_count,
            self.has_truncate,
            Untold(cells, self.places[order], history.begins, history.ends) if cells else None,
        )

    def keys(self) -> pa.Table:
        """Return the keys, by their numbers."""
        return self.all_keys.take(np.unique(self.index.numbers, return_index=True)[1])

    def rows(self) -> pa.Table:
        """Return what each event that is no delete brings, with all columns of the table."""
        names, brings = {fold(name): name for name in self.data.column_names}, pa.array(~self.deletes)
        given = _given_columns(self.table, (self.data.schema, self.rules))
        found = [self.data.column(names[fold(c.name)]).filter(brings) for c in given]
        rows = pa.table(found, names=[c.name for c in given])
        return conform(rows, self.table.columns, self.table.qualified_name, fill_missing=self.rules.fill_missing)


@dataclass(frozen=True, slots=True, eq=False)
class _History:
    """Events in order, key by key: where each key ends, and where the part of it begins that no delete precedes."""

    ends: np.ndarray
    begins: np.ndarray
    has_delete_before: np.ndarray

    @classmethod
    def of(cls, numbers: np.ndarray, deletes: np.ndarray) -> _History:
        is_first, is_last, follows_delete = np.ones((3, len(numbers)), bool)
        is_first[1:] = numbers[1:] != numbers[:-1]
        is_last[:-1] = is_first[1:]
        follows_delete[:1], follows_delete[1:] = False, deletes[:-1]
        begins = np.maximum.accumulate(np.where(is_first | follows_delete, np.arange(len(numbers)), 0))
        ends = is_last.nonzero()[0]
        return cls(ends, begins[ends], begins[ends] > is_first.nonzero()[0])

    def only(self, kept: np.ndarray) -> _History:
        if len(kept) == len(self.ends):
            return self
        return _History(self.ends[kept], self.begins[kept], self.has_delete_before[kept])


def _rows(
    data: pa.Table, given: tuple[Column, ...], order: np.ndarray, history: _History, rules: UpsertRules
) -> tuple[pa.Table, dict[str, np.ndarray]]:
    """Return the rows of the last events, and which values of theirs are not told, by column.

    Where an event says a part of its row, each value is the last one that is told; null where none is.
    """
    untold, arrays, cells = untold_values(data, rules.kept_columns), [], {}
    lasts = order[history.ends]
    is_whole = np.array_equal(lasts, np.arange(data.num_rows))
    if is_whole and rules.says_all and _has_columns(given, data.schema) and _is_single(data):
        return data, {}
    names = {fold(name): name for name in data.column_names}
    for one in given:
        column = data.column(names[fold(one.name)])
        is_told = _told(column, untold.get(fold(one.name)), rules)
        if is_told is None:
            arrays.append(column if is_whole and column.num_chunks == 1 else column.take(lasts))
            continue
        last = np.maximum.accumulate(np.where(is_told[order], np.arange(len(order)), -1))[history.ends]
        is_untold = last < history.begins
        arrays.append(column.take(pa.array(order[last], mask=is_untold)))
        if fold(one.name) in untold and is_untold.any():
            cells[one.name] = is_untold
    return pa.table(arrays, names=[c.name for c in given]), cells


def _told(column: pa.ChunkedArray, untold: np.ndarray | None, rules: UpsertRules) -> np.ndarray | None:
    """Tell which events say something of a column; None: all do."""
    if not rules.ignore_null_updates:
        return None if untold is None else ~untold
    is_valid = single(column.is_valid()).to_numpy(zero_copy_only=False)
    return np.asarray(is_valid if untold is None else is_valid & ~untold)


def _order(numbers: np.ndarray, sequence: pa.Table | None) -> np.ndarray:
    """Return events key by key, each in its order."""
    if sequence is None:
        return np.argsort(numbers, kind="stable")
    sorted_by = [pa.array(numbers), *(plain(single(column)) for column in sequence.columns), np.arange(len(numbers))]
    names = [str(i) for i in range(len(sorted_by))]
    found = pc.sort_indices(pa.table(sorted_by, names=names), sort_keys=[(name, "ascending") for name in names])
    return np.asarray(found.to_numpy())


def _after_truncate(truncates: np.ndarray, sequence: pa.Table | None) -> np.ndarray | None:
    """Return the events that follow on the last truncate, None where there is no truncate."""
    if not truncates.any():
        return None
    order = _order(np.zeros(len(truncates), np.int64), sequence)
    last = int(np.flatnonzero(truncates[order])[-1])
    return np.sort(order[last + 1 :])


def _is_asked_again(asked: _Asked, last: _Asked) -> bool:
    return bool(asked[1] == last[1] and asked[0].equals(last[0]))


@per_object_while_same(_is_asked_again)
def _refuse_doubled(table: TableVersion, asked: _Asked) -> None:
    """Raise SchemaMismatch for two columns of one name, regardless of case, that both would be used."""
    schema, rules = asked
    unused = {fold(name) for name in rules.except_columns} - {fold(name) for name in rules.sequence_by}
    counts = Counter(fold(name) for name in schema.names)
    doubled = [name for name in schema.names if counts[fold(name)] > 1 and fold(name) not in unused]
    if doubled:
        message = f"the events for '{table.qualified_name}' have column '{doubled[0]}' twice"
        raise SchemaMismatch(message, columns=doubled)


@per_object_while_same(_is_asked_again)
def _given_columns(table: TableVersion, asked: _Asked) -> tuple[Column, ...]:
    """Return the table's columns that events bring; raise SchemaMismatch for what does not fit."""
    schema, rules = asked
    excepted = {fold(name) for name in rules.except_columns}
    names = {fold(name) for name in schema.names} - excepted
    unknown = [n for n in schema.names if fold(n) in names and table.column(n) is None]
    given = tuple(c for c in table.columns if fold(c.name) in names)
    if unknown:
        raise SchemaMismatch(
            f"table '{table.qualified_name}' has no column '{unknown[0]}': name it in except_columns, or add it",
            columns=unknown,
        )
    missing = [c.name for c in table.columns if fold(c.name) not in names]
    if missing and not rules.fill_missing:
        raise SchemaMismatch(
            f"the events for '{table.qualified_name}' lack column '{missing[0]}': add it, or use fill_missing, which"
            " keeps the values that rows have",
            columns=missing,
        )
    return given


@per_object
def _relaxed(columns: tuple[Column, ...]) -> tuple[Column, ...]:
    """Return columns of which each may be null."""
    return tuple(replace(c, nulls_allowed=True) for c in columns)


@per_object_while_same(pa.Schema.equals)
def _has_columns(columns: tuple[Column, ...], schema: pa.Schema) -> bool:
    """Tell whether data has the columns alone, in their order."""
    return bool(schema.names == [c.name for c in columns])


def _is_single(data: pa.Table) -> bool:
    return all(column.num_chunks == 1 for column in data.columns)


def _conformed(data: pa.Table, columns: Sequence[Column], table: TableVersion, role: str) -> pa.Table:
    """Return key or sequence columns in their types, none of them null."""
    names = {fold(name): name for name in data.column_names}
    arrays = []
    for column in columns:
        if fold(column.name) not in names:
            raise _lacks(table, column.name)
        array = conform_column(data.column(names[fold(column.name)]), column, table.qualified_name)
        _refuse_nulls(array, column, table, role)
        arrays.append(array)
    return pa.table(arrays, names=[c.name for c in columns])


def _refuse_nulls(array: pa.ChunkedArray, column: Column, table: TableVersion, role: str) -> None:
    if array.null_count:
        rows = np.flatnonzero(single(array.is_null()).to_numpy(zero_copy_only=False))[:_SHOWN].tolist()
        raise InvalidInput(
            f"{array.null_count} events for '{table.qualified_name}' have a null in the {role} column '{column.name}',"
            f" the first in rows {rows} of the batch: nobody can tell which rows they are about",
            column=column.name,
            rows=rows,
        )


def _column_of(table: TableVersion, name: str, role: str) -> Column:
    column = table.column(name)
    if column is None:
        raise SchemaMismatch(f"table '{table.qualified_name}' has no {role} column '{name}'", columns=[name])
    return column


def _lacks(table: TableVersion, name: str) -> SchemaMismatch:
    return SchemaMismatch(f"the events for '{table.qualified_name}' lack column '{name}'", columns=[name])
