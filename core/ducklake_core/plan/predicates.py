"""Filters as values: what a row must fulfil, with DuckDB's meaning. Pure; runs everywhere.

`plan/filter_sql.py` builds them from SQL, `plan/filter_arrow.py` applies them to rows, and `plan/pruning.py` decides
by them which files need not be read.
The logic is three-valued. Floats are totally ordered: NaN equals NaN and is the greatest, -0.0 equals 0.0.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

import pyarrow as pa

from ducklake_core.model import Column
from ducklake_core.spec.kinds import Kind


class Operator(Enum):
    """A comparison."""

    EQ = "="
    NE = "<>"
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="

    @property
    def flipped(self) -> Operator:
        """Return the operator for exchanged sides."""
        return _FLIPPED.get(self, self)

    @property
    def negated(self) -> Operator:
        return _NEGATED[self]


_FLIPPED = {Operator.LT: Operator.GT, Operator.GT: Operator.LT, Operator.LE: Operator.GE, Operator.GE: Operator.LE}
_NEGATED = {
    Operator.EQ: Operator.NE,
    Operator.NE: Operator.EQ,
    Operator.LT: Operator.GE,
    Operator.GE: Operator.LT,
    Operator.GT: Operator.LE,
    Operator.LE: Operator.GT,
}


@dataclass(frozen=True, slots=True)
class FieldRef:
    """A column or a field of a struct, with its path of names from the top-level column."""

    column: Column
    path: tuple[str, ...]

    @property
    def type(self) -> str:
        return self.column.type

    @property
    def kind(self) -> Kind:
        return self.column.kind

    @property
    def is_float(self) -> bool:
        return self.kind is Kind.FLOAT


@dataclass(frozen=True, slots=True)
class Comparison:
    """`field operator value`; the value is not null, of the field's type, or float64 for a float32 field.

    Values of extension types (uuid, json) are in their storage type.
    """

    field: FieldRef
    operator: Operator
    value: pa.Scalar


@dataclass(frozen=True, slots=True)
class FieldComparison:
    """`left operator right`, of fields whose values Arrow can compare after a cast to `type`."""

    left: FieldRef
    operator: Operator
    right: FieldRef
    type: pa.DataType


@dataclass(frozen=True, slots=True)
class IsIn:
    """`field IN (values)`, or NULL instead of false when the list also had a NULL."""

    field: FieldRef
    values: tuple[pa.Scalar, ...]
    has_null: bool = False


@dataclass(frozen=True, slots=True)
class IsNull:
    """`field IS NULL`; the field may be nested."""

    field: FieldRef


@dataclass(frozen=True, slots=True)
class Like:
    """`field LIKE pattern` of a varchar: `%` is any text, `_` one character, nothing escapes."""

    field: FieldRef
    pattern: str


@dataclass(frozen=True, slots=True)
class UnlessNull:
    """`outcome` for every value of the field, NULL for null: a comparison with a value outside the field's type."""

    field: FieldRef
    outcome: bool


@dataclass(frozen=True, slots=True)
class Constant:
    """The same for every row; None is NULL."""

    value: bool | None


@dataclass(frozen=True, slots=True)
class And:
    """True if all parts are, false if one is; at least one part."""

    parts: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """True if one part is, false if all are; at least one part."""

    parts: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """The contrary; NULL stays NULL."""

    part: Predicate


Predicate: TypeAlias = Comparison | FieldComparison | IsIn | IsNull | Like | UnlessNull | Constant | And | Or | Not


def referenced_fields(predicate: Predicate) -> Iterator[FieldRef]:
    """Yield every field that the predicate looks at, with repetitions."""
    match predicate:
        case And(parts) | Or(parts):
            for part in parts:
                yield from referenced_fields(part)
        case Not(part):
            yield from referenced_fields(part)
        case FieldComparison(left, _, right):
            yield from (left, right)
        case Constant():
            return
        case _:
            yield predicate.field


def referenced_columns(predicate: Predicate) -> frozenset[str]:
    """Return the names of the top-level columns that the predicate needs."""
    return frozenset(field.path[0] for field in referenced_fields(predicate))


def conjunction(*parts: Predicate) -> Predicate:
    """Return the AND of parts."""
    return parts[0] if len(parts) == 1 else And(parts)


def disjunction(*parts: Predicate) -> Predicate:
    """Return the OR of parts."""
    return parts[0] if len(parts) == 1 else Or(parts)
