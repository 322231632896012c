"""Every question to the catalog for files: the same object each time, so that its SELECT compiles once."""

from __future__ import annotations

from collections.abc import Collection
from functools import cache, lru_cache

from sqlalchemy import BigInteger, ColumnElement, Table, and_, bindparam, func, literal_column, or_, select, true
from sqlalchemy import cast as sql_cast

from ducklake_core.catalog.queries import live_at
from ducklake_core.catalog.query import NamedRow, Query, select_fields, select_labelled
from ducklake_core.spec.rows import (
    DataFileRow,
    DeletedPositionRow,
    FileColumnStatsRow,
    FileTotalsRow,
    InlinedDeleteRow,
    NameMappingRow,
    PartitionValueRow,
)
from ducklake_core.spec.tables import CatalogTables


@cache
def data_files(t: CatalogTables) -> Query[DataFileRow]:
    """The data files live at `snapshot`, each with its live delete files: a row for each, or one without any."""
    return _data_files(t, live_at(t.ducklake_delete_file), live_at(t.ducklake_data_file))


def limited(query: Query[NamedRow], column: ColumnElement[int], ids: Collection[int]) -> Query[NamedRow]:
    """Return a query of which only the rows with one of some ids are wanted. It compiles anew each time."""
    numbers = [literal_column(str(int(number)), BigInteger) for number in ids]
    return Query(query.row, query.select.where(column.in_(numbers)))


@lru_cache(maxsize=512)
def data_files_among(t: CatalogTables, file_ids: Table) -> Query[DataFileRow]:
    """The data files, live or ended, that a table of inlined deletes names, each with all its delete files.

    The ended ones, too: a rewrite ends a file with its delete file, and its inlined deletes stay.
    """
    named = select(file_ids.c.file_id).where(file_ids.c.begin_snapshot <= bindparam("snapshot"))
    return _data_files(t, true(), t.ducklake_data_file.c.data_file_id.in_(named))


@cache
def new_data_files(t: CatalogTables) -> Query[DataFileRow]:
    """The data files that may hold rows inserted after `start` up to `end`, each with all its delete files.

    Every one was registered after the start, by a commit, a flush or a merge: its id is `first_id` at least, and so
    are those of its delete files. There may be some although nothing was deleted from the table as the snapshots tell
    it: a transaction of the reference that deletes rows that it has inserted says only that it inserts.
    """
    d = t.ducklake_data_file
    start = bindparam("start", type_=BigInteger)
    is_new = or_(d.c.begin_snapshot > start, d.c.partial_max > start)
    wanted = _is_new_id(d.c.data_file_id), d.c.begin_snapshot <= bindparam("end"), is_new
    return _data_files(t, _is_new_id(t.ducklake_delete_file.c.delete_file_id), *wanted)


def _is_new_id(file_id: ColumnElement[int]) -> ColumnElement[bool]:
    """Return the condition that an id is `first_id` or later.

    With both ends PostgreSQL expects few of them, and takes the key's index, whether it knows the table well or not.
    """
    return file_id.between(bindparam("first_id", type_=BigInteger), literal_column(str(2**62)))


@cache
def data_files_with_new_deletes(t: CatalogTables) -> Query[DataFileRow]:
    """The data files with a delete file that was registered after the start, each with all its delete files."""
    d, new = t.ducklake_data_file, t.ducklake_delete_file.alias("new")
    named = select(new.c.data_file_id).where(
        _is_new_id(new.c.delete_file_id),
        new.c.table_id == bindparam("table_id"),
        new.c.begin_snapshot <= bindparam("end"),
    )
    return _data_files(t, true(), d.c.data_file_id.in_(named))


@cache
def data_files_ended(t: CatalogTables) -> Query[DataFileRow]:
    """The data files that ended after `start` up to `end`, each with all its delete files."""
    d = t.ducklake_data_file
    ended = d.c.end_snapshot > bindparam("start"), d.c.end_snapshot <= bindparam("end")
    return _data_files(t, true(), *ended)


@lru_cache(maxsize=512)
def data_files_with_new_inlined_deletes(t: CatalogTables, deletes: Table) -> Query[DataFileRow]:
    """The data files of which a row was deleted by a catalog row after `start` up to `end`."""
    new = deletes.c.begin_snapshot > bindparam("start"), deletes.c.begin_snapshot <= bindparam("end")
    named = select(deletes.c.file_id).where(*new)
    return _data_files(t, true(), t.ducklake_data_file.c.data_file_id.in_(named))


def _data_files(
    t: CatalogTables, delete_is_live: ColumnElement[bool], *wanted: ColumnElement[bool]
) -> Query[DataFileRow]:
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
    found = select_fields(DataFileRow, d, *deletes).select_from(joined)
    found = found.where(d.c.table_id == bindparam("table_id"), *wanted)
    return Query(DataFileRow, found.order_by(d.c.data_file_id, x.c.begin_snapshot))


@cache
def file_column_stats(t: CatalogTables) -> Query[FileColumnStatsRow]:
    """The statistics of one column over the table's files."""
    s = t.ducklake_file_column_stats
    is_wanted = s.c.table_id == bindparam("table_id"), s.c.column_id == bindparam("column_id")
    return Query(FileColumnStatsRow, select_fields(FileColumnStatsRow, s).where(*is_wanted))


def stats_of_files(t: CatalogTables, ids: Collection[int]) -> Query[FileColumnStatsRow]:
    """The statistics of all columns of some files."""
    s = t.ducklake_file_column_stats
    return limited(Query(FileColumnStatsRow, select_fields(FileColumnStatsRow, s)), s.c.data_file_id, ids)


@cache
def partition_values(t: CatalogTables) -> Query[PartitionValueRow]:
    v = t.ducklake_file_partition_value
    found = select_fields(PartitionValueRow, v).where(v.c.table_id == bindparam("table_id"))
    return Query(PartitionValueRow, found)


@cache
def name_mappings(t: CatalogTables) -> Query[NameMappingRow]:
    m, n = t.ducklake_column_mapping, t.ducklake_name_mapping
    joined = m.join(n, m.c.mapping_id == n.c.mapping_id)
    found = select_fields(NameMappingRow, n).select_from(joined).where(m.c.table_id == bindparam("table_id"))
    return Query(NameMappingRow, found.order_by(n.c.column_id))


@lru_cache(maxsize=512)
def deleted_positions(deletes: Table) -> Query[DeletedPositionRow]:
    """The deletes that are catalog rows and begun by `snapshot`."""
    found = select_fields(DeletedPositionRow, deletes).where(deletes.c.begin_snapshot <= bindparam("snapshot"))
    return Query(DeletedPositionRow, found)


@lru_cache(maxsize=512)
def inlined_deletes(deletes: Table) -> Query[InlinedDeleteRow]:
    """The same, oldest first, each with the snapshot that deleted it."""
    found = select_fields(InlinedDeleteRow, deletes).where(deletes.c.begin_snapshot <= bindparam("snapshot"))
    return Query(InlinedDeleteRow, found.order_by(deletes.c.begin_snapshot))


@cache
def file_totals(t: CatalogTables) -> Query[FileTotalsRow]:
    """Rows and bytes of all files of a table, live and ended, and where their row ids end."""
    d = t.ducklake_data_file
    totals = {
        "record_count": func.sum(d.c.record_count),
        "next_row_id": func.max(d.c.row_id_start + d.c.record_count),
        "file_size_bytes": func.sum(d.c.file_size_bytes),
    }
    whole = {name: sql_cast(func.coalesce(total, 0), BigInteger) for name, total in totals.items()}
    return Query(FileTotalsRow, select_labelled(whole).where(d.c.table_id == bindparam("table_id")))
