"""Reads which files and inlined rows a table has at a snapshot. Rows of the catalog become values here."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, groupby
from typing import TypeAlias

import numpy as np
from sqlalchemy import Table

from ducklake_core.catalog import file_queries as queries
from ducklake_core.catalog.inlined_tables import inlined_delete_table
from ducklake_core.catalog.query import Query
from ducklake_core.catalog.session import Row, Session, Statement
from ducklake_core.catalog.stored_tables import exists_statement, is_true, table_exists
from ducklake_core.errors import CorruptCatalog
from ducklake_core.model import (
    ColumnId,
    ColumnStats,
    DataFile,
    DataFileId,
    DeleteFile,
    DeleteFileId,
    NameMapping,
    NameMappingEntry,
    SnapshotId,
    SnapshotSpan,
    TableVersion,
)
from ducklake_core.spec.changes import ROW_DELETES, ROW_INSERTS, ChangeKind
from ducklake_core.spec.rows import (
    DataFileRow,
    DeletedPositionRow,
    FileColumnStatsRow,
    InlinedDeleteRow,
    NameMappingRow,
    PartitionValueRow,
)

FileStats: TypeAlias = dict[DataFileId, dict[ColumnId, ColumnStats]]


def read_data_files(
    session: Session, table: TableVersion, snapshot: SnapshotId, *, with_partition_values: bool = False
) -> list[DataFile]:
    """Return the data files live at a snapshot, each with its deletes; partition values only for those who prune."""
    t = session.tables
    asked = _Asked(queries.data_files(t), queries.partition_values(t) if with_partition_values else None)
    return _read_data_files(session, table, snapshot, asked)


def read_some_data_files(
    session: Session, table: TableVersion, snapshot: SnapshotId, file_ids: Collection[int]
) -> list[DataFile]:
    """Return those of some data files that are live at a snapshot, each with its deletes and partition values."""
    t = session.tables
    files = queries.limited(queries.data_files(t), t.ducklake_data_file.c.data_file_id, file_ids)
    value_ids = t.ducklake_file_partition_value.c.data_file_id
    asked = _Asked(files, queries.limited(queries.partition_values(t), value_ids, file_ids), file_ids)
    return _read_data_files(session, table, snapshot, asked)


@dataclass(frozen=True, slots=True)
class _Asked:
    """The questions for data files; `values` None: nobody asks for partition values, `file_ids` None: for all files."""

    files: Query[DataFileRow]
    values: Query[PartitionValueRow] | None
    file_ids: Collection[int] | None = None

    def statements(self, session: Session, table: TableVersion, snapshot: SnapshotId) -> list[Statement]:
        of_table = {"table_id": table.table_id}
        values = [] if self.values is None else [Statement(self.values.select, of_table)]
        files = Statement(self.files.select, {**of_table, "snapshot": snapshot})
        return [files, Statement(queries.name_mappings(session.tables).select, of_table), *values]

    def files_of(
        self,
        session: Session,
        table: TableVersion,
        results: Sequence[list[Row]],
        deletes: Mapping[int, tuple[int, ...]],
    ) -> list[DataFile]:
        """Return the data files that the statements have found."""
        files, mappings, *values = results
        known = _Known(
            _mappings_of(queries.name_mappings(session.tables).named(mappings)),
            {} if self.values is None else _partition_values_of(self.values.named(chain(*values))),
            deletes,
        )
        return [_data_file_of(rows, table, known) for rows in _by_data_file(self.files.named(files)).values()]


def _read_data_files(session: Session, table: TableVersion, snapshot: SnapshotId, asked: _Asked) -> list[DataFile]:
    exists = exists_statement(session, f"ducklake_inlined_delete_{table.table_id}")
    found, *results = session.run([exists, *asked.statements(session, table, snapshot)])
    deletes = _inlined_deletes(session, table, snapshot, asked.file_ids) if is_true(found) else {}
    return asked.files_of(session, table, results, deletes)


def read_files_and_stats(
    session: Session,
    table: TableVersion,
    snapshot: SnapshotId,
    column_ids: Sequence[ColumnId],
    run: Callable[[Sequence[Statement]], list[list[Row]]],
) -> tuple[list[DataFile], FileStats] | None:
    """Return the data files live at a snapshot, and statistics of some columns, by one call of `run`.

    None: the table has inlined deletes, which was not known. From now on it is: whoever asks again, in a transaction of
    its own, gets an answer. It raises CatalogTableMissing when they are gone; then it is not known any more.
    """
    t, deletes = session.tables, inlined_delete_table(table.table_id, session.database.url.metadata_schema)
    known, asked = session.database.delete_tables, _Asked(queries.data_files(t), queries.partition_values(t))
    has_deletes = deletes.name in known
    known.discard(deletes.name)
    positions, stats = queries.deleted_positions(deletes), queries.file_column_stats(t)
    of_deletes = exists_statement(session, deletes.name)
    if has_deletes:
        of_deletes = Statement(positions.select, {"snapshot": snapshot})
    of_stats = [Statement(stats.select, {"table_id": table.table_id, "column_id": i}) for i in column_ids]
    found, *results = run([of_deletes, *of_stats, *asked.statements(session, table, snapshot)])
    if has_deletes or is_true(found):
        known.add(deletes.name)
    if not has_deletes and is_true(found):
        return None
    by_file = _positions_of(positions.named(found)) if has_deletes else {}
    files = asked.files_of(session, table, results[len(of_stats) :], by_file)
    return files, _stats_of(stats.named(chain(*results[: len(of_stats)])))


def read_file_stats(session: Session, table: TableVersion, column_ids: Iterable[ColumnId]) -> FileStats:
    """Return the statistics of some columns by data file."""
    query = queries.file_column_stats(session.tables)
    statements = [Statement(query.select, {"table_id": table.table_id, "column_id": i}) for i in column_ids]
    return _stats_of(query.named(chain(*session.run(statements)))) if statements else {}


def read_stats_of_files(session: Session, file_ids: Collection[int]) -> FileStats:
    """Return the statistics of all columns of some data files."""
    return _stats_of(queries.stats_of_files(session.tables, file_ids).ask(session))


def _stats_of(rows: Iterable[FileColumnStatsRow]) -> FileStats:
    stats: FileStats = defaultdict(dict)
    for row in rows:
        stats[row.data_file_id][row.column_id] = _column_stats_of(row)
    return stats


def _column_stats_of(row: FileColumnStatsRow) -> ColumnStats:
    return ColumnStats(
        column_id=row.column_id,
        value_count=row.value_count,
        null_count=row.null_count,
        min_value=row.min_value,
        max_value=row.max_value,
        contains_nan=row.contains_nan,
        size_bytes=row.column_size_bytes,
        extra_stats=row.extra_stats,
    )


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
    deletes = _table_of_deletes(session, table) if kinds & ROW_DELETES else None
    inserted = [queries.new_data_files(session.tables)] if kinds & ROW_INSERTS else []
    asked = [*inserted, *_queries_of_deletes(session, kinds, deletes)]
    if not asked:
        return []
    statements = [Statement(query.select, parameters) for query in asked]
    if deletes is not None:
        statements.append(Statement(queries.inlined_deletes(deletes).select, {"snapshot": span.end}))
    results = session.run(statements)
    named = [query.named(rows) for query, rows in zip(asked, results, strict=False)]  # the last are no files
    positions = {} if deletes is None else _deletes_by_file(queries.inlined_deletes(deletes).named(results[-1]))
    found = [_by_data_file(rows) for rows in named]
    return _touched_files(session, table, found[: len(inserted)], found[len(inserted) :], positions)


def _queries_of_deletes(
    session: Session, kinds: frozenset[ChangeKind], deletes: Table | None
) -> Iterator[Query[DataFileRow]]:
    """Yield the queries of files that rows may have been deleted from; `deletes` has those that are catalog rows."""
    if deletes is not None and ChangeKind.INLINED_DELETE in kinds:
        yield queries.data_files_with_new_inlined_deletes(session.tables, deletes)
    if kinds & ROW_DELETES:
        yield queries.data_files_with_new_deletes(session.tables)
    if ChangeKind.DELETED_FROM_TABLE in kinds:
        yield queries.data_files_ended(session.tables)


def _touched_files(
    session: Session,
    table: TableVersion,
    inserted: list[_RowsByFile],
    touched: list[_RowsByFile],
    deletes: Mapping[int, tuple[tuple[int, SnapshotId], ...]],
) -> list[TouchedFile]:
    new = {file_id for files in inserted for file_id in files}
    by_id = {file_id: rows for files in (*inserted, *touched) for file_id, rows in files.items()}
    mappings: Mapping[int, NameMapping] = {}
    if any(row.mapping_id is not None for rows in by_id.values() for row in rows):
        mappings = _mappings_of(queries.name_mappings(session.tables).ask(session, table_id=table.table_id))
    return [
        TouchedFile(_data_file_of(rows, table, _Known(mappings)), file_id in new, deletes.get(file_id, ()))
        for file_id, rows in sorted(by_id.items())
    ]


def read_name_mappings(session: Session, table: TableVersion) -> list[NameMapping]:
    """Return all name mappings that a table has ever got, the oldest first."""
    rows = queries.name_mappings(session.tables).ask(session, table_id=table.table_id)
    return sorted(_mappings_of(rows).values(), key=lambda mapping: mapping.mapping_id)


def _table_of_deletes(session: Session, table: TableVersion) -> Table | None:
    """Return the catalog's table of the deletes that are its rows; None where there is none."""
    found = inlined_delete_table(table.table_id, session.database.url.metadata_schema)
    return found if table_exists(session, found.name) else None


def _deletes_by_file(rows: Iterable[InlinedDeleteRow]) -> dict[int, tuple[tuple[int, SnapshotId], ...]]:
    """Return the deletes that are catalog rows: by data file, each position with the snapshot that deleted it."""
    found: dict[int, list[tuple[int, SnapshotId]]] = defaultdict(list)
    for row in rows:
        found[row.file_id].append((row.row_id, row.begin_snapshot))
    return {file_id: tuple(positions) for file_id, positions in found.items()}


def read_inlined_file_deletes(
    session: Session, table: TableVersion, snapshot: SnapshotId
) -> tuple[list[tuple[DataFile, np.ndarray, np.ndarray]], int]:
    """Return the inlined deletes begun by a snapshot: by data file, live or ended, positions and deleting snapshots.

    The number is that of all of them; some may be of files that are gone for good.
    """
    deletes = _table_of_deletes(session, table)
    if deletes is None:
        return [], 0
    asked, files = queries.inlined_deletes(deletes), queries.data_files_among(session.tables, deletes)
    statements = [
        Statement(asked.select, {"snapshot": snapshot}),
        Statement(files.select, {"table_id": table.table_id, "snapshot": snapshot}),
    ]
    delete_rows, file_rows = session.run(statements)
    found = asked.named(delete_rows)
    by_file = _positions_by_file(found)
    # Who only deletes positions need not know the columns.
    data_files = [
        _data_file_of([r._replace(mapping_id=None) for r in rows], table, _Known())
        for rows in _by_data_file(files.named(file_rows)).values()
    ]
    return [(file, *by_file[file.data_file_id]) for file in data_files], len(found)


def _positions_by_file(rows: Sequence[InlinedDeleteRow]) -> dict[int, tuple[np.ndarray, np.ndarray]]:
    """Return the deleted positions of each file, and the snapshots that deleted them."""
    files = np.asarray([row.file_id for row in rows], np.int64)
    positions = np.asarray([row.row_id for row in rows], np.int64)
    snapshots = np.asarray([row.begin_snapshot for row in rows], np.int64)
    found = ((file_id, files == file_id) for file_id in np.unique(files).tolist())
    return {file_id: (positions[is_its], snapshots[is_its]) for file_id, is_its in found}


def _inlined_deletes(
    session: Session, table: TableVersion, snapshot: SnapshotId, file_ids: Collection[int] | None
) -> Mapping[int, tuple[int, ...]]:
    deletes = inlined_delete_table(table.table_id, session.database.url.metadata_schema)
    query = queries.deleted_positions(deletes)
    query = query if file_ids is None else queries.limited(query, deletes.c.file_id, file_ids)
    return _positions_of(query.ask(session, snapshot=snapshot))


def _positions_of(rows: Iterable[DeletedPositionRow]) -> dict[int, tuple[int, ...]]:
    positions: dict[int, list[int]] = defaultdict(list)
    for row in rows:
        positions[row.file_id].append(row.row_id)
    return {file_id: tuple(sorted(found)) for file_id, found in positions.items()}


_RowsByFile: TypeAlias = dict[DataFileId, list[DataFileRow]]


def _by_data_file(rows: Iterable[DataFileRow]) -> _RowsByFile:
    """Return the rows of each data file: one for each of its delete files, or one without any."""
    return {file_id: list(found) for file_id, found in groupby(rows, key=lambda row: row.data_file_id)}


@dataclass(frozen=True, slots=True)
class _Known:
    """What is known of data files beside their rows, by mapping and by file."""

    mappings: Mapping[int, NameMapping] = field(default_factory=dict)
    partition_values: Mapping[int, dict[int, str | None]] = field(default_factory=dict)
    deletes: Mapping[int, tuple[int, ...]] = field(default_factory=dict)


def _data_file_of(rows: Sequence[DataFileRow], table: TableVersion, known: _Known) -> DataFile:
    row = rows[0]  # what they tell of the file is the same in each
    if row.path is None or row.record_count is None or row.begin_snapshot is None:
        raise CorruptCatalog(
            f"data file {row.data_file_id} of '{table.qualified_name}' lacks its path, count or begin_snapshot"
        )
    return DataFile(
        data_file_id=row.data_file_id,
        path=row.path if row.path_is_relative is False else table.directory + row.path,
        begin_snapshot=row.begin_snapshot,
        record_count=row.record_count,
        file_size_bytes=row.file_size_bytes,
        row_id_start=row.row_id_start,
        partial_max=row.partial_max,
        mapping=_mapping_of(row, table, known),
        encryption_key=row.encryption_key,
        partition_id=row.partition_id,
        delete_files=tuple(_delete_file_of(r, r.delete_file_id, table) for r in rows if r.delete_file_id is not None),
        inlined_deletes=known.deletes.get(row.data_file_id, ()),
        end_snapshot=row.end_snapshot,
        partition_values=known.partition_values.get(row.data_file_id, {}),
    )


def _mapping_of(row: DataFileRow, table: TableVersion, known: _Known) -> NameMapping | None:
    if row.mapping_id is None:
        return None
    if row.mapping_id not in known.mappings:
        raise CorruptCatalog(
            f"data file {row.data_file_id} of '{table.qualified_name}' names mapping {row.mapping_id}, which is missing"
        )
    return known.mappings[row.mapping_id]


def _delete_file_of(row: DataFileRow, delete_file_id: DeleteFileId, table: TableVersion) -> DeleteFile:
    return DeleteFile(
        delete_file_id=delete_file_id,
        data_file_id=row.data_file_id,
        path=row.delete_path if row.delete_path_is_relative is False else table.directory + row.delete_path,
        format=row.delete_format or "parquet",
        begin_snapshot=row.delete_begin,
        delete_count=row.delete_count,
        encryption_key=row.delete_key,
    )


def _partition_values_of(rows: Iterable[PartitionValueRow]) -> dict[int, dict[int, str | None]]:
    values: dict[int, dict[int, str | None]] = defaultdict(dict)
    for row in rows:
        values[row.data_file_id][row.partition_key_index] = row.partition_value
    return values


def _mappings_of(rows: Iterable[NameMappingRow]) -> dict[int, NameMapping]:
    children: dict[tuple[int, int | None], list[NameMappingRow]] = defaultdict(list)
    for row in rows:
        children[row.mapping_id, row.parent_column].append(row)

    def entries(mapping_id: int, parent: int | None) -> tuple[NameMappingEntry, ...]:
        return tuple(
            NameMappingEntry(r.source_name, r.target_field_id, bool(r.is_partition), entries(mapping_id, r.column_id))
            for r in children[mapping_id, parent]
        )

    ids = {mapping_id for mapping_id, _ in children}
    return {i: NameMapping(i, entries(i, None)) for i in ids}
