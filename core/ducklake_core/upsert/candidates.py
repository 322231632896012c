"""Which data files may hold a key of the batch, by their statistics and partition values. Pure.

Says no only if that is certain. The keys are sorted once, so that a file costs a look at its bounds and no more.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from ducklake_core.model import Column, ColumnId, ColumnStats, DataFile, TableVersion
from ducklake_core.plan.file_facts import FieldFacts, field_facts, transformed_values
from ducklake_core.plan.order import Key, key_of_scalar
from ducklake_core.spec.kinds import Kind
from ducklake_core.upsert.key_index import KeyIndex


@dataclass(frozen=True, slots=True, eq=False)
class _KeyColumn:
    """The values that a batch has in one key column."""

    column: Column
    values: pa.Array
    ordered: list[Key]
    _transformed: dict[str, set[str | None] | None] = field(default_factory=dict)

    def may_be_in(self, facts: FieldFacts) -> bool:
        low, high = facts.range.low, facts.range.high
        first = 0 if low is None else bisect_left(self.ordered, low)
        end = len(self.ordered) if high is None else bisect_right(self.ordered, high)
        return facts.may_have_values and first < end and self._may_be_partitioned(facts)

    def _may_be_partitioned(self, facts: FieldFacts) -> bool:
        for transform, stored in facts.transformed.items():
            if transform not in self._transformed:
                self._transformed[transform] = transformed_values(self.column, transform, self.values)
            known = self._transformed[transform]
            if known is not None and stored not in known:
                return False
        return True


class Candidates:
    """Tells which files may hold some of a batch's keys."""

    def __init__(self, table: TableVersion, columns: Sequence[Column], index: KeyIndex) -> None:
        self._table = table
        self._columns = [_key_column(column, index.values(place)) for place, column in enumerate(columns)]

    def may_hold(self, file: DataFile, stats: Mapping[ColumnId, ColumnStats]) -> bool:
        """Tell whether a file may hold a row with one of the keys; `stats` are the file's, by column."""
        return self.may_be_in(self.facts(file, stats))

    def facts(self, file: DataFile, stats: Mapping[ColumnId, ColumnStats]) -> tuple[FieldFacts, ...]:
        """Return what is known of a file's values, by the columns of the keys."""
        columns = [known.column for known in self._columns]
        return tuple([field_facts(c, stats.get(c.column_id), self._table, file) for c in columns])

    def may_be_in(self, facts: Sequence[FieldFacts]) -> bool:
        """Tell the same of a file by its facts."""
        return all(known.may_be_in(one) for known, one in zip(self._columns, facts, strict=True))


def _key_column(column: Column, values: pa.Array) -> _KeyColumn:
    if column.kind in (Kind.INTEGER, Kind.TEXT):  # whose values are their own keys
        return _KeyColumn(column, values, sorted(values.to_pylist()))
    return _KeyColumn(column, values, sorted(key_of_scalar(value, column.type) for value in values))
