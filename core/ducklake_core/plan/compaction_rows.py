"""The catalog rows of a compaction (format §13). Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from ducklake_core.model import SnapshotId, TableStats, TableVersion
from ducklake_core.plan.compaction import Compaction, SourceFile
from ducklake_core.plan.data_rows import RegisteredFile, moved_file_writes, registered_file_writes, scheduled_row
from ducklake_core.plan.stats_rows import changed_stats_writes
from ducklake_core.plan.writes import DeleteAmong, EndRows, InsertRows, Write
from ducklake_core.spec.changes import ChangeKind

_TABLES_OF_FILES = (
    "ducklake_data_file",
    "ducklake_file_column_stats",
    "ducklake_delete_file",
    "ducklake_file_partition_value",
    "ducklake_file_variant_stats",
)


def compaction_writes(
    table: TableVersion,
    compaction: Compaction,
    stats: TableStats | None,
    first_file_id: int,
    snapshot: SnapshotId,
    now: datetime,
) -> Iterator[Write]:
    """Yield the rows of the new files and what becomes of those of the sources.

    Statistics of the table stay as they are, unless they are known exactly and nobody has changed them since.
    """
    if compaction.kind is ChangeKind.MERGE_ADJACENT:
        yield from moved_file_writes(table.table_id, compaction.files, first_file_id)
        yield from _removal(compaction.sources, now)
        return
    registered = [RegisteredFile(f.file, snapshot, None, f.partition_id) for f in compaction.files]
    yield from registered_file_writes(table.table_id, registered, first_file_id)
    yield from _ends(compaction.sources, snapshot)
    if compaction.exact is not None and compaction.exact.before == stats:
        yield from changed_stats_writes(table, stats, compaction.exact.after)


def _removal(sources: Sequence[SourceFile], now: datetime) -> Iterator[Write]:
    ids = tuple(source.data_file_id for source in sources)
    for name in _TABLES_OF_FILES:
        yield DeleteAmong(name, "data_file_id", ids)
    scheduled = [scheduled_row(s.data_file_id, s.path, now, is_relative=s.path_is_relative) for s in sources]
    yield InsertRows("ducklake_files_scheduled_for_deletion", tuple(scheduled))


def _ends(sources: Sequence[SourceFile], snapshot: SnapshotId) -> Iterator[Write]:
    yield EndRows("ducklake_data_file", tuple({"data_file_id": s.data_file_id} for s in sources), snapshot)
    deletes = tuple({"delete_file_id": i} for s in sources for i in s.delete_file_ids)
    if deletes:
        yield EndRows("ducklake_delete_file", deletes, snapshot)
