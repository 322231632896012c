"""Filters from SQL: the part of DuckDB's WHERE that can be decided row by row from columns and literals. Pure.

What is not supported is refused by name, never ignored: a filter decides which rows are deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from ducklake_core.errors import InvalidInput
from ducklake_core.model import Column
from ducklake_core.plan.filter_literals import (
    Literal,
    Text,
    cast_literal,
    compare,
    compare_fields,
    is_in,
    unify,
)
from ducklake_core.plan.filter_numbers import Number, compare_numbers, parse_number
from ducklake_core.plan.predicates import (
    Constant,
    FieldRef,
    IsNull,
    Like,
    Not,
    Operator,
    Predicate,
    conjunction,
    disjunction,
)
from ducklake_core.spec.kinds import Kind
from ducklake_core.spec.names import fold, nearest_name
from ducklake_core.spec.types import parse_type

SUPPORTED = (
    "comparisons of columns and struct fields with literals or with each other, AND, OR, NOT, IN, BETWEEN, LIKE,"
    " IS [NOT] NULL, IS [NOT] TRUE or FALSE, IS [NOT] DISTINCT FROM"
)


def parse_filter(sql: str, columns: Sequence[Column]) -> Predicate:
    """Parse the text of a WHERE clause over a table's columns; raise InvalidInput, which names the piece at fault."""
    try:
        return _predicate(sqlglot.parse_one(sql, dialect="duckdb"), columns)
    except (SqlglotError, RecursionError) as error:
        reason = str(error).partition("\n")[0]  # the parser adds the text again, coloured for a terminal
        raise InvalidInput(f"cannot parse the filter '{sql}': {reason}", filter=sql) from error
    except InvalidInput as error:
        raise InvalidInput(f"cannot use the filter '{sql}': {error.message}", filter=sql) from error


Columns: TypeAlias = Sequence[Column]
Operand: TypeAlias = FieldRef | Literal | None  # None: NULL


def _predicate(node: exp.Expr, columns: Columns) -> Predicate:
    parse = _PREDICATES.get(type(node))
    if parse is None:
        return _condition(_operand(node, columns), node)
    extra = [name for name, value in node.args.items() if value and name not in _KNOWN_ARGUMENTS]
    if extra:
        raise _unsupported(node)
    return parse(node, columns)


def _condition(operand: Operand, node: exp.Expr) -> Predicate:
    """Take a boolean column or constant for a condition."""
    if operand is None or isinstance(operand, bool):
        return Constant(operand)
    if isinstance(operand, FieldRef) and operand.kind is Kind.BOOLEAN:
        return compare(operand, Operator.EQ, literal=True)
    raise InvalidInput(f"'{_sql(node)}' is no condition: it is neither true nor false")


# ------------------------------------------------------------------------------------------ one function per kind


def _parse_and(node: exp.Expr, columns: Columns) -> Predicate:
    return conjunction(*(_predicate(part, columns) for part in node.flatten()))


def _parse_or(node: exp.Expr, columns: Columns) -> Predicate:
    return disjunction(*(_predicate(part, columns) for part in node.flatten()))


def _parse_not(node: exp.Expr, columns: Columns) -> Predicate:
    return Not(_predicate(node.this, columns))


def _parse_paren(node: exp.Expr, columns: Columns) -> Predicate:
    return _predicate(node.this, columns)


def _parse_comparison(node: exp.Expr, columns: Columns) -> Predicate:
    left, right = _operand(node.this, columns), _operand(node.expression, columns)
    return _compare(left, _OPERATORS[type(node)], right, node)


def _parse_between(node: exp.Expr, columns: Columns) -> Predicate:
    operands = [_operand(part, columns) for part in (node.this, node.args["low"], node.args["high"])]
    value, low, high = _unify(operands)
    return conjunction(_compare(value, Operator.GE, low, node), _compare(value, Operator.LE, high, node))


def _parse_in(node: exp.Expr, columns: Columns) -> Predicate:
    field = _field(node.this, columns)
    operands = [_operand(part, columns) for part in node.expressions]
    literals = [operand for operand in operands if operand is not None]
    if not operands or any(isinstance(literal, FieldRef) for literal in literals):
        raise _unsupported(node)
    if not literals:
        return Constant(None)
    return is_in(field, [lit for lit in literals if not isinstance(lit, FieldRef)], has_null=None in operands)


def _parse_is(node: exp.Expr, columns: Columns) -> Predicate:
    if isinstance(node.expression, exp.Null):
        return IsNull(_field(node.this, columns))
    if isinstance(node.expression, exp.Boolean):
        return _not_distinct(_field(node.this, columns), bool(node.expression.this), node)
    raise _unsupported(node)


def _parse_not_distinct(node: exp.Expr, columns: Columns) -> Predicate:
    left, right = _operand(node.this, columns), _operand(node.expression, columns)
    return _not_distinct(left, right, node)


def _parse_distinct(node: exp.Expr, columns: Columns) -> Predicate:
    return Not(_parse_not_distinct(node, columns))


def _parse_like(node: exp.Expr, columns: Columns) -> Predicate:
    field, pattern = _field(node.this, columns), _operand(node.expression, columns)
    if field.type != "varchar" or not isinstance(pattern, Text):
        raise InvalidInput(f"'{_sql(node)}' is not supported: LIKE takes a varchar column and a text")
    if "%" in pattern.value or "_" in pattern.value:
        predicate: Predicate = Like(field, pattern.value)
    else:
        predicate = compare(field, Operator.EQ, pattern)
    return Not(predicate) if node.args.get("negate") else predicate


_OPERATORS: Mapping[type[exp.Expr], Operator] = {
    exp.EQ: Operator.EQ,
    exp.NEQ: Operator.NE,
    exp.LT: Operator.LT,
    exp.LTE: Operator.LE,
    exp.GT: Operator.GT,
    exp.GTE: Operator.GE,
}
_PREDICATES: Mapping[type[exp.Expr], Callable[[exp.Expr, Columns], Predicate]] = {
    **dict.fromkeys(_OPERATORS, _parse_comparison),
    exp.And: _parse_and,
    exp.Or: _parse_or,
    exp.Not: _parse_not,
    exp.Paren: _parse_paren,
    exp.Between: _parse_between,
    exp.In: _parse_in,
    exp.Is: _parse_is,
    exp.NullSafeEQ: _parse_not_distinct,
    exp.NullSafeNEQ: _parse_distinct,
    exp.Like: _parse_like,
}
# Whatever else the parser finds (ESCAPE, SYMMETRIC, subqueries) changes the meaning.
_KNOWN_ARGUMENTS = frozenset({"this", "expression", "expressions", "low", "high", "negate"})


# ------------------------------------------------------------------------------------------ comparisons


def _compare(left: Operand, operator: Operator, right: Operand, node: exp.Expr) -> Predicate:
    if left is None or right is None:
        return Constant(None)
    if isinstance(left, FieldRef):
        return compare_fields(left, operator, right) if isinstance(right, FieldRef) else compare(left, operator, right)
    if isinstance(right, FieldRef):
        return compare(right, operator.flipped, left)
    if isinstance(left, Number) and isinstance(right, Number):
        return Constant(compare_numbers(left, operator, right))
    raise InvalidInput(f"'{_sql(node)}' compares no column")


def _not_distinct(left: Operand, right: Operand, node: exp.Expr) -> Predicate:
    """Return `left IS NOT DISTINCT FROM right`: never NULL."""
    if not isinstance(left, FieldRef):
        left, right = right, left
    if not isinstance(left, FieldRef):
        raise InvalidInput(f"'{_sql(node)}' compares no column")
    if right is None:
        return IsNull(left)
    has_value: list[Predicate] = [Not(IsNull(left))]
    if not isinstance(right, FieldRef):
        return conjunction(*has_value, compare(left, Operator.EQ, right))
    has_value.append(Not(IsNull(right)))
    both_null = conjunction(IsNull(left), IsNull(right))
    return disjunction(both_null, conjunction(*has_value, compare_fields(left, Operator.EQ, right)))


def _unify(operands: Sequence[Operand]) -> list[Operand]:
    literals = iter(unify([o for o in operands if o is not None and not isinstance(o, FieldRef)]))
    return [o if o is None or isinstance(o, FieldRef) else next(literals) for o in operands]


# ------------------------------------------------------------------------------------------ operands


def _operand(node: exp.Expr, columns: Columns) -> Operand:  # noqa: PLR0911 # one case per kind of operand
    match node:
        case exp.Paren():
            return _operand(node.this, columns)
        case exp.Null():
            return None
        case exp.Boolean():
            return bool(node.this)
        case exp.Literal():
            return Text(node.this) if node.is_string else parse_number(node.this)
        case exp.Neg(this=exp.Literal() as number) if not number.is_string:
            positive = parse_number(number.this)
            return Number(-positive.value, positive.is_double)
        case exp.Cast() if type(node) is exp.Cast:
            return _cast(node, columns)
        case _:
            return _field(node, columns)


def _cast(node: exp.Expr, columns: Columns) -> Operand:
    operand = _operand(node.this, columns)
    if operand is None:
        return None
    if isinstance(operand, FieldRef):
        raise _unsupported(node)
    return cast_literal(operand, parse_type(node.args["to"].sql(dialect="duckdb")).type)


def _field(node: exp.Expr, columns: Columns) -> FieldRef:
    name, *rest = _path(node)
    column = _named(name, columns, "column")
    path = [column.name]
    for name in rest:
        if column.kind is not Kind.STRUCT:
            raise InvalidInput(f"column '{'.'.join(path)}' has no fields: it is of type '{column.type}'")
        column = _named(name, column.children, f"field of '{'.'.join(path)}'")
        path.append(column.name)
    return FieldRef(column, tuple(path))


def _path(node: exp.Expr) -> list[str]:
    match node:
        case exp.Column():
            return [part.name for part in node.parts]
        case exp.Dot(this=struct, expression=exp.Identifier() as name):
            return [*_path(struct), name.name]
        case exp.Bracket(this=struct, expressions=[exp.Literal() as key]) if key.is_string:
            return [*_path(struct), key.this]
        case _:
            raise _unsupported(node)


def _named(name: str, columns: Columns, what: str) -> Column:
    for column in columns:
        if fold(column.name) == fold(name):
            return column
    near = nearest_name(fold(name), [fold(c.name) for c in columns])
    known = [c.name for c in columns if near is None or fold(c.name) == near]
    hint = f"did you mean '{known[0]}'?" if near else "there are " + ", ".join(f"'{name}'" for name in known)
    raise InvalidInput(f"there is no {what} '{name}'; {hint}")


def _unsupported(node: exp.Expr) -> InvalidInput:
    return InvalidInput(f"'{_sql(node)}' is not supported; supported are {SUPPORTED}")


def _sql(node: exp.Expr) -> str:
    return node.sql(dialect="duckdb")
