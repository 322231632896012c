"""Statements that only PostgreSQL has: many rows as one parameter."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from psycopg import sql
from sqlalchemy import (
    BigInteger,
    BindParameter,
    Insert,
    Select,
    Table,
    Update,
    bindparam,
    func,
    insert,
    select,
    text,
    update,
)
from sqlalchemy import cast as sql_cast
from sqlalchemy import column as sql_column

from ducklake_core.catalog.inlined_tables import RawSqlType, inlined_table
from ducklake_core.catalog.postgres.rules import POSTGRES_RULES
from ducklake_core.model import Column
from ducklake_core.spec.memo import per_object
from ducklake_core.spec.names import quoted


@lru_cache(maxsize=256)
def update_from_json(table: Table, keys: tuple[str, ...], values: tuple[str, ...]) -> Update:
    """Update many rows in one statement: they come as one JSON text, bound as `rows`."""
    columns = [sql_column(name, table.c[name].type) for name in (*keys, *values)]
    rows = func.json_to_recordset(bindparam("rows", type_=RawSqlType("json"))).table_valued(*columns)
    found = rows.render_derived(name="found", with_types=True)
    matches = (table.c[name] == found.c[name] for name in keys)
    return update(table).where(*matches).values({name: found.c[name] for name in values})


def ids_in_json(ids: BindParameter[str]) -> Select[Any]:  # Any: the database's own
    """Return the query of the numbers of a JSON array."""
    return select(sql_cast(func.json_array_elements_text(sql_cast(ids, RawSqlType("json"))), BigInteger))


@lru_cache(maxsize=256)
def unseen_snapshots(snapshots: Table) -> Select[Any]:  # Any: see above
    """Return the query of the snapshots that an open transaction of another session may not see, newest first.

    Transaction ids tell, not clocks. Of a session of another role everybody sees these, and not what kind it is.
    """
    oldest = text(
        "age(xmin) <= (SELECT max(age(backend_xmin)) FROM pg_stat_activity WHERE datname = current_database()"
        " AND pid <> pg_backend_pid() AND coalesce(backend_type, 'client backend') = 'client backend')"
    )
    return select(snapshots.c.snapshot_id).where(oldest).order_by(snapshots.c.snapshot_id.desc())


@per_object
def insert_unnested(
    columns: tuple[Column, ...], name: str, schema: str | None, stored_names: tuple[str, ...]
) -> Insert:
    """Insert rows that arrive as one array of the table's own row type: one statement, whatever their number."""
    table = inlined_table(name, columns, POSTGRES_RULES, schema, stored_names)
    rows = bindparam("rows", type_=RawSqlType(f"{_row_type(table)}[]"))
    source = func.unnest(rows).table_valued(*(column.name for column in table.columns))
    return insert(table).from_select(list(table.columns), select(*source.c))


def _row_type(table: Table) -> str:
    """Return the name of the type of a table's rows, which is that of the table."""
    return ".".join(quoted(part) for part in (table.schema, table.name) if part)


@lru_cache(maxsize=512)
def copy_in(schema: str | None, name: str) -> bytes:
    return sql.SQL("COPY {} FROM STDIN (FORMAT BINARY)").format(_identifier(schema, name)).as_bytes()


def lock_table(schema: str | None, name: str, timeout_milliseconds: int) -> list[bytes]:
    """Return what keeps everybody else from a table until the transaction ends, or gives up soon."""
    timeout = sql.SQL("SET LOCAL lock_timeout = {}").format(sql.Literal(timeout_milliseconds))
    lock = sql.SQL("LOCK TABLE {} IN ACCESS EXCLUSIVE MODE").format(_identifier(schema, name))
    return [timeout.as_bytes(), lock.as_bytes()]


def _identifier(schema: str | None, name: str) -> sql.Identifier:
    return sql.Identifier(schema, name) if schema else sql.Identifier(name)
