"""Sort expressions, in DuckDB's SQL: which columns they name, and what they are after a rename. Pure.

A module of its own, because its parser takes a tenth of a second to import and few need it.
"""

from __future__ import annotations

from dataclasses import replace

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from ducklake_core.errors import InvalidInput
from ducklake_core.model import SortKey
from ducklake_core.spec.names import fold, quote_name


def sort_columns(key: SortKey) -> set[str]:
    """Return the columns that a sort expression names, in lower case."""
    return {fold(node.name) for node in _sort_expression(key).find_all(exp.Column)}


def renamed_key(key: SortKey, old: str, new: str) -> SortKey:
    if fold(old) not in sort_columns(key):
        return key
    expression = _sort_expression(key)
    if isinstance(expression, exp.Column):
        return replace(key, expression=quote_name(new))
    for node in expression.find_all(exp.Column):
        if fold(node.name) == fold(old):
            node.set("this", exp.to_identifier(new, quoted=quote_name(new) != new))
    return replace(key, expression=expression.sql(dialect="duckdb"))


def _sort_expression(key: SortKey) -> exp.Expr:
    try:
        return sqlglot.parse_one(key.expression, dialect="duckdb")
    except SqlglotError as error:
        raise InvalidInput(f"the sort expression '{key.expression}' cannot be parsed: change the sort order") from error
