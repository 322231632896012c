"""Changes that cannot be applied to a table, found one by one and kept with the reason. Pure; runs on the driver."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from ducklake_core.errors import SchemaMismatch, UntoldValue
from ducklake_core.model import Column
from ducklake_core.plan.conform import conform
from ducklake_core.spec.names import fold
from ducklake_core.spec.utf8 import refuse_invalid_text
from ducklake_core.upsert.history_columns import START_AT
from ducklake_core.upsert.untold import untold_values
from ducklake_sinks.bad_rows import bad_rows, divided
from ducklake_sinks.change_rules import IS_DELETE, IS_TRUNCATE, ChangeRules
from ducklake_sinks.dead_letters import RECORD_COLUMN, BadRow


def fitting_changes(
    data: pa.Table, columns: Sequence[Column], table_name: str, rules: ChangeRules
) -> tuple[pa.Table, list[BadRow]]:
    """Return the changes that can be applied, and the others: without key or sequence, or not fit for the table."""
    placed, nameless = _with_keys(data, table_name, rules)
    check = _Check(columns, table_name, rules)
    good, unfit = divided(placed, check)
    return good, [*nameless, *map(_without_marks, unfit)]


def told_changes(data: pa.Table, error: UntoldValue) -> tuple[pa.Table, list[BadRow]]:
    """Return the changes without those that leave out a value of a row which the table does not have, and these."""
    is_bad = np.zeros(data.num_rows, bool)
    is_bad[error.rows] = True
    names = ", ".join(f"'{name}'" for name in error.columns)
    reason = f"the table has no row with this key, and the change does not tell all of its values: not those of {names}"
    bad = bad_rows(data.filter(pa.array(is_bad)), [reason] * int(is_bad.sum()))
    return data.filter(pa.array(~is_bad)), [*map(_without_marks, bad)]


class _Check:
    """Returns changes as they are, or raises what is wrong with one of them.

    Of all the key and the sequence are looked at, of those that bring a row the rest, too.
    """

    def __init__(self, columns: Sequence[Column], table_name: str, rules: ChangeRules) -> None:
        excepted = {fold(name) for name in rules.except_columns}
        named = {fold(name) for name in (*rules.keys, *rules.sequence_by)}
        self._table_name, self._deletes_all, self._named = table_name, rules.deletes_all, named
        self._kept_columns = rules.kept_columns
        self._stored = {fold(c.name): _relaxed(c, rules) for c in columns if fold(c.name) not in excepted}
        start = self._stored.get(fold(START_AT))
        if rules.keeps_history and start is not None:  # which gets the sequence, also where the table does not
            self._stored.setdefault(fold(rules.sequence_by[0]), replace(start, name=rules.sequence_by[0]))

    def __call__(self, part: pa.Table) -> pa.Table:
        refuse_invalid_text(part.select([name for name in part.column_names if fold(name) in self._named]), None)
        self._conform(part, self._named)
        if not self._deletes_all:
            brings_row = ~_any(part, (IS_DELETE, IS_TRUNCATE))
            self._conform_told(part.filter(pa.array(brings_row)))
        return part

    def _conform_told(self, part: pa.Table) -> None:
        """Look at the values of changes that bring a row; those that a change does not tell are no values."""
        untold = untold_values(part, self._kept_columns)
        for name, mask in untold.items():
            self._conform(part.filter(pa.array(~mask)), {name})
        self._conform(part, set(self._stored) - set(untold))

    def _conform(self, part: pa.Table, wanted: set[str]) -> None:
        names = [name for name in part.column_names if name != RECORD_COLUMN and fold(name) in wanted]
        rows = part.select([name for name in names if fold(name) in self._stored])
        conform(rows, [self._stored[fold(name)] for name in rows.column_names], self._table_name)


def _relaxed(column: Column, rules: ChangeRules) -> Column:
    """Return a column as changes have it: a null may say that the row keeps its value."""
    return replace(column, nulls_allowed=True) if rules.ignore_null_updates else column


def _with_keys(data: pa.Table, table_name: str, rules: ChangeRules) -> tuple[pa.Table, list[BadRow]]:
    """Part the changes that lack a key or a sequence; one that truncates needs no key."""
    names, reasons = {fold(name): name for name in data.column_names}, np.full(data.num_rows, None, object)
    truncates = _any(data, (IS_TRUNCATE,))
    for role, wanted in (("sequence", rules.sequence_by), ("key", rules.keys)):
        for column in wanted:
            if fold(column) not in names:
                raise SchemaMismatch(
                    f"the changes for '{table_name}' lack the {role} column '{column}'", columns=[column]
                )
            is_null = data.column(names[fold(column)]).is_null().to_numpy()
            reasons[is_null & ~(truncates & (role == "key"))] = f"a null in the {role} column '{column}'"
    is_bad = reasons != None  # noqa: E711 # of each element
    if not is_bad.any():
        return data, []
    shown = data.drop_columns([mark for mark in (IS_DELETE, IS_TRUNCATE) if mark in data.column_names])
    return data.filter(pa.array(~is_bad)), bad_rows(shown.filter(pa.array(is_bad)), reasons[is_bad].tolist())


def _without_marks(bad: BadRow) -> BadRow:
    return replace(bad, row={name: v for name, v in bad.row.items() if name not in (IS_DELETE, IS_TRUNCATE)})


def _any(data: pa.Table, marks: Sequence[str]) -> np.ndarray:
    found = np.zeros(data.num_rows, bool)
    for mark in marks:
        if mark in data.column_names:
            found |= data.column(mark).to_numpy().astype(bool)
    return found
