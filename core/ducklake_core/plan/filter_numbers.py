"""Numbers of a filter, compared exactly with integers and decimals, whatever the column's type can hold. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_FLOOR, Decimal, InvalidOperation, localcontext

import pyarrow as pa

from ducklake_core.errors import InvalidInput
from ducklake_core.plan.predicates import Comparison, FieldRef, Operator, Predicate, UnlessNull
from ducklake_core.spec.kinds import EXACT_NUMBERS, Kind, decimal_parameters, kind_of
from ducklake_core.spec.types import scalar_arrow_type


@dataclass(frozen=True, slots=True)
class Number:
    """A number literal; `is_double` if written with an exponent or cast to double: DuckDB compares it as one."""

    value: Decimal
    is_double: bool = False


def parse_number(text: str) -> Number:
    """Parse a number as SQL writes it, or the text of one, `nan` and `inf` included."""
    try:
        value = Decimal(text)
    except InvalidOperation:
        raise InvalidInput(f"'{text}' is not a number") from None
    # DuckDB reads what has a point as a decimal, unless it has more digits than a decimal can.
    is_long = "." in text and len(value.as_tuple().digits) > 38
    return Number(value, is_double="e" in text.lower() or is_long or not value.is_finite())


def is_exact(type_: str) -> bool:
    """Tell whether a type's values are integers or decimals."""
    return kind_of(type_) in EXACT_NUMBERS


def compare_numbers(left: Number, operator: Operator, right: Number) -> bool:
    """Compare two literals, as in `1 = 1`."""
    return _sign(left.value - right.value) in _SIGNS[operator]


def compare_exact(field: FieldRef, operator: Operator, number: Number) -> Predicate:
    """Compare with a number that the type may not hold: `i < 1.5` is `i <= 1`, `tiny < 1000` is always so."""
    value = _exact_value(field, number)
    low, high, step = _domain(field.type)
    below = _floor(value, step)
    if below == value and low <= value <= high:
        return Comparison(field, operator, _exact_scalar(field.type, value))
    if operator in (Operator.EQ, Operator.NE):
        return UnlessNull(field, operator is Operator.NE)
    is_upper = operator in (Operator.LT, Operator.LE)
    if below < low or below >= high:
        return UnlessNull(field, is_upper == (below >= high))
    return Comparison(field, Operator.LE if is_upper else Operator.GT, _exact_scalar(field.type, below))


def cast_number(number: Number, type_: str) -> Number:
    """Return the number as an exact type or a double; raise InvalidInput where that changes its value."""
    if type_ == "float64":
        return Number(number.value, is_double=True)
    low, high, step = _domain(type_)
    if not low <= number.value <= high or _floor(number.value, step) != number.value:
        raise InvalidInput(f"{number.value} is no value of type '{type_}'")
    return Number(number.value)


_INTEGERS = {f"{sign}int{bits}": (sign == "", bits) for sign in ("", "u") for bits in (8, 16, 32, 64, 128)}
_DOUBLE_EXACT = 2**52  # below it, an integer and a double compare as their exact values do
_SIGNS = {
    Operator.EQ: (0,),
    Operator.NE: (-1, 1),
    Operator.LT: (-1,),
    Operator.LE: (-1, 0),
    Operator.GT: (1,),
    Operator.GE: (0, 1),
}


def _sign(value: Decimal) -> int:
    return (value > 0) - (value < 0)


def _domain(type_: str) -> tuple[Decimal, Decimal, Decimal]:
    """Return the least and the greatest value of an exact type and the distance of two."""
    parameters = decimal_parameters(type_)
    if parameters is not None:
        precision, scale = parameters
        with localcontext(prec=100):
            high = Decimal(f"{10**precision - 1}E-{scale}")  # exact; arithmetic would round to 28 digits
        return -high, high, Decimal(1).scaleb(-scale)
    is_signed, bits = _INTEGERS[type_]
    bounds = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if is_signed else (0, 2**bits - 1)
    return Decimal(bounds[0]), Decimal(bounds[1]), Decimal(1)


def _floor(value: Decimal, step: Decimal) -> Decimal:
    """Return the greatest multiple of the step that is not greater; far beyond any type's digits it is the value."""
    if value.adjusted() > 80:
        return value
    with localcontext(prec=1000):
        return (value / step).to_integral_value(ROUND_FLOOR) * step


def _exact_value(field: FieldRef, number: Number) -> Decimal:
    """Return the number; refuse a double where DuckDB would compare values that it has rounded."""
    value = number.value
    is_rounded = not value.is_finite() or abs(value) >= _DOUBLE_EXACT
    if number.is_double and (is_rounded or field.kind is not Kind.INTEGER):
        raise InvalidInput(
            f"number {value} compares with column '{'.'.join(field.path)}' of type '{field.type}' as a double, which"
            " is inexact: write it without an exponent"
        )
    return value


def _exact_scalar(type_: str, value: Decimal) -> pa.Scalar:
    with localcontext(prec=100):
        is_decimal = pa.types.is_decimal(scalar_arrow_type(type_))
        return pa.scalar(value if is_decimal else int(value), scalar_arrow_type(type_))
