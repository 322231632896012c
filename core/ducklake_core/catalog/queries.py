"""Every question to the catalog but those for files: the same object each time, so that its SELECT compiles once."""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Any

from sqlalchemy import (
    BigInteger,
    BindParameter,
    ColumnElement,
    Integer,
    Select,
    Table,
    and_,
    bindparam,
    exists,
    func,
    literal,
    literal_column,
    or_,
    select,
)
from sqlalchemy import cast as sql_cast
from sqlalchemy.engine import Dialect

from ducklake_core.catalog.query import NamedRow, Query, select_fields, select_labelled
from ducklake_core.spec.rows import (
    ChangesRow,
    ChangesTextRow,
    ColumnRow,
    ColumnTagRow,
    HistoryRow,
    InlinedStateRow,
    InlinedTableRow,
    InlinedTotalsRow,
    MetadataRow,
    PartitionColumnRow,
    PartitionInfoRow,
    SchemaRow,
    SchemaVersionRow,
    SnapshotRow,
    SortExpressionRow,
    SortInfoRow,
    TableRow,
    TableStatsRow,
    TagRow,
    ToldSnapshotRow,
    VersionRow,
    ViewRow,
)
from ducklake_core.spec.tables import CatalogTables

_MAX_CHANGES = 10_000  # combinations of tables that one stream has written to at once
HEAD_COLUMNS = ("snapshot_id", "snapshot_time", "schema_version", "next_catalog_id", "next_file_id")


def live_at(table: Table) -> ColumnElement[bool]:
    """Return the condition that a row is live at the snapshot bound as `snapshot`."""
    snapshot: BindParameter[int] = bindparam("snapshot")
    return and_(
        table.c.begin_snapshot <= snapshot, or_(table.c.end_snapshot.is_(None), table.c.end_snapshot > snapshot)
    )


@cache
def head(t: CatalogTables) -> Query[SnapshotRow]:
    newest = _snapshots(t).order_by(t.ducklake_snapshot.c.snapshot_id.desc()).limit(1)
    return Query(SnapshotRow, newest)


def _snapshots(t: CatalogTables) -> Select[Any]:
    return select_fields(SnapshotRow, t.ducklake_snapshot)


@cache
def oldest(t: CatalogTables) -> Query[SnapshotRow]:
    """The oldest snapshot that has not expired."""
    return Query(SnapshotRow, _snapshots(t).order_by(t.ducklake_snapshot.c.snapshot_id).limit(1))


@cache
def head_and_base(t: CatalogTables) -> Query[SnapshotRow]:
    """The head, then the snapshot with the id bound as `base`, unless that is the head or has expired."""
    s, every = t.ducklake_snapshot, t.ducklake_snapshot.alias("every")
    newest = select(func.max(every.c.snapshot_id)).scalar_subquery()
    wanted = or_(s.c.snapshot_id == newest, s.c.snapshot_id == bindparam("base"))
    return Query(SnapshotRow, _snapshots(t).where(wanted).order_by(s.c.snapshot_id.desc()))


@cache
def version(t: CatalogTables) -> Query[VersionRow]:
    """The format of the lake: one row."""
    return Query(VersionRow, select(t.ducklake_metadata.c.value).where(*is_version(t)))


@lru_cache(maxsize=64)  # each engine has a dialect of its own
def version_sql(t: CatalogTables, dialect: Dialect) -> str:
    """The same as a text for a driver, which every transaction asks."""
    return str(version(t).select.compile(dialect=dialect, compile_kwargs={"literal_binds": True}))


def is_version(t: CatalogTables) -> tuple[ColumnElement[bool], ...]:
    """Return the condition that a row of `ducklake_metadata` is the lake's format, and not an option of some scope."""
    metadata = t.ducklake_metadata
    return metadata.c.key == literal_column("'version'"), func.coalesce(metadata.c.scope, "") == literal_column("''")


@cache
def guard(t: CatalogTables, epochs: Table | None = None) -> Select[Any]:
    """Fail by a division by zero unless format, head, and the ledger's entry where it is asked for, are those given."""
    s, every = t.ducklake_snapshot, t.ducklake_snapshot.alias("every")
    newest = select(func.max(every.c.snapshot_id)).scalar_subquery()
    found: Select[Any] = select(literal_column("1") // func.count()).select_from(s)
    found = found.where(s.c.snapshot_id == newest, *(s.c[name] == bindparam(f"head_{name}") for name in HEAD_COLUMNS))
    found = found.where(exists().where(*is_version(t), t.ducklake_metadata.c.value == bindparam("version")))
    if epochs is None:
        return found
    same = (column.is_not_distinct_from(bindparam(f"entry_{column.name}")) for column in epochs.columns)
    return found.where(exists().where(*same))


@cache
def snapshots(t: CatalogTables) -> Query[ToldSnapshotRow]:
    """Every snapshot with what it tells of itself."""
    return Query(ToldSnapshotRow, _told_snapshots(t))


def _told_snapshots(t: CatalogTables) -> Select[Any]:
    s, c = t.ducklake_snapshot, t.ducklake_snapshot_changes
    told = (c.c.changes_made, c.c.author, c.c.commit_message, c.c.commit_extra_info)
    joined = s.outerjoin(c, s.c.snapshot_id == c.c.snapshot_id)
    return select_fields(ToldSnapshotRow, s, *told).select_from(joined).order_by(s.c.snapshot_id)


@cache
def snapshots_since(t: CatalogTables) -> Query[ToldSnapshotRow]:
    """The same of those not before the time bound as `time`."""
    return Query(ToldSnapshotRow, _told_snapshots(t).where(t.ducklake_snapshot.c.snapshot_time >= bindparam("time")))


@cache
def newest_snapshots(t: CatalogTables) -> Query[ToldSnapshotRow]:
    """Of those not before the time bound as `time` the newest, so many as bound as `limit`; the newest first."""
    s = t.ducklake_snapshot
    found = _told_snapshots(t).where(s.c.snapshot_time >= bindparam("time")).order_by(None)
    newest = found.order_by(s.c.snapshot_id.desc()).limit(bindparam("limit", type_=Integer))
    return Query(ToldSnapshotRow, newest)


@cache
def snapshot_and_changes(t: CatalogTables) -> Query[ToldSnapshotRow]:
    """The same of the one bound as `snapshot`."""
    is_wanted = t.ducklake_snapshot.c.snapshot_id == bindparam("snapshot")
    return Query(ToldSnapshotRow, _told_snapshots(t).where(is_wanted))


@cache
def inlining_changes(t: CatalogTables) -> Query[ChangesTextRow]:
    """What snapshots changed that inlined rows and whose extra info begins as bound, each text once, newest first.

    No LIKE for the beginning: SQLite's knows no case, and a stream may be called `a_b`.
    """
    c = t.ducklake_snapshot_changes
    beginning = func.substr(c.c.commit_extra_info, literal_column("1"), bindparam("length", type_=Integer))
    is_wanted = c.c.changes_made.like("%inlined_insert:%"), beginning == bindparam("told")
    found = select(c.c.changes_made).where(*is_wanted).group_by(c.c.changes_made)
    return Query(ChangesTextRow, found.order_by(func.max(c.c.snapshot_id).desc()).limit(_MAX_CHANGES))


@cache
def snapshot_by_id(t: CatalogTables) -> Query[SnapshotRow]:
    return Query(SnapshotRow, _snapshots(t).where(t.ducklake_snapshot.c.snapshot_id == bindparam("snapshot")))


@cache
def snapshot_at_time(t: CatalogTables) -> Query[SnapshotRow]:
    """The last snapshot not after the time bound as `time`."""
    s = t.ducklake_snapshot
    earlier = _snapshots(t).where(s.c.snapshot_time <= bindparam("time"))
    return Query(SnapshotRow, earlier.order_by(s.c.snapshot_id.desc()).limit(1))


@cache
def snapshot_since_time(t: CatalogTables) -> Query[SnapshotRow]:
    """The first snapshot not before the time bound as `time`."""
    s = t.ducklake_snapshot
    later = _snapshots(t).where(s.c.snapshot_time >= bindparam("time"))
    return Query(SnapshotRow, later.order_by(s.c.snapshot_id).limit(1))


@cache
def changes_since(t: CatalogTables) -> Query[ChangesRow]:
    """The snapshots after the one bound as `base`, each with its changes."""
    s, c = t.ducklake_snapshot, t.ducklake_snapshot_changes
    found = select_fields(ChangesRow, s, c.c.changes_made)
    later = found.select_from(s.outerjoin(c, s.c.snapshot_id == c.c.snapshot_id))
    return Query(ChangesRow, later.where(s.c.snapshot_id > bindparam("base")).order_by(s.c.snapshot_id))


@cache
def history(t: CatalogTables) -> Query[HistoryRow]:
    """The snapshots after `start` up to `end` with their changes, and before them the newest one not after `start`.

    The range stands beside the changes, too, so that PostgreSQL takes their key's index.
    """
    s, c, older = t.ducklake_snapshot, t.ducklake_snapshot_changes, t.ducklake_snapshot.alias("older")
    base = select(func.max(older.c.snapshot_id)).where(older.c.snapshot_id <= bindparam("start")).scalar_subquery()
    is_in_range = c.c.snapshot_id > bindparam("start"), c.c.snapshot_id <= bindparam("end")
    joined = s.outerjoin(c, and_(s.c.snapshot_id == c.c.snapshot_id, *is_in_range))
    first = func.coalesce(base, bindparam("start"))
    found = select_fields(HistoryRow, s, c.c.changes_made).select_from(joined)
    found = found.where(s.c.snapshot_id >= first, s.c.snapshot_id <= bindparam("end"))
    return Query(HistoryRow, found.order_by(s.c.snapshot_id))


@cache
def metadata(t: CatalogTables) -> Query[MetadataRow]:
    return Query(MetadataRow, select_fields(MetadataRow, t.ducklake_metadata))


@cache
def schemas(t: CatalogTables) -> Query[SchemaRow]:
    live = select_fields(SchemaRow, t.ducklake_schema).where(live_at(t.ducklake_schema))
    return Query(SchemaRow, live.order_by(t.ducklake_schema.c.schema_id))


@cache
def views(t: CatalogTables) -> Query[ViewRow]:
    return Query(ViewRow, select_fields(ViewRow, t.ducklake_view).where(live_at(t.ducklake_view)))


@cache
def table_named(t: CatalogTables) -> Query[TableRow]:
    """The live table of a schema with this name, regardless of case."""
    table, schema = t.ducklake_table, t.ducklake_schema
    names = _same_name(table.c.table_name, "table_name"), _same_name(schema.c.schema_name, "schema_name")
    return Query(TableRow, _tables_with_schema(t).where(*names))


@cache
def table_numbered(t: CatalogTables) -> Query[TableRow]:
    """The live table with this id."""
    return Query(TableRow, _tables_with_schema(t).where(t.ducklake_table.c.table_id == bindparam("table_id")))


@cache
def tables_with_schema(t: CatalogTables) -> Query[TableRow]:
    """Every live table."""
    names = t.ducklake_schema.c.schema_name, t.ducklake_table.c.table_name
    return Query(TableRow, _tables_with_schema(t).order_by(*names))


def _tables_with_schema(t: CatalogTables) -> Select[Any]:
    table, schema = t.ducklake_table, t.ducklake_schema
    path = schema.c.path.label("schema_path"), schema.c.path_is_relative.label("schema_path_is_relative")
    return (
        select_fields(TableRow, table, schema.c.schema_name, *path)
        .select_from(table.join(schema, table.c.schema_id == schema.c.schema_id))
        .where(live_at(table), live_at(schema))
    )


def _same_name(column: ColumnElement[str], name: str) -> ColumnElement[bool]:
    """Names are equal regardless of ASCII case, as in DuckDB. This may find more, which the reader leaves out.

    SQLite's lower() leaves other letters alone, that of PostgreSQL does so or not by the database's locale.
    """
    lower = func.lower(column)
    return or_(column == bindparam(name), lower == bindparam(f"folded_{name}"), lower == bindparam(f"lower_{name}"))


@cache
def columns(t: CatalogTables) -> Query[ColumnRow]:
    """All rows, live and ended, of the table bound as `table_id`; so are those of the queries below."""
    return _of_table(ColumnRow, t.ducklake_column)


@cache
def column_tags(t: CatalogTables) -> Query[ColumnTagRow]:
    return _of_table(ColumnTagRow, t.ducklake_column_tag)


@cache
def partition_infos(t: CatalogTables) -> Query[PartitionInfoRow]:
    return _of_table(PartitionInfoRow, t.ducklake_partition_info)


@cache
def partition_columns(t: CatalogTables) -> Query[PartitionColumnRow]:
    return _of_table(PartitionColumnRow, t.ducklake_partition_column)


@cache
def sort_infos(t: CatalogTables) -> Query[SortInfoRow]:
    return _of_table(SortInfoRow, t.ducklake_sort_info)


@cache
def sort_expressions(t: CatalogTables) -> Query[SortExpressionRow]:
    return _of_table(SortExpressionRow, t.ducklake_sort_expression)


@cache
def inlined_tables(t: CatalogTables) -> Query[InlinedTableRow]:
    return _of_table(InlinedTableRow, t.ducklake_inlined_data_tables)


@cache
def schema_versions(t: CatalogTables) -> Query[SchemaVersionRow]:
    return _of_table(SchemaVersionRow, t.ducklake_schema_versions)


def _of_table(row: type[NamedRow], table: Table) -> Query[NamedRow]:
    return Query(row, select_fields(row, table).where(table.c.table_id == bindparam("table_id")))


@cache
def tags(t: CatalogTables) -> Query[TagRow]:
    of_object = t.ducklake_tag.c.object_id == bindparam("table_id")
    return Query(TagRow, select_fields(TagRow, t.ducklake_tag).where(of_object))


@cache
def table_stats(t: CatalogTables) -> Query[TableStatsRow]:
    """The statistics of a table, beside those of each of its columns; one row at least where there are any."""
    s, c = t.ducklake_table_stats, t.ducklake_table_column_stats
    columns = (c.c.column_id, c.c.contains_null, c.c.contains_nan, c.c.min_value, c.c.max_value, c.c.extra_stats)
    joined = s.outerjoin(c, c.c.table_id == s.c.table_id)
    found = select_fields(TableStatsRow, s, *columns).select_from(joined)
    return Query(TableStatsRow, found.where(s.c.table_id == bindparam("table_id")))


def inlined_totals(inlined: Table) -> Query[InlinedTotalsRow]:
    """The row versions of an inlined table, and where their row ids end."""
    totals = {"row_count": func.count(), "next_row_id": func.coalesce(func.max(inlined.c.row_id) + 1, 0)}
    return Query(InlinedTotalsRow, select_labelled(totals).select_from(inlined))


def row_count_and_bytes(inlined: Table, row_size: ColumnElement[Any]) -> Select[Any]:
    """The row versions of an inlined table, and the sum of their sizes, as the database estimates one."""
    totals = {"row_count": func.count(), "size_bytes": func.coalesce(sql_cast(func.sum(row_size), BigInteger), 0)}
    return select_labelled(totals).select_from(inlined)


def inlined_state(t: CatalogTables, inlined: Table, row_size: ColumnElement[Any]) -> Query[InlinedStateRow]:
    """Row versions and bytes of an inlined table, how many have ended, and the time of the oldest one's snapshot.

    Where that snapshot has expired, of the first one after it that has not.
    """
    snapshot = t.ducklake_snapshot
    oldest = select(func.min(inlined.c.begin_snapshot)).scalar_subquery()
    time = select(snapshot.c.snapshot_time).where(snapshot.c.snapshot_id >= oldest)
    ended = func.count(inlined.c.end_snapshot) if "end_snapshot" in inlined.c else literal(0)
    first = time.order_by(snapshot.c.snapshot_id).limit(1).scalar_subquery()
    totals = row_count_and_bytes(inlined, row_size)
    return Query(InlinedStateRow, totals.add_columns(ended.label("ended_rows"), first.label("oldest")))
