"""The catalog rows of a flush (format §6). Pure.

History stays as it was: a new file's row begins where the oldest of its rows began, and a table's statistics, which
count every version it ever had, only learn of the bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime

from ducklake_core.model import SnapshotId, TableStats, TableVersion
from ducklake_core.plan.data_rows import delete_file_row, moved_file_writes, replaced_writes
from ducklake_core.plan.flush import Flush, FlushedDeletes
from ducklake_core.plan.stats_rows import table_stats_row
from ducklake_core.plan.writes import DeleteInlined, DeleteInlinedDeletes, DeleteRows, InsertRows, UpdateRows, Write


def flush_writes(
    table: TableVersion, flush: Flush, stats: TableStats | None, first_file_id: int, now: datetime
) -> Iterator[Write]:
    """Yield the rows of new files, what they replace, and the removal of all that they hold from the catalog.

    Ids are given in the reference's order: data files, deletes of existing files, deletes of the new ones.
    """
    yield from moved_file_writes(table.table_id, flush.files, first_file_id)
    next_id = first_file_id + len(flush.files)
    for file_id, deletes in enumerate(flush.deletes, next_id):
        yield from _replacing_writes(table, deletes, file_id, now)
    next_id += len(flush.deletes)
    for data_file_id, flushed in enumerate(flush.files, first_file_id):
        if flushed.deletes is not None and flushed.ended is not None:
            row = delete_file_row(table.table_id, next_id, data_file_id, flushed.deletes, flushed.ended, None)
            yield InsertRows("ducklake_delete_file", (row,))
            next_id += 1
    yield from _size_writes(table, flush, stats)
    for emptied in flush.inlined_tables:
        yield DeleteInlined(emptied.name, flush.through)
    if flush.file_deletes:
        yield DeleteInlinedDeletes(table.table_id, flush.through)


def _replacing_writes(table: TableVersion, deletes: FlushedDeletes, file_id: int, now: datetime) -> Iterator[Write]:
    yield from replaced_writes(deletes.replaced, now)
    row = delete_file_row(
        table.table_id, file_id, deletes.data_file_id, deletes.new_file, deletes.begin, SnapshotId(deletes.last)
    )
    yield InsertRows("ducklake_delete_file", ({**row, "end_snapshot": deletes.end},))


def _size_writes(table: TableVersion, flush: Flush, stats: TableStats | None) -> Iterator[Write]:
    if stats is None or not flush.files:
        return
    size = stats.file_size_bytes + sum(f.file.file_size_bytes for f in flush.files)
    grown = replace(stats, file_size_bytes=size)
    row = table_stats_row(table.table_id, grown)
    if not stats.is_recovered:
        yield UpdateRows("ducklake_table_stats", ("table_id",), (row,))
        return
    for name in ("ducklake_table_stats", "ducklake_table_column_stats"):  # what remains of it is not to be trusted
        yield DeleteRows(name, ({"table_id": table.table_id},))
    yield InsertRows("ducklake_table_stats", (row,))
