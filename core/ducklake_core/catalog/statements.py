"""Every write on the catalog, as SQLAlchemy statements: one function per kind of write of a commit plan."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from functools import cache, lru_cache
from typing import Any, assert_never

from sqlalchemy import (
    BigInteger,
    BindParameter,
    Delete,
    Insert,
    Select,
    Table,
    Update,
    and_,
    bindparam,
    delete,
    insert,
    select,
    update,
)
from sqlalchemy import cast as sql_cast
from sqlalchemy.schema import CreateTable

from ducklake_core.catalog import queries
from ducklake_core.catalog.inlined_tables import inlined_delete_table, inlined_table
from ducklake_core.catalog.session import Session, Statement
from ducklake_core.plan.writes import (
    CreateInlinedTable,
    DeleteAmong,
    DeleteInlined,
    DeleteInlinedDeletes,
    DeleteRows,
    EndInlined,
    EndRows,
    InsertInlined,
    InsertInlinedDeletes,
    InsertRows,
    UpdateRows,
    Write,
)
from ducklake_core.spec.tables import CatalogTables


def statements_of_all(session: Session, writes: Iterable[Write]) -> list[Statement]:
    """Return the statements of some writes, in their order."""
    return [statement for write in writes for statement in statements_of(session, write)]


def statements_of(session: Session, write: Write) -> Iterator[Statement]:  # one case per kind of write
    """Yield the statements of one write."""
    match write:
        case InsertRows():
            yield Statement(_insert(_table(session, write.table)), list(write.rows))
        case UpdateRows():
            yield _update_rows(session, write)
        case EndRows():
            rows = [{**_rename_keys(key, tuple(key)), "ended_at": write.snapshot} for key in write.keys]
            yield Statement(_end(_table(session, write.table), tuple(write.keys[0])), rows)
        case DeleteRows() | DeleteAmong():
            yield _delete_rows(session, write)
        case CreateInlinedTable():
            schema = session.database.url.metadata_schema
            yield Statement(
                CreateTable(inlined_table(write.name, write.columns, session.dialect.inlined_rules, schema))
            )
        case InsertInlined():
            yield session.dialect.inlined.insert_statement(session, write)
        case EndInlined():
            yield _end_inlined(session, write)
        case InsertInlinedDeletes():
            yield from _insert_inlined_deletes(session, write)
        case DeleteInlined() | DeleteInlinedDeletes():
            yield _delete_flushed(session, write)
        case _:
            assert_never(write)


def claim_version(session: Session) -> Statement:
    """Return the statement that fails where the lake is being migrated, and lets such a migration fail.

    A migration renames columns of the inlined tables that it has found: one that we make at the same time would keep
    the names of the old format for ever. Whoever is the second to write this row is told so by PostgreSQL. It is the
    last one that a migration writes, and the last one of ours: neither waits for the other's tables with it.
    """
    return Statement(_claim_version(session.tables))


def share_version(session: Session) -> Statement:
    """Return the statement that waits for a migration of the lake, and fails once that is committed.

    It locks the version's row, so that no migration can write it before our commit; other commits lock it, too. It is
    the last one of ours: see `claim_version`.
    """
    return Statement(_share_version(session.tables))


def _table(session: Session, name: str) -> Table:
    table: Table = getattr(session.tables, name)
    return table


def _delete_rows(session: Session, write: DeleteRows | DeleteAmong) -> Statement:
    table = _table(session, write.table)
    if isinstance(write, DeleteAmong):
        among = _delete_among(table, write.column, session.dialect.ids_in_json)
        return Statement(among, {"ids": json.dumps(write.ids)})
    rows = [_rename_keys(key, tuple(key)) for key in write.keys]
    return Statement(_delete(table, tuple(write.keys[0])), rows)


def _update_rows(session: Session, write: UpdateRows) -> Statement:
    table = _table(session, write.table)
    values = tuple(name for name in write.rows[0] if name not in write.keys)
    update_many = session.dialect.update_many
    if len(write.rows) > 1 and update_many is not None:
        return Statement(update_many(table, write.keys, values), {"rows": json.dumps(write.rows)})
    return Statement(_update(table, write.keys, values), [_rename_keys(row, write.keys) for row in write.rows])


def _rename_keys(row: Any, keys: tuple[str, ...]) -> dict[str, Any]:  # Any: catalog rows have many types
    """Bind keys under names of their own: SQLAlchemy keeps column names for the values being set."""
    return {(f"key_{name}" if name in keys else name): value for name, value in row.items()}


@cache
def _claim_version(t: CatalogTables) -> Update:
    metadata = t.ducklake_metadata
    return update(metadata).where(*queries.is_version(t)).values(value=metadata.c.value)


@cache
def _share_version(t: CatalogTables) -> Select[Any]:
    return select(t.ducklake_metadata.c.value).where(*queries.is_version(t)).with_for_update(read=True)


@lru_cache(maxsize=256)
def _insert(table: Table) -> Insert:
    return insert(table)


@lru_cache(maxsize=256)
def _update(table: Table, keys: tuple[str, ...], values: tuple[str, ...]) -> Update:
    matches = and_(*(table.c[name] == bindparam(f"key_{name}") for name in keys))
    return update(table).where(matches).values({name: bindparam(name) for name in values})


@lru_cache(maxsize=256)
def _end(table: Table, keys: tuple[str, ...]) -> Update:
    matches = and_(*(table.c[name] == bindparam(f"key_{name}") for name in keys))
    return update(table).where(matches, table.c.end_snapshot.is_(None)).values(end_snapshot=bindparam("ended_at"))


@lru_cache(maxsize=256)
def _delete(table: Table, keys: tuple[str, ...]) -> Delete:
    return delete(table).where(*(table.c[name] == bindparam(f"key_{name}") for name in keys))


@lru_cache(maxsize=256)
def _delete_among(table: Table, column: str, ids_in_json: Callable[[BindParameter[str]], Select[Any]]) -> Delete:
    return delete(table).where(table.c[column].in_(ids_in_json(bindparam("ids"))))


def _delete_flushed(session: Session, write: DeleteInlined | DeleteInlinedDeletes) -> Statement:
    schema = session.database.url.metadata_schema
    if isinstance(write, DeleteInlined):
        table = inlined_table(write.name, (), session.dialect.inlined_rules, schema)
    else:
        table = inlined_delete_table(write.table_id, schema)
    return Statement(_delete_begun(table), {"through": write.through})


@lru_cache(maxsize=512)
def _delete_begun(table: Table) -> Delete:
    return delete(table).where(table.c.begin_snapshot <= bindparam("through"))


@lru_cache(maxsize=512)
def _end_inlined_statement(table: Table, ids_in_json: Callable[[BindParameter[str]], Select[Any]]) -> Update:
    """End rows of any number at once: an inlined table has no index, so that each statement looks at all of it."""
    return (
        update(table)
        .where(
            table.c.row_id.in_(ids_in_json(bindparam("ids"))),
            table.c.end_snapshot.is_(None),
            table.c.begin_snapshot != bindparam("ended_at"),
        )
        .values(end_snapshot=bindparam("ended_at"))
    )


def _end_inlined(session: Session, write: EndInlined) -> Statement:
    table = inlined_table(write.name, (), session.dialect.inlined_rules, session.database.url.metadata_schema)
    statement = _end_inlined_statement(table, session.dialect.ids_in_json)
    return Statement(statement, {"ids": json.dumps(write.row_ids), "ended_at": write.snapshot})


def _insert_inlined_deletes(session: Session, write: InsertInlinedDeletes) -> Iterator[Statement]:
    table = inlined_delete_table(write.table_id, session.database.url.metadata_schema)
    yield Statement(_create_if_missing(table))
    by_file: dict[int, list[int]] = {}
    for file_id, position in write.positions:
        by_file.setdefault(file_id, []).append(position)
    rows = [{"file": i, "ids": json.dumps(found), "begun_at": write.snapshot} for i, found in by_file.items()]
    yield Statement(_insert_positions(table, session.dialect.ids_in_json), rows)


@lru_cache(maxsize=512)
def _insert_positions(table: Table, ids_in_json: Callable[[BindParameter[str]], Select[Any]]) -> Insert:
    positions = ids_in_json(bindparam("ids")).subquery()
    file, begin = (bindparam(name, type_=BigInteger) for name in ("file", "begun_at"))
    rows = select(sql_cast(file, BigInteger), *positions.c, sql_cast(begin, BigInteger))
    return insert(table).from_select([table.c.file_id, table.c.row_id, table.c.begin_snapshot], rows)


@lru_cache(maxsize=512)
def _create_if_missing(table: Table) -> CreateTable:
    return CreateTable(table, if_not_exists=True)
