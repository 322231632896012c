"""A compaction as a value: data files of one table whose rows are in other files now. Pure.

Made before the commit, from files that a snapshot has. A merge keeps all that its sources tell, so that they leave the
catalog; a rewrite leaves deleted rows behind, so that its sources end and stay for older snapshots.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ducklake_core.model import (
    Column,
    ColumnId,
    ColumnStats,
    DataFile,
    DataFileId,
    DeleteFileId,
    TableStats,
)
from ducklake_core.plan.moved_file import MovedFile
from ducklake_core.plan.statistics import merge_table_stats
from ducklake_core.spec.changes import ChangeKind
from ducklake_core.spec.paths import relative_to


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A data file that was written anew; its path as it is scheduled for deletion, relative to the lake's data path.

    With its deletes: it can be replaced as long as it is the same, whatever becomes of other files.
    """

    data_file_id: DataFileId
    path: str
    path_is_relative: bool
    delete_file_ids: tuple[DeleteFileId, ...] = ()
    inlined_deletes: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ExactStats:
    """Statistics of a table that were worked out from its files, and hold as long as it has those `before`."""

    before: TableStats
    after: TableStats


@dataclass(frozen=True, slots=True)
class Compaction:
    """What a merge or a rewrite does to one table. `kind` is the snapshot's change."""

    kind: ChangeKind
    sources: tuple[SourceFile, ...]
    files: tuple[MovedFile, ...]
    exact: ExactStats | None = None

    @property
    def file_count(self) -> int:
        """The file ids that it takes: one at least, since DuckDB remembers statistics by that counter."""
        return len(self.files) or 1


def source_of(file: DataFile, data_path: str) -> SourceFile:
    path, is_relative = relative_to(file.path, data_path)
    deletes = tuple(d.delete_file_id for d in file.delete_files)
    return SourceFile(file.data_file_id, path, is_relative, deletes, file.inlined_deletes)


def exact_stats(
    before: TableStats,
    columns: Sequence[Column],
    kept: Iterable[tuple[DataFile, Mapping[ColumnId, ColumnStats]]],
    files: Sequence[MovedFile],
) -> ExactStats:
    """Work out the statistics of a table that has nothing but these files, without a deleted row: kept and new ones.

    A column that some file knows nothing of has unknown bounds: its rows have the column's default there.
    """
    leaves = [leaf.column_id for column in columns for leaf in column.leaves()]
    known = [stats for _, stats in kept] + [{s.column_id: s for s in f.file.column_stats} for f in files]
    added = [stats.get(i, ColumnStats(i)) for stats in known for i in leaves]
    sizes = [(f.record_count, f.file_size_bytes) for f, _ in kept]
    sizes += [(f.file.record_count, f.file.file_size_bytes) for f in files]
    bounds = merge_table_stats(None, added, columns)
    after = TableStats(
        sum(rows for rows, _ in sizes),
        before.next_row_id,
        sum(size for _, size in sizes),
        {i: bounds.get(i, old) for i, old in before.columns.items()},
    )
    return ExactStats(before, after)
