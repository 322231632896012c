"""Reads what a compaction of a table needs to know: its files, and which columns they were written under.

One short transaction, at the head or a little before it: what others do meanwhile, the commit finds.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from ducklake_core.catalog import queries, reader
from ducklake_core.catalog.file_reader import read_data_files, read_file_stats
from ducklake_core.catalog.inlined_reader import count_row_versions
from ducklake_core.catalog.session import Session
from ducklake_core.model import (
    Column,
    ColumnId,
    ColumnStats,
    ColumnsVersion,
    DataFile,
    DataFileId,
    Snapshot,
    SnapshotId,
    TableStats,
    TableVersion,
)
from ducklake_core.plan.file_groups import deleted_rows


@dataclass(frozen=True, slots=True)
class TableFiles:
    """The live data files of a table at a snapshot, and the columns it has had.

    `versions` are the snapshots that began a version of the table's schema, in order.
    """

    files: tuple[DataFile, ...]
    versions: tuple[SnapshotId, ...]
    columns: tuple[ColumnsVersion, ...]

    def columns_of(self, file: DataFile) -> tuple[Column, ...]:
        """Return the columns that a file was written under."""
        index = bisect_right(self.columns, file.begin_snapshot, key=lambda version: version.since)
        return self.columns[max(0, index - 1)].columns


@dataclass(frozen=True, slots=True)
class ExactBasis:
    """The statistics of a table, and files of it, each with its own."""

    stats: TableStats
    files: tuple[tuple[DataFile, Mapping[ColumnId, ColumnStats]], ...]


def read_table_files(session: Session, table: TableVersion, snapshot: SnapshotId) -> TableFiles:
    """Return the files that a table has at a snapshot."""
    files = read_data_files(session, table, snapshot, with_partition_values=True)
    versions = queries.schema_versions(session.tables).ask(session, table_id=table.table_id)
    columns = reader.read_columns_versions(session, table.table_id, table.qualified_name)
    return TableFiles(tuple(files), tuple(sorted(row.begin_snapshot for row in versions)), tuple(columns))


def read_exact_basis(
    session: Session, table: TableVersion, base: Snapshot, gone: Collection[DataFileId]
) -> ExactBasis | None:
    """Return what the statistics of a table can be worked out from, without the files that are `gone`.

    None where the other files do not tell all of the table, since rows of them are deleted, or some row versions are
    inlined; where it has no statistics; or where the lake is at another snapshot by now, of which they may be.
    """
    if any(count_row_versions(session, [t.name for t in table.inlined_tables], base.snapshot_id)):
        return None
    files = [f for f in read_data_files(session, table, base.snapshot_id) if f.data_file_id not in gone]
    if any(map(deleted_rows, files)):
        return None
    stats = reader.table_stats_of(queries.table_stats(session.tables).ask(session, table_id=table.table_id))
    columns = [leaf.column_id for column in table.columns for leaf in column.leaves()]
    of_files = read_file_stats(session, table, columns)
    is_at_base = reader.read_head(session) == base  # last: whatever came between is seen
    if stats is None or not is_at_base:
        return None
    return ExactBasis(stats, tuple((file, of_files.get(file.data_file_id, {})) for file in files))
