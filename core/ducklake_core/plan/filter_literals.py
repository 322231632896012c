"""Literals of a filter and what they mean beside a field: as in DuckDB, or refused. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa

from ducklake_core.errors import CorruptCatalog, InvalidInput
from ducklake_core.plan.filter_numbers import Number, cast_number, compare_exact, is_exact, parse_number
from ducklake_core.plan.predicates import Comparison, Constant, FieldComparison, FieldRef, IsIn, Operator, Predicate
from ducklake_core.spec.kinds import NESTED, UNORDERED, Kind, decimal_parameters
from ducklake_core.spec.text import parse_literal
from ducklake_core.spec.types import scalar_arrow_type


@dataclass(frozen=True, slots=True)
class Text:
    """A quoted text; `type` is what it was cast to, None to take the field's type."""

    value: str
    type: str | None = None


Literal: TypeAlias = Number | Text | bool


def compare(field: FieldRef, operator: Operator, literal: Literal) -> Predicate:
    """Return the comparison; raise InvalidInput when the field's type has no such literal."""
    if field.kind in _UNCOMPARABLE:
        raise InvalidInput(f"column '{_name(field)}' of type '{field.type}' can only be tested for NULL in a filter")
    if isinstance(literal, Number) and is_exact(field.type):
        return compare_exact(field, operator, literal)
    return Comparison(field, operator, _scalar(field, literal))


def compare_fields(left: FieldRef, operator: Operator, right: FieldRef) -> Predicate:
    """Return the comparison of two fields; raise InvalidInput when their types have no common one."""
    type_ = None if {left.kind, right.kind}.intersection(_UNCOMPARABLE) else _common_type(left.type, right.type)
    if type_ is None:
        raise InvalidInput(
            f"cannot compare column '{_name(left)}' of type '{left.type}' with '{_name(right)}' of type '{right.type}'"
        )
    return FieldComparison(left, operator, right, type_)


def is_in(field: FieldRef, literals: Sequence[Literal], *, has_null: bool) -> Predicate:
    """Return `field IN (literals)`; there is at least one."""
    parts = [compare(field, Operator.EQ, literal) for literal in unify(literals)]
    values = tuple(part.value for part in parts if isinstance(part, Comparison))
    if values:
        return IsIn(field, values, has_null)
    # The type has none of these values.
    return Constant(None) if has_null else parts[0]


def unify(literals: Sequence[Literal]) -> list[Literal]:
    """Make all numbers doubles if one is: DuckDB compares a list, or the ends of a range, in one type."""
    if not any(isinstance(literal, Number) and literal.is_double for literal in literals):
        return list(literals)
    return [Number(literal.value, is_double=True) if isinstance(literal, Number) else literal for literal in literals]


def cast_literal(literal: Literal, type_: str) -> Literal:
    """Return a literal as a type; raise InvalidInput where the cast would change its value."""
    is_number = is_exact(type_) or type_ == "float64"
    if isinstance(literal, Text) and not is_number:
        return Text(literal.value, type_)
    if isinstance(literal, bool) or not is_number:
        raise InvalidInput(f"a cast of {_shown(literal)} to '{type_}' is not supported: write the literal itself")
    return cast_number(parse_number(literal.value) if isinstance(literal, Text) else literal, type_)


# Nested types, and those whose order Arrow does not know.
_UNCOMPARABLE = (*NESTED, *UNORDERED)
_TIMESTAMPS = ("timestamp", "timestamp_s", "timestamp_ms", "timestamp_ns")
# Types of literals that a field of another type takes by their text: those that it widens.
_WIDENED: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(_TIMESTAMPS, ("date", *_TIMESTAMPS)),
    "timestamptz": ("date", *_TIMESTAMPS),
    "json": ("varchar",),
}
_INT64_HOLDS = frozenset({"int8", "int16", "int32", "int64", "uint8", "uint16", "uint32"})


def _scalar(field: FieldRef, literal: Literal) -> pa.Scalar:
    if isinstance(literal, Text):
        return _text_scalar(field, literal)
    if isinstance(literal, bool) and field.kind is Kind.BOOLEAN:
        return pa.scalar(literal)
    if isinstance(literal, Number) and field.is_float:
        # DuckDB rounds a decimal literal to float32, but widens the field to meet a double.
        type_ = pa.float64() if literal.is_double else scalar_arrow_type(field.type)
        return pa.scalar(float(literal.value), pa.float64()).cast(type_, safe=False)
    raise InvalidInput(f"cannot compare column '{_name(field)}' of type '{field.type}' with {_shown(literal)}: {_HINT}")


_HINT = "give a literal of the column's type, such as '2024-01-31' for a date"


def _text_scalar(field: FieldRef, literal: Text) -> pa.Scalar:
    if literal.type not in (None, field.type, *_WIDENED.get(field.type, ())):
        raise InvalidInput(
            f"cannot compare column '{_name(field)}' of type '{field.type}' with a '{literal.type}': {_HINT}"
        )
    try:
        scalar = parse_literal(literal.value, field.column)
    except (CorruptCatalog, ValueError, OverflowError) as error:
        raise InvalidInput(
            f"cannot compare column '{_name(field)}' of type '{field.type}' with {_shown(literal)},"
            " which is no value of that type"
        ) from error
    return scalar.value if isinstance(scalar, pa.ExtensionScalar) else scalar


def _common_type(left: str, right: str) -> pa.DataType | None:
    """Return the Arrow type in which fields of two types are compared without loss, None when there is none."""
    if left == right:
        type_ = scalar_arrow_type(left)
        return type_.storage_type if isinstance(type_, pa.BaseExtensionType) else type_
    if {left, right} <= _INT64_HOLDS:
        return pa.int64()
    if {left, right} == {"float32", "float64"}:
        return pa.float64()
    one, two = decimal_parameters(left), decimal_parameters(right)
    if one is None or two is None:
        return None
    scale = max(one.scale, two.scale)
    return pa.decimal256(max(one.whole_digits, two.whole_digits) + scale, scale)


def _name(field: FieldRef) -> str:
    return ".".join(field.path)


def _shown(literal: Literal) -> str:
    return str(literal).upper() if isinstance(literal, bool) else f"'{literal.value}'"
