"""Whether a SELECT makes each row of one row of its input, and where columns can be added to it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from ducklake_streaming.jobs.input_view import VIEW

_NOT_ROW_WISE = (
    exp.AggFunc,
    exp.Distinct,
    exp.Group,
    exp.Having,
    exp.Join,
    exp.Lateral,
    exp.Limit,
    exp.Offset,
    exp.Order,
    exp.Qualify,
    exp.SetOperation,
    exp.Subquery,
    exp.TableSample,
    exp.UDTF,
    exp.Window,
    exp.With,
)


@dataclass(frozen=True, slots=True)
class RowWiseSql:
    """A SELECT from the view alone, without anything that takes rows together or stops before the last.

    Columns are put into the text as it is: written anew by another parser it could mean something else.
    """

    sql: str
    position: int  # of FROM

    def with_columns(self, expressions: Sequence[str]) -> str:
        if not expressions:
            return self.sql
        return f"{self.sql[: self.position]}, {', '.join(expressions)} {self.sql[self.position :]}"


def parse_row_wise(sql: str) -> RowWiseSql | None:
    """Return the SELECT, None for one that is not row-wise, or that is not understood."""
    try:
        tree, tokens = sqlglot.parse_one(sql, dialect="spark"), sqlglot.tokenize(sql, dialect="spark")
    except SqlglotError:
        return None
    if not isinstance(tree, exp.Select) or tree.find(*_NOT_ROW_WISE) or len(list(tree.find_all(exp.Select))) != 1:
        return None
    tables = [(table.db, table.name.lower()) for table in tree.find_all(exp.Table)]
    position = _find_from(tokens)
    return RowWiseSql(sql, position) if tables == [("", VIEW)] and position is not None else None


def _find_from(tokens: Sequence[Any]) -> int | None:  # Any: sqlglot does not export their type
    """Return where the FROM of the outermost SELECT is; functions such as `extract(year FROM ts)` have their own."""
    depth = 0
    for token in tokens:
        kind = token.token_type.name
        depth += {"L_PAREN": 1, "R_PAREN": -1}.get(kind, 0)
        if kind == "FROM" and depth == 0:
            return int(token.start)
    return None
