"""SQL in a job file, looked at before Spark starts: a transform's query and a route. Pure.

sqlglot finds mistakes of syntax; which columns there are, only Spark can know.
"""

from __future__ import annotations

from typing import Annotated, TypeAlias

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, SqlglotError

from ducklake_core.settings import Problem, checked, optional, text

VIEW = "input"
_EXAMPLE = "SELECT * FROM input"
_DIALECT = "spark"
_SELECT = "SELECT "


def parse_query(value: object) -> str:
    """Return a query of the view `input`; raise Problem that says what is wrong with it, and where."""
    sql = text(value)
    statements = [statement for statement in _parse(sql) if statement is not None]
    if len(statements) != 1:
        raise Problem(f"has {len(statements)} statements, but must be one query, such as '{_EXAMPLE}'")
    if not isinstance(statements[0], exp.Query):
        raise Problem(f"is no query: begin with SELECT or WITH, as in '{_EXAMPLE}'")
    if not any(_is_view(table) for table in statements[0].find_all(exp.Table)):
        tables = ", ".join(f"'{table.sql(_DIALECT)}'" for table in statements[0].find_all(exp.Table))
        raise Problem(f"does not read FROM {VIEW}, but from {tables or 'nothing'}: a batch is the view '{VIEW}'")
    return sql


def parse_expression(value: object) -> str:
    """Return an expression of the rows' columns; raise Problem that says what is wrong with it, and where."""
    sql = text(value)
    statements = _parse(f"{_SELECT}{sql}", moved=len(_SELECT))
    select = statements[0]
    if len(statements) != 1 or not isinstance(select, exp.Select) or len(select.expressions) != 1 or _is_more(select):
        raise Problem(f"is {sql!r}, but must be one expression, such as \"concat('main.', topic)\"")
    return sql


def _parse(sql: str, moved: int = 0) -> list[exp.Expr | None]:
    """Parse statements; `moved`: by how many characters the user's text was moved to the right."""
    try:
        return sqlglot.parse(sql, dialect=_DIALECT)
    except ParseError as error:
        first = error.errors[0]
        line, column = first["line"] or 1, (first["col"] or 1) - len(first["highlight"] or "") + 1
        place = f"line {line}, column {max(column - (moved if line == 1 else 0), 1)}"
        near = f" near '{first['highlight']}'" if first["highlight"] else ""
        raise Problem(f"is no SQL of Spark: {place}: {first['description']}{near}") from None
    except SqlglotError as error:
        raise Problem(f"is no SQL of Spark: {str(error).splitlines()[0]}") from None


def _is_view(table: exp.Table) -> bool:
    return table.name.lower() == VIEW and not table.db


def _is_more(select: exp.Select) -> bool:
    """Tell whether there is anything after the expression."""
    return any(value for name, value in select.args.items() if name not in ("expressions", "kind", "hint"))


Query: TypeAlias = Annotated[str, *checked(parse_query, {"type": "string", "minLength": 1})]
OptionalExpression: TypeAlias = Annotated[str | None, *checked(optional(parse_expression), {"type": "string"})]
