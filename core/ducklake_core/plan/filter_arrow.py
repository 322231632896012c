"""Filters for Arrow: the expression that keeps the rows DuckDB would keep. Pure; runs everywhere."""

from __future__ import annotations

from functools import cache, reduce
from typing import assert_never

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ducklake_core.errors import InvalidInput
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
    referenced_columns,
)
from ducklake_core.spec.types import scalar_arrow_type


def to_arrow(predicate: Predicate) -> pc.Expression:  # noqa: C901, PLR0911 # one case per kind of predicate
    """Return an expression for Arrow data whose top-level columns have the table's names and types."""
    match predicate:
        case And(parts):
            return reduce(lambda one, two: one & two, map(to_arrow, parts))
        case Or(parts):
            return reduce(lambda one, two: one | two, map(to_arrow, parts))
        case Not(part):
            return ~to_arrow(part)
        case Comparison(field, operator, value):
            return _compare_float(field, operator, value) if field.is_float else _compare(_ref(field), operator, value)
        case FieldComparison():
            return _compare_fields(predicate)
        case IsIn():
            return _is_in(predicate)
        case IsNull(field):
            return pc.field(*field.path).is_null()
        case Like(field, pattern):
            # Arrow escapes by a backslash, DuckDB by nothing.
            return pc.match_like(_ref(field), pattern.replace("\\", "\\\\"))
        case UnlessNull(field, outcome):
            return pc.if_else(pc.field(*field.path).is_valid(), outcome, _null())
        case Constant(constant):
            return pc.scalar(pa.scalar(constant, pa.bool_()))
        case _:
            assert_never(predicate)


def matches(rows: pa.Table, predicate: Predicate | None) -> np.ndarray:
    """Return the indices of the rows that a filter keeps."""
    if predicate is None:
        return np.arange(rows.num_rows)
    numbered = rows.append_column(_INDEX, pa.array(np.arange(rows.num_rows)))
    return np.asarray(numbered.filter(to_arrow(predicate)).column(_INDEX).to_numpy())


def refuse_others(rows: pa.Table, predicate: Predicate | None, table: str) -> None:
    """Raise InvalidInput if some rows that are to replace what a filter keeps would not be kept by it themselves."""
    if predicate is None:
        return
    kept = matches(rows, predicate)
    if len(kept) == rows.num_rows:
        return
    first = int(np.setdiff1d(np.arange(rows.num_rows), kept)[0])
    shown = rows.select(sorted(referenced_columns(predicate))).slice(first, 1).to_pylist()[0]
    raise InvalidInput(
        f"{rows.num_rows - len(kept)} of {rows.num_rows} rows for table '{table}' do not match the filter of what they "
        f"are to replace, such as one with {shown}: leave them out, or write them by themselves"
    )


_INDEX = "\0index"  # no column can have such a name


def _ref(field: FieldRef) -> pc.Expression:
    """Return a reference to the field, extension types as their storage."""
    type_ = scalar_arrow_type(field.type)
    reference = pc.field(*field.path)
    return reference.cast(type_.storage_type) if isinstance(type_, pa.BaseExtensionType) else reference


def _compare(left: pc.Expression, operator: Operator, right: pc.Expression | pa.Scalar) -> pc.Expression:
    match operator:
        case Operator.EQ:
            return left == right
        case Operator.NE:
            return left != right
        case Operator.LT:
            return left < right
        case Operator.LE:
            return left <= right
        case Operator.GT:
            return left > right
        case Operator.GE:
            return left >= right
        case _:
            assert_never(operator)


def _compare_float(field: FieldRef, operator: Operator, value: pa.Scalar) -> pc.Expression:
    """Compare with a literal; Arrow answers false to every comparison with NaN except `<>`."""
    reference = _ref(field)
    is_nan = pc.is_nan(reference)
    if value.as_py() == value.as_py():
        expression = _compare(reference, operator, value)
        return expression | is_nan if operator in (Operator.GT, Operator.GE) else expression
    match operator:
        case Operator.EQ | Operator.GE:
            return is_nan
        case Operator.NE | Operator.LT:
            return ~is_nan
        case Operator.LE:
            return is_nan | ~is_nan  # true, but NULL for null
        case Operator.GT:
            return is_nan & ~is_nan
        case _:
            assert_never(operator)


def _compare_fields(predicate: FieldComparison) -> pc.Expression:
    left, right = (_ref(field) for field in (predicate.left, predicate.right))
    if not predicate.left.is_float:
        return _compare(left.cast(predicate.type), predicate.operator, right.cast(predicate.type))
    match predicate.operator:
        case Operator.EQ:
            return (left == right) | (pc.is_nan(left) & pc.is_nan(right))
        case Operator.LT:
            return (left < right) | (~pc.is_nan(left) & pc.is_nan(right))
        case Operator.GT:
            return (left > right) | (pc.is_nan(left) & ~pc.is_nan(right))
        case operator:
            positive = FieldComparison(predicate.left, operator.negated, predicate.right, predicate.type)
            return ~_compare_fields(positive)


@cache
def _null() -> pa.Scalar:  # made when needed: the first value that Arrow makes of Python's imports pandas
    return pa.scalar(None, pa.bool_())


def _is_in(predicate: IsIn) -> pc.Expression:
    if predicate.field.is_float:  # Arrow's sets tell -0.0 from 0.0
        parts = tuple(Comparison(predicate.field, Operator.EQ, value) for value in predicate.values)
        found = to_arrow(Or(parts))
    else:
        reference = _ref(predicate.field)
        found = reference.isin(pa.array(predicate.values, predicate.values[0].type))
        found = pc.if_else(reference.is_valid(), found, _null())
    return found | pc.scalar(_null()) if predicate.has_null else found
