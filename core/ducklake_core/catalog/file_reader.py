"""Reads which files and inlined rows a table has at a snapshot. Rows of the catalog become values here."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby

import numpy as np
from sqlalchemy import Select, Table, bindparam, select

from ducklake_core.catalog import queries
from ducklake_core.catalog.inlined_tables import inlined_delete_table
from ducklake_core.catalog.session import Row, Session, Statement
from ducklake_core.catalog.stored_tables import exists_statement, table_exists
from ducklake_core.errors import CorruptCatalog
from ducklake_core.model import (
    ColumnId,
    ColumnStats,
    DataFile,
    DataFileId,
    DeleteFile,
    NameMapping,
    NameMappingEntry,
    SnapshotId,
    SnapshotSpan,
    TableVersion,
)
from ducklake_core.spec.changes import ROW_DELETES, ROW_INSERTS, ChangeKind
from ducklake_core.spec.paths import join_path


def read_data_files(
    session: Session, table: TableVersion, snapshot: SnapshotId, *, with_partition_values: bool = False
) -> list[DataFile]:
    """Return the data files live at a snapshot, each with its deletes; partition values only for those who prune."""
    statements = [
        Statement(queries.data_files(session.tables), {"table_id": table.table_id, "snapshot": snapshot}),
        Statement(queries.name_mappings(session.tables), {"table_id": table.table_id}),
        exists_statement(session, f"ducklake_inlined_delete_{table.table_id}"),
    ]
    if with_partition_values:
        query = queries.of_table(session.tables, "ducklake_file_partition_value")
        statements.append(Statement(query, {"table_id": table.table_id}))
    rows, mapping_rows, exists, *found = session.run(statements)
    mappings = _mappings_of(mapping_rows)
    values: dict[int, dict[int, str | None]] = defaultdict(dict)
    for file_id, _table_id, index, value in found[0] if found else ():
        values[file_id][index] = value
    deletes = _inlined_deletes(session, table, snapshot) if exists[0][0] else {}
    return [_data_file_of(r, table, mappings, values[r[0][0]], deletes.get(r[0][0], ())) for r in _by_data_file(rows)]


def read_file_stats(
    session: Session, table: TableVersion, column_ids: Iterable[ColumnId]
) -> dict[DataFileId, dict[ColumnId, ColumnStats]]:
    """Return the statistics of some columns by data file."""
    query = queries.file_column_stats(session.tables)
    statements = [Statement(query, {"table_id": table.table_id, "column_id": i}) for i in column_ids]
    stats: dict[DataFileId, dict[ColumnId, ColumnStats]] = defaultdict(dict)
    for rows in session.run(statements) if statements else ():
        for r in rows:
            stats[r[0]][r[2]] = ColumnStats(r[2], r[4], r[5], r[6], r[7], r[8], r[3], r[9])
    return stats


@dataclass(frozen=True, slots=True)
class TouchedFile:
    """A data file of which a range of snapshots may have inserted or deleted rows, with its inlined deletes."""

    file: DataFile
    is_new: bool
    inlined_deletes: tuple[tuple[int, SnapshotId], ...]  # positions, each with the snapshot that deleted it


def read_touched_files(
    session: Session,
    table: TableVersion,
    span: SnapshotSpan,
    first_new_file_id: int,
    kinds: frozenset[ChangeKind],
) -> list[TouchedFile]:
    """Return the data files that may have rows inserted or deleted in a range, each with all deletes up to its end.

    `kinds` are what the snapshots of the range say that they did to the table, and decide what is asked: an append
    asks for nothing but new files. Every file that was registered in the range has at least `first_new_file_id`.
    """
    parameters = {"table_id": table.table_id, "start": span.start, "end": span.end, "first_id": first_new_file_id}
    inserted, touched = [], []
    if ChangeKind.INLINED_DELETE in kinds:
        deletes = inlined_delete_table(table.table_id, session.database.url.metadata_schema)
        if table_exists(session, deletes.name):
            touched.append(queries.data_files_with_new_inlined_deletes(session.tables, deletes))
    if kinds & ROW_INSERTS:
        inserted.append(queries.new_data_files(session.tables))
    if kinds & ROW_DELETES:
        touched.append(queries.data_files_with_new_deletes(session.tables))
    if ChangeKind.DELETED_FROM_TABLE in kinds:
        touched.append(queries.data_files_ended(session.tables))
    statements = [Statement(query, parameters) for query in (*inserted, *touched)]
    if not statements:
        return []
    found = [_by_data_file(rows) for rows in session.run(statements)]
    return _touched_files(session, table, span.end, found[: len(inserted)], found[len(inserted) :])


def _touched_files(
    session: Session,
    table: TableVersion,
    end: SnapshotId,
    inserted: list[list[list[Row]]],
    touched: list[list[list[Row]]],
) -> list[TouchedFile]:
    new = {rows[0][0] for files in inserted for rows in files}
    by_id = {rows[0][0]: rows for files in (*inserted, *touched) for rows in files}
    mappings: Mapping[int, NameMapping] = {}
    if any(rows[0][14] is not None for rows in by_id.values()):
        mappings = _mappings_of(session.query(queries.name_mappings(session.tables), table_id=table.table_id))
    deletes = _deletes_by_file(session, table, end) if touched else {}
    return [
        TouchedFile(_data_file_of(rows, table, mappings, {}, ()), file_id in new, deletes.get(file_id, ()))
        for file_id, rows in sorted(by_id.items())
    ]


def _deletes_by_file(
    session: Session, table: TableVersion, end: SnapshotId
) -> dict[int, tuple[tuple[int, SnapshotId], ...]]:
    """Return the deletes that are catalog rows: by data file, each position with the snapshot that deleted it."""
    if not table_exists(session, f"ducklake_inlined_delete_{table.table_id}"):
        return {}
    deletes = inlined_delete_table(table.table_id, session.database.url.metadata_schema)
    found: dict[int, list[tuple[int, SnapshotId]]] = defaultdict(list)
    for file_id, position, snapshot in session.query(_select_all_deletes(deletes), snapshot=end):
        found[file_id].append((position, snapshot))
    return {file_id: tuple(positions) for file_id, positions in found.items()}


def read_inlined_file_deletes(
    session: Session, table: TableVersion, snapshot: SnapshotId
) -> tuple[list[tuple[DataFile, np.ndarray, np.ndarray]], int]:
    """Return the inlined deletes begun by a snapshot: by data file, live or ended, positions and deleting snapshots.

    The number is that of all of them; some may be of files that are gone for good.
    """
    if not table_exists(session, f"ducklake_inlined_delete_{table.table_id}"):
        return [], 0
    deletes = inlined_delete_table(table.table_id, session.database.url.metadata_schema)
    parameters = {"table_id": table.table_id, "snapshot": snapshot}
    statements = [
        Statement(_select_all_deletes(deletes), {"snapshot": snapshot}),
        Statement(queries.data_files_among(session.tables, deletes), parameters),
    ]
    found, files = session.run(statements)
    cells = np.asarray([tuple(row) for row in found], np.int64).reshape(-1, 3)
    by_file = {file_id: cells[cells[:, 0] == file_id] for file_id in np.unique(cells[:, 0]).tolist()}
    data_files = [_data_file_of(r, table, {r[0][14]: _NO_MAPPING}, {}, ()) for r in _by_data_file(files)]
    return [(f, by_file[f.data_file_id][:, 1], by_file[f.data_file_id][:, 2]) for f in data_files], len(found)


_NO_MAPPING = NameMapping(-1, ())  # who only deletes positions need not know the columns


def _inlined_deletes(session: Session, table: TableVersion, snapshot: SnapshotId) -> Mapping[int, tuple[int, ...]]:
    deletes = inlined_delete_table(table.table_id, session.database.url.metadata_schema)
    positions: dict[int, list[int]] = defaultdict(list)
    for file_id, position in session.query(_select_deletes(deletes), snapshot=snapshot):
        positions[file_id].append(position)
    return {file_id: tuple(sorted(found)) for file_id, found in positions.items()}


@lru_cache(maxsize=512)
def _select_deletes(table: Table) -> Select[tuple[int, int]]:
    return select(table.c.file_id, table.c.row_id).where(table.c.begin_snapshot <= bindparam("snapshot"))


@lru_cache(maxsize=512)
def _select_all_deletes(table: Table) -> Select[tuple[int, int, int]]:
    found = select(table.c.file_id, table.c.row_id, table.c.begin_snapshot)
    return found.where(table.c.begin_snapshot <= bindparam("snapshot")).order_by(table.c.begin_snapshot)


def _by_data_file(rows: Iterable[Row]) -> list[list[Row]]:
    """Return the rows of each data file: one for each of its delete files, or one without any."""
    return [list(found) for _, found in groupby(rows, key=lambda row: row[0])]


def _data_file_of(
    rows: Sequence[Row],
    table: TableVersion,
    mappings: Mapping[int, NameMapping],
    values: dict[int, str | None],
    deletes: tuple[int, ...],
) -> DataFile:
    row = rows[0]
    (file_id, _table, begin, end, _order, path, relative, _format, count, size, _footer, row_id_start) = row[:12]
    partition_id, key, mapping_id, partial_max = row[12:16]
    if path is None or count is None or begin is None:
        raise CorruptCatalog(f"data file {file_id} of '{table.qualified_name}' lacks its path, count or begin_snapshot")
    if mapping_id is not None and mapping_id not in mappings:
        raise CorruptCatalog(
            f"data file {file_id} of '{table.qualified_name}' names mapping {mapping_id}, which is missing"
        )
    return DataFile(
        data_file_id=DataFileId(file_id),
        path=join_path(table.directory, path, is_relative=relative is not False),
        begin_snapshot=SnapshotId(begin),
        record_count=count,
        file_size_bytes=size,
        row_id_start=row_id_start,
        partial_max=partial_max,
        mapping=mappings.get(mapping_id),
        encryption_key=key,
        partition_id=partition_id,
        delete_files=tuple(_delete_file_of(r, table) for r in rows if r[16] is not None),
        inlined_deletes=deletes,
        end_snapshot=None if end is None else SnapshotId(end),
        partition_values=values,
    )


def _delete_file_of(row: Row, table: TableVersion) -> DeleteFile:
    delete_id, path, relative, format_, begin, count, key = row[16:23]
    return DeleteFile(
        delete_file_id=delete_id,
        data_file_id=row[0],
        path=join_path(table.directory, path, is_relative=relative is not False),
        format=format_ or "parquet",
        begin_snapshot=begin,
        delete_count=count,
        encryption_key=key,
    )


def _mappings_of(rows: Iterable[Row]) -> dict[int, NameMapping]:
    children: dict[tuple[int, int | None], list[Row]] = defaultdict(list)
    for row in rows:
        children[row[0], row[4]].append(row)

    def entries(mapping_id: int, parent: int | None) -> tuple[NameMappingEntry, ...]:
        return tuple(
            NameMappingEntry(r[2], ColumnId(r[3]), bool(r[5]), entries(mapping_id, r[1]))
            for r in children[mapping_id, parent]
        )

    ids = {mapping_id for mapping_id, _ in children}
    return {i: NameMapping(i, entries(i, None)) for i in ids}
