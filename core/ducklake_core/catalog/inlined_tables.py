"""The dynamic tables of the catalog: inlined rows and inlined deletes, as SQLAlchemy tables (format §4, §5)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from sqlalchemy import BigInteger, MetaData, Table
from sqlalchemy import Column as SqlColumn
from sqlalchemy.types import UserDefinedType

from ducklake_core.model import Column, TableId
from ducklake_core.spec.inlined import InlinedRules, inlined_type

SYSTEM_COLUMNS = ("row_id", "begin_snapshot", "end_snapshot")


class RawSqlType(UserDefinedType[Any]):
    """A column type by its spelling; values go through the driver as they are."""

    cache_ok = True
    render_bind_cast = True

    def __init__(self, spelling: str) -> None:
        self.spelling = spelling

    def get_col_spec(self, **_: object) -> str:
        return self.spelling


@lru_cache(maxsize=512)
def inlined_table(
    name: str, columns: tuple[Column, ...], rules: InlinedRules, schema: str | None, stored_names: tuple[str, ...] = ()
) -> Table:
    """Return a table of inlined rows; the same object for the same columns, so that statements compile once."""
    system = [SqlColumn(n, BigInteger) for n in SYSTEM_COLUMNS]
    names = stored_names or tuple(c.name for c in columns)
    user = [SqlColumn(n, RawSqlType(inlined_type(c, rules))) for n, c in zip(names, columns, strict=True)]
    return Table(name, MetaData(schema=schema), *system, *user)


@lru_cache(maxsize=512)
def inlined_delete_table(table_id: TableId, schema: str | None) -> Table:
    """Return the table of deleted positions; its `row_id` is a position in the file, despite the name."""
    columns = [SqlColumn(n, BigInteger) for n in ("file_id", "row_id", "begin_snapshot")]
    return Table(f"ducklake_inlined_delete_{table_id}", MetaData(schema=schema), *columns)


def user_columns(table: Table) -> Sequence[SqlColumn[Any]]:
    return list(table.columns)[len(SYSTEM_COLUMNS) :]
