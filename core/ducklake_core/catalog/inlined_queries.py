"""Every SELECT on tables of inlined rows that is the same in all databases; the same object each time."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Integer,
    Select,
    Table,
    and_,
    bindparam,
    func,
    literal_column,
    or_,
    select,
    type_coerce,
    union_all,
)

from ducklake_core.catalog import queries
from ducklake_core.catalog.inlined_tables import SYSTEM_COLUMNS, inlined_table, user_columns
from ducklake_core.catalog.session import Session
from ducklake_core.model import Column, ColumnId, InlinedTable

if TYPE_CHECKING:
    from ducklake_core.catalog.dialect import CatalogDialect
    from ducklake_core.catalog.inlined_store import InlinedStore

Picked: TypeAlias = tuple[ColumnElement[object], ...]


def pick_columns(session: Session, inlined: InlinedTable, chosen: tuple[ColumnId, ...]) -> tuple[Table, Picked]:
    """Return an inlined table, and some of its columns as queries have them."""
    schema = session.database.url.metadata_schema
    return _pick(inlined.name, inlined.columns, chosen, session.dialect, schema, inlined.stored_names)


@lru_cache(maxsize=512)
def _pick(
    name: str,
    columns: tuple[Column, ...],
    chosen: tuple[ColumnId, ...],
    dialect: CatalogDialect,
    schema: str | None,
    stored_names: tuple[str, ...],
) -> tuple[Table, Picked]:
    table = inlined_table(name, columns, dialect.inlined_rules, schema, stored_names)
    by_id = {c.column_id: (sql_column, c) for sql_column, c in zip(user_columns(table), columns, strict=True)}
    return table, tuple(dialect.inlined.selected(*by_id[i]) for i in chosen)


@lru_cache(maxsize=512)
def live_rows(table: Table, picked: Picked) -> Select[tuple[object, ...]]:
    return select(table.c.row_id, *picked).where(queries.live_at(table)).order_by(table.c.row_id)


@lru_cache(maxsize=512)
def live_rows_between(table: Table, picked: Picked) -> Select[tuple[object, ...]]:
    is_wanted = table.c.row_id >= bindparam("first_row_id"), table.c.row_id < bindparam("end_row_id")
    return live_rows(table, picked).where(*is_wanted)


@lru_cache(maxsize=512)
def live_rows_from(table: Table, picked: Picked) -> Select[tuple[object, ...]]:
    """Select the next `limit` live rows from a row id on."""
    is_wanted = table.c.row_id >= bindparam("first_row_id")
    return live_rows(table, picked).where(is_wanted).limit(bindparam("limit", type_=BigInteger))


@lru_cache(maxsize=512)
def live_rows_among(
    table: Table, picked: Picked, columns: tuple[tuple[int, Column], ...], store: InlinedStore
) -> Select[tuple[object, ...]]:
    """Select the live rows that have one of some values in each of some columns, which are told with their places.

    The values of the first are the parameter `among_0`, and so on.
    """
    found = user_columns(table)
    asked = (store.is_among(found[place], column, f"among_{i}") for i, (place, column) in enumerate(columns))
    return live_rows(table, picked).where(*asked)


@lru_cache(maxsize=512)
def extent(table: Table) -> Select[Any]:
    """The live rows, their least row id, and the one behind the greatest."""
    ends = func.coalesce(func.min(table.c.row_id), 0), func.coalesce(func.max(table.c.row_id) + 1, 0)
    return select(func.count(), *ends).select_from(table).where(queries.live_at(table))


@lru_cache(maxsize=512)
def all_versions(table: Table, picked: Picked) -> Select[tuple[object, ...]]:
    system = [table.c[name] for name in SYSTEM_COLUMNS]
    found = select(*system, *picked).where(table.c.begin_snapshot <= bindparam("snapshot"))
    return found.order_by(table.c.row_id, table.c.begin_snapshot)


def changed_within(table: Table) -> ColumnElement[bool]:
    """Return the condition that a snapshot after `start`, up to and with `end`, began or ended a row version."""
    start, end = (bindparam(name, type_=BigInteger) for name in ("start", "end"))
    return or_(*(and_(mark > start, mark <= end) for mark in (table.c.begin_snapshot, table.c.end_snapshot)))


@lru_cache(maxsize=512)
def changed_versions(table: Table, picked: Picked, given: frozenset[str] = frozenset()) -> Select[tuple[object, ...]]:
    """Select what a range began or ended; of some row ids, or a limited number, where such parameters are given."""
    system = [table.c[name] for name in SYSTEM_COLUMNS]
    found = select(*system, *picked).where(changed_within(table))
    if "first_row_id" in given:
        first, end = (bindparam(name, type_=BigInteger) for name in ("first_row_id", "end_row_id"))
        found = found.where(table.c.row_id >= first, table.c.row_id < end)
    return found.limit(bindparam("limit", type_=BigInteger)) if "limit" in given else found


@lru_cache(maxsize=128)
def spread(tables: tuple[Table, ...]) -> Select[Any]:
    """Select how what a range began or ended is spread over row ids: pieces of so many `rows`, by table."""
    ids = union_all(*(_changed_row_ids(table, index) for index, table in enumerate(tables))).subquery()
    place = type_coerce(func.row_number().over(order_by=ids.c.row_id), BigInteger) - 1
    piece = (place // bindparam("rows", type_=BigInteger)).label("piece")
    placed = select(piece, ids.c.part, ids.c.row_id).subquery()
    key, row_id = (placed.c.piece, placed.c.part), placed.c.row_id
    return select(*key, func.min(row_id), func.max(row_id), func.count()).group_by(*key).order_by(*key)


def _changed_row_ids(table: Table, index: int) -> Select[Any]:
    part = literal_column(str(index), Integer).label("part")
    return select(table.c.row_id.label("row_id"), part).where(changed_within(table))


@lru_cache(maxsize=512)
def count_by(mark: ColumnElement[int]) -> Select[int, int]:
    """How many row versions each snapshot of a range began or ended."""
    start, end = (bindparam(name, type_=BigInteger) for name in ("start", "end"))
    return select(mark, func.count()).where(mark > start, mark <= end).group_by(mark)


@lru_cache(maxsize=512)
def count_versions(table: Table) -> Select[Any]:
    begun = table.c.begin_snapshot <= bindparam("snapshot")
    return select(func.count()).select_from(table).where(begun)
