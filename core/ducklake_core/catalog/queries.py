"""Every SELECT on the catalog, as SQLAlchemy statements; the same object each time, so that it compiles once."""

from __future__ import annotations

from functools import cache, lru_cache, reduce
from operator import add
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
    true,
)
from sqlalchemy import cast as sql_cast

from ducklake_core.spec.tables import CatalogTables

_SUMMANDS = 200
_MOST_CHANGES = 10_000  # combinations of tables that one stream has written to at once
HEAD_COLUMNS = ("snapshot_id", "snapshot_time", "schema_version", "next_catalog_id", "next_file_id")


def live_at(table: Table) -> ColumnElement[bool]:
    """Return the condition that a row is live at the snapshot bound as `snapshot`."""
    snapshot: BindParameter[int] = bindparam("snapshot")
    return and_(
        table.c.begin_snapshot <= snapshot, or_(table.c.end_snapshot.is_(None), table.c.end_snapshot > snapshot)
    )


@cache
def head(t: CatalogTables) -> Select[Any]:
    return select(t.ducklake_snapshot).order_by(t.ducklake_snapshot.c.snapshot_id.desc()).limit(1)


@cache
def oldest(t: CatalogTables) -> Select[Any]:
    """The oldest snapshot that has not expired."""
    return select(t.ducklake_snapshot).order_by(t.ducklake_snapshot.c.snapshot_id).limit(1)


@cache
def head_and_base(t: CatalogTables) -> Select[Any]:
    """The head, then the snapshot with the id bound as `base`, unless that is the head or has expired."""
    s, every = t.ducklake_snapshot, t.ducklake_snapshot.alias("every")
    newest = select(func.max(every.c.snapshot_id)).scalar_subquery()
    wanted = or_(s.c.snapshot_id == newest, s.c.snapshot_id == bindparam("base"))
    return select(s).where(wanted).order_by(s.c.snapshot_id.desc())


@cache
def version(t: CatalogTables) -> Select[Any]:
    """The format of the lake: one row."""
    return select(t.ducklake_metadata.c.value).where(*is_version(t))


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
def snapshots(t: CatalogTables) -> Select[Any]:
    """Every snapshot with its changes; those without a changes row have nulls."""
    s, c = t.ducklake_snapshot, t.ducklake_snapshot_changes
    columns = (s, c.c.changes_made, c.c.author, c.c.commit_message, c.c.commit_extra_info)
    return select(*columns).select_from(s.outerjoin(c, s.c.snapshot_id == c.c.snapshot_id)).order_by(s.c.snapshot_id)


@cache
def snapshots_since(t: CatalogTables) -> Select[Any]:
    """The same of those not before the time bound as `time`."""
    return snapshots(t).where(t.ducklake_snapshot.c.snapshot_time >= bindparam("time"))


@cache
def snapshot_and_changes(t: CatalogTables) -> Select[Any]:
    """The same of the one bound as `snapshot`."""
    return snapshots(t).where(t.ducklake_snapshot.c.snapshot_id == bindparam("snapshot"))


@cache
def inlining_changes(t: CatalogTables) -> Select[Any]:
    """What snapshots changed that inlined rows and whose extra info begins as bound, each text once, newest first.

    No LIKE for the beginning: SQLite's knows no case, and a stream may be called `a_b`.
    """
    c = t.ducklake_snapshot_changes
    beginning = func.substr(c.c.commit_extra_info, literal_column("1"), bindparam("length", type_=Integer))
    is_wanted = c.c.changes_made.like("%inlined_insert:%"), beginning == bindparam("told")
    found = select(c.c.changes_made).where(*is_wanted)
    return found.group_by(c.c.changes_made).order_by(func.max(c.c.snapshot_id).desc()).limit(_MOST_CHANGES)


@cache
def snapshot_by_id(t: CatalogTables) -> Select[Any]:
    return select(t.ducklake_snapshot).where(t.ducklake_snapshot.c.snapshot_id == bindparam("snapshot"))


@cache
def snapshot_at_time(t: CatalogTables) -> Select[Any]:
    """The last snapshot not after the time bound as `time`."""
    s = t.ducklake_snapshot
    return select(s).where(s.c.snapshot_time <= bindparam("time")).order_by(s.c.snapshot_id.desc()).limit(1)


@cache
def snapshot_since_time(t: CatalogTables) -> Select[Any]:
    """The first snapshot not before the time bound as `time`."""
    s = t.ducklake_snapshot
    return select(s).where(s.c.snapshot_time >= bindparam("time")).order_by(s.c.snapshot_id).limit(1)


@cache
def changes_since(t: CatalogTables) -> Select[Any]:
    """The snapshots after the one bound as `base`, each with its changes."""
    s, c = t.ducklake_snapshot, t.ducklake_snapshot_changes
    joined = s.outerjoin(c, s.c.snapshot_id == c.c.snapshot_id)
    later = select(s.c.snapshot_id, c.c.changes_made).select_from(joined).where(s.c.snapshot_id > bindparam("base"))
    return later.order_by(s.c.snapshot_id)


@cache
def history(t: CatalogTables) -> Select[Any]:
    """The snapshots after `start` up to `end` with their changes, and before them the newest one not after `start`.

    The range stands beside the changes, too, so that PostgreSQL takes their key's index.
    """
    s, c, older = t.ducklake_snapshot, t.ducklake_snapshot_changes, t.ducklake_snapshot.alias("older")
    base = select(func.max(older.c.snapshot_id)).where(older.c.snapshot_id <= bindparam("start")).scalar_subquery()
    columns = s.c.snapshot_id, s.c.snapshot_time, s.c.schema_version, s.c.next_file_id, c.c.changes_made
    is_in_range = c.c.snapshot_id > bindparam("start"), c.c.snapshot_id <= bindparam("end")
    found = select(*columns).select_from(s.outerjoin(c, and_(s.c.snapshot_id == c.c.snapshot_id, *is_in_range)))
    first = func.coalesce(base, bindparam("start"))
    return found.where(s.c.snapshot_id >= first, s.c.snapshot_id <= bindparam("end")).order_by(s.c.snapshot_id)


@cache
def metadata(t: CatalogTables) -> Select[Any]:
    return select(t.ducklake_metadata)


@cache
def schemas(t: CatalogTables) -> Select[Any]:
    return select(t.ducklake_schema).where(live_at(t.ducklake_schema)).order_by(t.ducklake_schema.c.schema_id)


@cache
def views(t: CatalogTables) -> Select[Any]:
    return select(t.ducklake_view).where(live_at(t.ducklake_view))


@cache
def table_named(t: CatalogTables) -> Select[Any]:
    """The live table of a schema with this name, regardless of case."""
    table, schema = t.ducklake_table, t.ducklake_schema
    names = _same_name(table.c.table_name, "table_name"), _same_name(schema.c.schema_name, "schema_name")
    return _tables_with_schema(t).where(*names)


@cache
def table_numbered(t: CatalogTables) -> Select[Any]:
    """The live table with this id."""
    return _tables_with_schema(t).where(t.ducklake_table.c.table_id == bindparam("table_id"))


@cache
def tables_with_schema(t: CatalogTables) -> Select[Any]:
    """Every live table."""
    return _tables_with_schema(t).order_by(t.ducklake_schema.c.schema_name, t.ducklake_table.c.table_name)


def _tables_with_schema(t: CatalogTables) -> Select[Any]:
    table, schema = t.ducklake_table, t.ducklake_schema
    path = schema.c.path.label("schema_path"), schema.c.path_is_relative.label("schema_path_is_relative")
    return (
        select(table, schema.c.schema_name, *path)
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
def of_table(t: CatalogTables, name: str) -> Select[Any]:
    """All rows, live and ended, of a catalog table for the table bound as `table_id`."""
    table: Table = getattr(t, name)
    return select(table).where(table.c.table_id == bindparam("table_id"))


@cache
def tags_of(t: CatalogTables) -> Select[Any]:
    return select(t.ducklake_tag).where(t.ducklake_tag.c.object_id == bindparam("table_id"))


@cache
def data_files(t: CatalogTables) -> Select[Any]:
    """The data files live at `snapshot`, each with its live delete files: a row for each, or one without any."""
    return _data_files(t, live_at(t.ducklake_delete_file)).where(live_at(t.ducklake_data_file))


@lru_cache(maxsize=512)
def data_files_among(t: CatalogTables, file_ids: Table) -> Select[Any]:
    """The data files, live or ended, that a table of inlined deletes names, each with all its delete files.

    The ended ones, too: a rewrite ends a file with its delete file, and its inlined deletes stay.
    """
    named = select(file_ids.c.file_id).where(file_ids.c.begin_snapshot <= bindparam("snapshot"))
    files = _data_files(t, true())
    return files.where(t.ducklake_data_file.c.data_file_id.in_(named))


@cache
def new_data_files(t: CatalogTables) -> Select[Any]:
    """The data files that may hold rows inserted after `start` up to `end`, each with all its delete files.

    Every one was registered after the start, by a commit, a flush or a merge: its id is `first_id` at least, and so
    are those of its delete files. There may be some although nothing was deleted from the table as the snapshots tell
    it: a transaction of the reference that deletes rows that it has inserted says only that it inserts.
    """
    d = t.ducklake_data_file
    start = bindparam("start", type_=BigInteger)
    is_new = or_(d.c.begin_snapshot > start, d.c.partial_max > start)
    return _data_files(t, _is_new_id(t.ducklake_delete_file.c.delete_file_id)).where(
        _is_new_id(d.c.data_file_id), d.c.begin_snapshot <= bindparam("end"), is_new
    )


def _is_new_id(file_id: ColumnElement[int]) -> ColumnElement[bool]:
    """Return the condition that an id is `first_id` or later.

    With both ends PostgreSQL expects few of them, and takes the key's index, whether it knows the table well or not.
    """
    return file_id.between(bindparam("first_id", type_=BigInteger), literal_column(str(2**62)))


@cache
def data_files_with_new_deletes(t: CatalogTables) -> Select[Any]:
    """The data files with a delete file that was registered after the start, each with all its delete files."""
    d, new = t.ducklake_data_file, t.ducklake_delete_file.alias("new")
    named = select(new.c.data_file_id).where(
        _is_new_id(new.c.delete_file_id),
        new.c.table_id == bindparam("table_id"),
        new.c.begin_snapshot <= bindparam("end"),
    )
    return _data_files(t, true()).where(d.c.data_file_id.in_(named))


@cache
def data_files_ended(t: CatalogTables) -> Select[Any]:
    """The data files that ended after `start` up to `end`, each with all its delete files."""
    d = t.ducklake_data_file
    ended = d.c.end_snapshot > bindparam("start"), d.c.end_snapshot <= bindparam("end")
    return _data_files(t, true()).where(*ended)


@lru_cache(maxsize=512)
def data_files_with_new_inlined_deletes(t: CatalogTables, deletes: Table) -> Select[Any]:
    """The data files of which a row was deleted by a catalog row after `start` up to `end`."""
    new = deletes.c.begin_snapshot > bindparam("start"), deletes.c.begin_snapshot <= bindparam("end")
    named = select(deletes.c.file_id).where(*new)
    return _data_files(t, true()).where(t.ducklake_data_file.c.data_file_id.in_(named))


def _data_files(t: CatalogTables, delete_is_live: ColumnElement[bool]) -> Select[Any]:
    d, x = t.ducklake_data_file, t.ducklake_delete_file
    deletes = (
        x.c.delete_file_id,
        x.c.path.label("delete_path"),
        x.c.path_is_relative.label("delete_path_is_relative"),
        x.c.format.label("delete_format"),
        x.c.begin_snapshot.label("delete_begin"),
        x.c.delete_count,
        x.c.encryption_key.label("delete_key"),
    )
    joined = d.outerjoin(x, and_(x.c.data_file_id == d.c.data_file_id, delete_is_live))
    found = select(d, *deletes).select_from(joined).where(d.c.table_id == bindparam("table_id"))
    return found.order_by(d.c.data_file_id, x.c.begin_snapshot)


@cache
def file_column_stats(t: CatalogTables) -> Select[Any]:
    """The statistics of one column over the table's files."""
    s = t.ducklake_file_column_stats
    return select(s).where(s.c.table_id == bindparam("table_id"), s.c.column_id == bindparam("column_id"))


@cache
def name_mappings(t: CatalogTables) -> Select[Any]:
    m, n = t.ducklake_column_mapping, t.ducklake_name_mapping
    joined = m.join(n, m.c.mapping_id == n.c.mapping_id)
    return select(n, m.c.type).select_from(joined).where(m.c.table_id == bindparam("table_id")).order_by(n.c.column_id)


@cache
def table_stats(t: CatalogTables) -> Select[Any]:
    """The statistics of a table, beside those of each of its columns; one row at least where there are any."""
    s, c = t.ducklake_table_stats, t.ducklake_table_column_stats
    columns = (c.c.column_id, c.c.contains_null, c.c.contains_nan, c.c.min_value, c.c.max_value, c.c.extra_stats)
    joined = s.outerjoin(c, c.c.table_id == s.c.table_id)
    return (
        select(s.c.record_count, s.c.next_row_id, s.c.file_size_bytes, *columns)
        .select_from(joined)
        .where(s.c.table_id == bindparam("table_id"))
    )


@cache
def file_totals(t: CatalogTables) -> Select[Any]:
    """Rows and bytes of all files of a table, live and ended, and where their row ids end."""
    d = t.ducklake_data_file
    totals = func.sum(d.c.record_count), func.max(d.c.row_id_start + d.c.record_count), func.sum(d.c.file_size_bytes)
    whole: list[ColumnElement[Any]] = [sql_cast(func.coalesce(total, 0), BigInteger) for total in totals]
    return select(*whole).where(d.c.table_id == bindparam("table_id"))


def inlined_totals(inlined: Table) -> Select[Any]:
    """The row versions of an inlined table, and where their row ids end."""
    totals: list[ColumnElement[Any]] = [func.count(), func.coalesce(func.max(inlined.c.row_id) + 1, 0)]
    return select(*totals).select_from(inlined)


def row_count_and_bytes(inlined: Table, dialect: str) -> Select[Any]:
    """The row versions of an inlined table, and an estimate of their bytes.

    On PostgreSQL the size of each row as stored; SQLite does not tell, so the length of each value in characters.
    """
    size = func.pg_column_size(inlined.table_valued()) if dialect == "postgresql" else characters_of_row(inlined)
    totals: list[ColumnElement[Any]] = [func.count(), func.coalesce(sql_cast(func.sum(size), BigInteger), 0)]
    return select(*totals).select_from(inlined)


def characters_of_row(inlined: Table) -> ColumnElement[Any]:
    """The length of all values of a row of SQLite.

    A sum of sums: an expression of SQLite may be 1,000 deep (https://www.sqlite.org/limits.html), each `+` adds to it,
    and SQLAlchemy leaves out parentheses around sums, but not around what a function is given.
    """
    lengths = [func.coalesce(func.length(column), 0) for column in inlined.columns]
    sums = [reduce(add, lengths[i : i + _SUMMANDS]) for i in range(0, len(lengths), _SUMMANDS)]
    return reduce(add, (func.coalesce(part, 0) for part in sums)) if len(sums) > 1 else sums[0]


def inlined_state(t: CatalogTables, inlined: Table, dialect: str) -> Select[Any]:
    """Row versions and bytes of an inlined table, how many have ended, and the time of the oldest one's snapshot.

    Where that snapshot has expired, of the first one after it that has not.
    """
    snapshot = t.ducklake_snapshot
    oldest = select(func.min(inlined.c.begin_snapshot)).scalar_subquery()
    time = select(snapshot.c.snapshot_time).where(snapshot.c.snapshot_id >= oldest)
    ended = func.count(inlined.c.end_snapshot) if "end_snapshot" in inlined.c else literal(0)
    first = time.order_by(snapshot.c.snapshot_id).limit(1).scalar_subquery()
    return row_count_and_bytes(inlined, dialect).add_columns(ended, first)
