"""Questions for totals of all tables at once; like those of `queries`, the same object each time where that can be."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    String,
    Table,
    bindparam,
    case,
    func,
    literal,
    literal_column,
    null,
    or_,
    select,
    union_all,
)
from sqlalchemy import cast as sql_cast

from ducklake_core.catalog import queries
from ducklake_core.catalog.queries import live_at
from ducklake_core.catalog.query import Query, select_fields, select_labelled
from ducklake_core.spec.rows import (
    CountRow,
    ObjectNameRow,
    RegisteredTableRow,
    TableDeleteFilesRow,
    TableFilesRow,
    TableIdRow,
    TableInlinedRow,
)
from ducklake_core.spec.tables import CatalogTables


@cache
def snapshot_count(t: CatalogTables) -> Query[CountRow]:
    """How many snapshots have not expired."""
    return Query(CountRow, select_labelled({"row_count": func.count()}).select_from(t.ducklake_snapshot))


@cache
def files_by_table(t: CatalogTables) -> Query[TableFilesRow]:
    """The data files live at `snapshot` of each table that has any; those below `small_bytes` are small."""
    d = t.ducklake_data_file
    is_small = d.c.file_size_bytes < bindparam("small_bytes", type_=BigInteger)
    totals = {
        "files": func.count(),
        "small_files": _sum(case((is_small, literal_column("1")), else_=literal_column("0"))),
        "record_count": _sum(d.c.record_count),
        "file_size_bytes": _sum(d.c.file_size_bytes),
    }
    found = select_labelled({"table_id": d.c.table_id, **totals}).where(live_at(d)).group_by(d.c.table_id)
    return Query(TableFilesRow, found)


@cache
def delete_files_by_table(t: CatalogTables) -> Query[TableDeleteFilesRow]:
    """The delete files live at `snapshot` of each table that has any."""
    x = t.ducklake_delete_file
    totals = {"delete_files": func.count(), "delete_count": _sum(x.c.delete_count)}
    found = select_labelled({"table_id": x.c.table_id, **totals}).where(live_at(x)).group_by(x.c.table_id)
    return Query(TableDeleteFilesRow, found)


@cache
def inlined_tables(t: CatalogTables) -> Query[RegisteredTableRow]:
    """The tables of inlined rows of all tables."""
    return Query(RegisteredTableRow, select_fields(RegisteredTableRow, t.ducklake_inlined_data_tables))


def _sum(values: ColumnElement[Any]) -> ColumnElement[int]:
    return sql_cast(func.coalesce(func.sum(values), literal_column("0")), BigInteger)


def inlined_rows_by_table(
    t: CatalogTables, measured: Sequence[tuple[int, Table, ColumnElement[Any]]]
) -> Query[TableInlinedRow]:
    """What some tables of inlined rows or deletes hold, each given with its table's id and the size of its rows."""
    each = union_all(*(_inlined_rows(t, *one) for one in measured)).subquery()
    return Query(TableInlinedRow, select_fields(TableInlinedRow, each))  # type: ignore[arg-type] # it has columns, too


def _inlined_rows(t: CatalogTables, table_id: int, inlined: Table, row_size: ColumnElement[Any]) -> Any:
    is_deletes = "file_id" in inlined.c
    live = _deletes_of_live_files(t, inlined) if is_deletes else func.count() - func.count(inlined.c.end_snapshot)
    more = {"live_rows": live, "table_id": literal_column(str(table_id)), "is_deletes": literal(int(is_deletes))}
    labelled = (column.label(name) for name, column in more.items())
    return queries.inlined_state(t, inlined, row_size).select.add_columns(*labelled)


def _deletes_of_live_files(t: CatalogTables, deletes: Table) -> ColumnElement[int]:
    """Count deletes of files that are live: those of a file that was rewritten stay behind."""
    d = t.ducklake_data_file
    of_files = deletes.alias("of_files")
    joined = of_files.join(d, d.c.data_file_id == of_files.c.file_id)
    return select(func.count()).select_from(joined).where(d.c.end_snapshot.is_(None)).scalar_subquery()


@cache
def object_names(t: CatalogTables) -> Query[ObjectNameRow]:
    """Every name that a schema, a table or a view has or had, the last one of each last."""
    schema, table, view = t.ducklake_schema, t.ducklake_table, t.ducklake_view
    of_schemas = select(schema.c.schema_id.label("object_id"), sql_cast(null(), String).label("schema_name"))
    schemas = of_schemas.add_columns(schema.c.schema_name.label("object_name"), schema.c.begin_snapshot)
    tables = _names_within(t, table, table.c.table_id, table.c.table_name)
    views = _names_within(t, view, view.c.view_id, view.c.view_name)
    each = union_all(schemas, tables, views).subquery()
    names = select(*(each.c[name] for name in ObjectNameRow._fields))
    return Query(ObjectNameRow, names.order_by(each.c.begin_snapshot))


def _names_within(t: CatalogTables, objects: Table, object_id: ColumnElement[Any], name: ColumnElement[Any]) -> Any:
    """Select the names of tables or views with the schema that each is in."""
    schema = t.ducklake_schema
    labelled = object_id.label("object_id"), schema.c.schema_name, name.label("object_name"), objects.c.begin_snapshot
    return select(*labelled).select_from(objects.join(schema, objects.c.schema_id == schema.c.schema_id))


@lru_cache
def tables_with_columns(t: CatalogTables, names: tuple[str, ...]) -> Query[TableIdRow]:
    """The tables that have columns of all these names at `snapshot`."""
    c = t.ducklake_column
    is_named = or_(*(c.c.column_name == name for name in names))
    found = select(c.c.table_id).where(live_at(c), c.c.parent_column.is_(None), is_named).group_by(c.c.table_id)
    return Query(TableIdRow, found.having(func.count() == literal_column(str(len(names)))))
