"""Which data files cannot hold a row that a filter keeps, by their statistics and partition values. Pure.

Says False only if that is certain. For every condition two questions are answered: may some row make it true, may some
row make it false; NOT exchanges the two answers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, assert_never

import pyarrow as pa

from ducklake_core.model import ColumnId, ColumnStats, DataFile, TableVersion
from ducklake_core.plan.file_facts import FieldFacts, Range, field_facts, may_be_transformed
from ducklake_core.plan.order import key_of_scalar
from ducklake_core.plan.predicates import (
    And,
    Comparison,
    Constant,
    FieldComparison,
    FieldRef,
    IsIn,
    IsNull,
    Like,
    Not,
    Operator,
    Or,
    Predicate,
    UnlessNull,
)


def may_match(predicate: Predicate, stats: Mapping[ColumnId, ColumnStats], table: TableVersion, file: DataFile) -> bool:
    """Tell whether the file may hold a row that the filter keeps; False is certain.

    `stats` are the file's, by column id. Columns without statistics, and files of an older partitioning, are kept.
    """

    def facts_of(field: FieldRef) -> FieldFacts:
        return field_facts(field.column, stats.get(field.column.column_id), table, file)

    return _Judge(facts_of).outcomes(predicate).true


class Outcomes(NamedTuple):
    """Whether some row may make a condition true, and whether some may make it false."""

    true: bool
    false: bool


@dataclass(frozen=True, slots=True)
class _Judge:
    facts_of: Callable[[FieldRef], FieldFacts]

    def outcomes(self, predicate: Predicate) -> Outcomes:  # noqa: C901, PLR0911 # one case per kind of predicate
        match predicate:
            case And(parts):
                judged = [self.outcomes(part) for part in parts]
                return Outcomes(all(one.true for one in judged), any(one.false for one in judged))
            case Or(parts):
                judged = [self.outcomes(part) for part in parts]
                return Outcomes(any(one.true for one in judged), all(one.false for one in judged))
            case Not(part):
                judged_part = self.outcomes(part)
                return Outcomes(judged_part.false, judged_part.true)
            case Constant(value):
                return Outcomes(value is True, value is False)
            case IsNull(field):
                facts = self.facts_of(field)
                return Outcomes(facts.may_have_nulls, facts.may_have_values)
            case UnlessNull(field, outcome):
                has_values = self.facts_of(field).may_have_values
                return Outcomes(outcome and has_values, not outcome and has_values)
            case Comparison(field, operator, value):
                return self._comparison(field, operator, (value,), has_null=False)
            case IsIn(field, values, has_null):
                return self._comparison(field, Operator.EQ, values, has_null=has_null)
            case FieldComparison():
                return self._field_comparison(predicate)
            case Like(field, pattern):
                return _like(self.facts_of(field), pattern)
            case _:
                assert_never(predicate)

    def _comparison(
        self, field: FieldRef, operator: Operator, values: tuple[pa.Scalar, ...], *, has_null: bool
    ) -> Outcomes:
        """Judge whether some value compares so: true if one does, false if none does and there is no NULL."""
        facts = self.facts_of(field)
        if not facts.may_have_values:
            return Outcomes(true=False, false=False)
        return Outcomes(
            any(_may_compare(facts, field, operator, value) for value in values),
            not has_null and all(_may_compare(facts, field, operator.negated, value) for value in values),
        )

    def _field_comparison(self, predicate: FieldComparison) -> Outcomes:
        left, right = self.facts_of(predicate.left), self.facts_of(predicate.right)
        if not (left.may_have_values and right.may_have_values):
            return Outcomes(true=False, false=False)
        return Outcomes(
            _may_hold(left.range, predicate.operator, right.range),
            _may_hold(left.range, predicate.operator.negated, right.range),
        )


def _may_compare(facts: FieldFacts, field: FieldRef, operator: Operator, value: pa.Scalar) -> bool:
    key = key_of_scalar(value, field.type)
    if not _may_hold(facts.range, operator, Range(key, key)):
        return False
    return operator is not Operator.EQ or may_be_transformed(facts, field.column, value)


def _may_hold(left: Range, operator: Operator, right: Range) -> bool:
    """Tell whether some pair of values from two ranges compares so."""
    match operator:
        case Operator.EQ:
            return _may_hold(left, Operator.LE, right) and _may_hold(left, Operator.GE, right)
        case Operator.NE:
            ends = (left.low, left.high, right.low, right.high)
            return None in ends or any(end != ends[0] for end in ends)
        case Operator.LT:
            return left.low is None or right.high is None or bool(left.low < right.high)
        case Operator.LE:
            return left.low is None or right.high is None or bool(left.low <= right.high)
        case Operator.GT | Operator.GE:
            return _may_hold(right, operator.flipped, left)
        case _:
            assert_never(operator)


def _like(facts: FieldFacts, pattern: str) -> Outcomes:
    prefix = re.split("[%_]", pattern, maxsplit=1)[0]
    low, high = facts.range.low, facts.range.high
    is_inside = (high is None or high >= prefix) and (low is None or low[: len(prefix)] <= prefix)
    return Outcomes(facts.may_have_values and is_inside, facts.may_have_values)
