"""What expiry writes to the catalog (format §13), as statements on whole tables: none is run for each row.

A row with an end is seen by no snapshot when none is left of `[begin, end)`. All before the oldest one that is left are
gone, so its id tells that of most rows; ids that are missing after it (`has_holes`) have to be looked for.
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Delete,
    Insert,
    Select,
    Table,
    and_,
    bindparam,
    delete,
    exists,
    func,
    insert,
    or_,
    select,
)
from sqlalchemy.sql.selectable import FromClause

from ducklake_core.catalog.file_paths import placed
from ducklake_core.spec.tables import CatalogTables

# What else belongs to a table, and goes when no snapshot sees any version of it.
_OF_TABLES = (
    "ducklake_table_stats",
    "ducklake_table_column_stats",
    "ducklake_partition_info",
    "ducklake_partition_column",
    "ducklake_column",
    "ducklake_column_tag",
    "ducklake_sort_info",
    "ducklake_sort_expression",
    "ducklake_schema_versions",
    "ducklake_column_mapping",
    "ducklake_inlined_data_tables",
)
_OF_DATA_FILES = ("ducklake_file_column_stats", "ducklake_file_variant_stats", "ducklake_file_partition_value")
_BY_THEMSELVES = ("ducklake_view", "ducklake_schema", "ducklake_tag", "ducklake_macro")


@cache
def snapshot_ages(t: CatalogTables) -> Select[Any]:
    s = t.ducklake_snapshot
    return select(s.c.snapshot_id, s.c.snapshot_time).order_by(s.c.snapshot_id)


@lru_cache(maxsize=64)
def delete_snapshots(table: Table) -> Delete:
    """Those from the id bound as `first` to the one bound as `last`."""
    first, last = bindparam("first", type_=BigInteger), bindparam("last", type_=BigInteger)
    return delete(table).where(table.c.snapshot_id.between(first, last))


@cache
def dead_tables(t: CatalogTables, *, has_holes: bool) -> Select[Any]:
    """The ids of tables of which no version is seen."""
    one, other = t.ducklake_table.alias("one"), t.ducklake_table.alias("other")
    is_seen = exists().where(other.c.table_id == one.c.table_id, ~_is_unseen(t, other, has_holes=has_holes))
    return select(one.c.table_id).distinct().where(_is_unseen(t, one, has_holes=has_holes), ~is_seen)


@lru_cache(maxsize=64)
def count_files(t: CatalogTables, name: str, *, has_holes: bool) -> Select[int, int]:
    """How many data files or delete files are seen no more, and their bytes."""
    table: Table = getattr(t, name)
    condition = _is_dead_file(t, table, has_holes=has_holes)
    size = func.coalesce(func.sum(table.c.file_size_bytes), 0).cast(BigInteger)
    return select(func.count(), size).select_from(table).where(condition)


@cache
def file_statements(t: CatalogTables, *, has_holes: bool) -> tuple[Insert | Delete, ...]:
    """Return what schedules the files that are seen no more, and takes them out of the catalog."""
    data, deletes = t.ducklake_data_file, t.ducklake_delete_file
    schedules = [_schedule(t, files, has_holes=has_holes) for files in (data, deletes)]
    dead = select(data.c.data_file_id).where(_is_dead_file(t, data, has_holes=has_holes))
    parts: list[Table] = [getattr(t, name) for name in _OF_DATA_FILES]
    removals = [delete(part).where(part.c.data_file_id.in_(dead)) for part in parts]
    removals += [delete(files).where(_is_dead_file(t, files, has_holes=has_holes)) for files in (deletes, data)]
    return (*schedules, *removals)


@cache
def table_statements(t: CatalogTables, *, has_holes: bool) -> tuple[Delete, ...]:
    """Return what takes tables that are seen no more out of the catalog, without their files and inlined rows."""
    dead = dead_tables(t, has_holes=has_holes)
    mappings, names = t.ducklake_column_mapping, t.ducklake_name_mapping
    dead_mappings = select(mappings.c.mapping_id).where(mappings.c.table_id.in_(dead))
    parts: list[Table] = [getattr(t, name) for name in _OF_TABLES]
    removals = [delete(part).where(part.c.table_id.in_(dead)) for part in (*parts, t.ducklake_table)]
    return (delete(names).where(names.c.mapping_id.in_(dead_mappings)), *removals)


@cache
def other_statements(t: CatalogTables, *, has_holes: bool) -> tuple[Delete, ...]:
    """Return what takes views, schemas, tags and macros that are seen no more out of the catalog."""
    macros = t.ducklake_macro
    gone = select(macros.c.macro_id).where(_is_unseen(t, macros, has_holes=has_holes))
    parts = (t.ducklake_macro_impl, t.ducklake_macro_parameters)
    others: list[Table] = [getattr(t, name) for name in _BY_THEMSELVES]
    removals = [delete(part).where(part.c.macro_id.in_(gone)) for part in parts]
    return (*removals, *(delete(one).where(_is_unseen(t, one, has_holes=has_holes)) for one in others))


def _is_unseen(t: CatalogTables, table: FromClause, *, has_holes: bool) -> ColumnElement[bool]:
    """Return the condition that no snapshot sees a row; `oldest` is bound to the id of the first one that is left."""
    begin, end = table.c.begin_snapshot, table.c.end_snapshot
    oldest = bindparam("oldest", type_=BigInteger)
    has_ended = end.is_not(None)  # in each case: what is NULL for a live row would be so when negated, too
    if not has_holes:
        return and_(has_ended, end <= oldest)
    s = t.ducklake_snapshot
    is_between = exists().where(s.c.snapshot_id >= begin, s.c.snapshot_id < end)
    return and_(has_ended, or_(end <= oldest, and_(begin > oldest, ~is_between)))


def _is_dead_file(t: CatalogTables, table: Table, *, has_holes: bool) -> ColumnElement[bool]:
    dead = dead_tables(t, has_holes=has_holes)
    is_gone = or_(_is_unseen(t, table, has_holes=has_holes), table.c.table_id.in_(dead))
    if table is t.ducklake_data_file:
        return is_gone
    data = t.ducklake_data_file.alias("data")
    dead_data = or_(_is_unseen(t, data, has_holes=has_holes), data.c.table_id.in_(dead))
    return or_(is_gone, table.c.data_file_id.in_(select(data.c.data_file_id).where(dead_data)))


def _schedule(t: CatalogTables, files: Table, *, has_holes: bool) -> Insert:
    """Files are scheduled by their paths below the data path; `now` is bound to the time."""
    target, found = t.ducklake_files_scheduled_for_deletion, placed(t, files)
    now = bindparam("now", type_=target.c.schedule_start.type)
    dead = select(found.file_id, found.path, found.is_relative, now).select_from(found.source)
    dead = dead.where(_is_dead_file(t, files, has_holes=has_holes))
    return insert(target).from_select(["data_file_id", "path", "path_is_relative", "schedule_start"], dead)
