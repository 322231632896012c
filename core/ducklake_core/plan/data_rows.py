"""The catalog rows of data: files, delete files, end marks and statistics (format §4–§8, §10). Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ducklake_core.model import (
    ColumnStats,
    NewDataFile,
    NewDeleteFile,
    ReplacedFile,
    SnapshotId,
    TableId,
    TableVersion,
)
from ducklake_core.plan.moved_file import MovedFile
from ducklake_core.plan.staged import ReplacedDeletes, TableWrites
from ducklake_core.plan.writes import (
    DeleteRows,
    EndInlined,
    EndRows,
    InsertInlinedDeletes,
    InsertRows,
    Write,
)


@dataclass(frozen=True, slots=True)
class RegisteredFile:
    """A new data file and what the commit says of it."""

    file: NewDataFile
    begin: SnapshotId
    row_id_start: int | None
    partition_id: int | None = None
    partial_max: SnapshotId | None = None


def data_file_writes(
    table: TableVersion, files: Sequence[NewDataFile], first_file_id: int, next_row_id: int, snapshot: SnapshotId
) -> Iterator[Write]:
    """Yield the rows of new data files; their row ids follow each other from `next_row_id`."""
    partition_id = table.partitioning.partition_id if table.partitioning else None
    registered = []
    for file in files:
        registered.append(RegisteredFile(file, snapshot, next_row_id, partition_id))
        next_row_id += file.record_count
    return registered_file_writes(table.table_id, registered, first_file_id)


def moved_file_writes(table_id: TableId, files: Sequence[MovedFile], first_file_id: int) -> Iterator[Write]:
    """Yield the rows of data files that hold rows of before: each begins where the oldest of its rows began."""
    registered = [RegisteredFile(f.file, f.begin, f.row_id_start, f.partition_id, f.last) for f in files]
    return registered_file_writes(table_id, registered, first_file_id)


def registered_file_writes(
    table_id: TableId, registered: Sequence[RegisteredFile], first_file_id: int
) -> Iterator[Write]:
    """Yield the rows of new data files, their statistics and partition values."""
    rows, stats, values = [], [], []
    for file_id, one in enumerate(registered, first_file_id):
        identity = {"data_file_id": file_id, "table_id": table_id}
        rows.append({**identity, **_file_facts(one)})
        stats += [{**identity, **_file_stats(s)} for s in one.file.column_stats]
        for index, value in enumerate(one.file.partition_values or ()):
            values.append({**identity, "partition_key_index": index, "partition_value": value})
    for name, found in (
        ("ducklake_data_file", rows),
        ("ducklake_file_column_stats", stats),
        ("ducklake_file_partition_value", values),
    ):
        if found:
            yield InsertRows(name, tuple(found))


def _file_facts(registered: RegisteredFile) -> dict[str, Any]:
    file = registered.file
    return {
        "begin_snapshot": registered.begin,
        "end_snapshot": None,
        "file_order": None,
        "path": file.path,
        "path_is_relative": file.path_is_relative,
        "file_format": "parquet",
        "record_count": file.record_count,
        "file_size_bytes": file.file_size_bytes,
        "footer_size": file.footer_size,
        "row_id_start": registered.row_id_start,
        "partition_id": None if file.partition_values is None else registered.partition_id,
        "encryption_key": file.encryption_key,
        "mapping_id": None if file.mapping is None else file.mapping.mapping_id,
        "partial_max": registered.partial_max,
    }


def _file_stats(stats: ColumnStats) -> dict[str, Any]:
    return {
        "column_id": stats.column_id,
        "column_size_bytes": stats.size_bytes,
        "value_count": stats.value_count,
        "null_count": stats.null_count,
        "min_value": stats.min_value,
        "max_value": stats.max_value,
        "contains_nan": stats.contains_nan,
        "extra_stats": stats.extra_stats,
    }


def delete_writes(
    table: TableVersion, writes: TableWrites, first_file_id: int, snapshot: SnapshotId, now: datetime
) -> Iterator[Write]:
    """Yield what ends rows: end marks, inlined deletes, delete files and ended data files."""
    for end in writes.inlined_ends:
        yield EndInlined(end.inlined_table, end.row_ids, snapshot)
    if writes.inlined_file_deletes:
        positions = tuple((d.data_file_id, p) for d in writes.inlined_file_deletes for p in d.positions)
        yield InsertInlinedDeletes(table.table_id, positions, snapshot)
    for file_id, deletes in enumerate(writes.delete_files, first_file_id):
        yield from _replace_deletes(table, deletes, file_id, snapshot, now)
    if writes.ended_files:
        yield EndRows("ducklake_data_file", tuple({"data_file_id": i} for i in writes.ended_files), snapshot)


def _replace_deletes(
    table: TableVersion, deletes: ReplacedDeletes, file_id: int, snapshot: SnapshotId, now: datetime
) -> Iterator[Write]:
    yield from replaced_writes(deletes.replaced, now)
    # History is inside the merged file: its row begins where the replaced one began.
    begin = snapshot if deletes.begin is None else deletes.begin
    last = None if deletes.begin is None else snapshot
    row = delete_file_row(table.table_id, file_id, deletes.data_file_id, deletes.new_file, begin, last)
    yield InsertRows("ducklake_delete_file", (row,))


def replaced_writes(files: Sequence[ReplacedFile], now: datetime) -> Iterator[Write]:
    """Yield the removal of delete files' rows, each followed by the schedule for the file."""
    for old in files:
        yield DeleteRows("ducklake_delete_file", ({"delete_file_id": old.delete_file_id},))
        yield InsertRows(
            "ducklake_files_scheduled_for_deletion",
            (scheduled_row(old.delete_file_id, old.path, now, is_relative=old.path_is_relative),),
        )


def scheduled_row(file_id: int, path: str, now: datetime, *, is_relative: bool) -> dict[str, Any]:
    """Return the row that schedules a data or delete file for deletion; relative means to the lake's data path."""
    return {"data_file_id": file_id, "path": path, "path_is_relative": is_relative, "schedule_start": now}


def delete_file_row(
    table_id: TableId,
    file_id: int,
    data_file_id: int,
    new: NewDeleteFile,
    begin: SnapshotId,
    partial_max: SnapshotId | None,
) -> dict[str, Any]:
    return {
        "delete_file_id": file_id,
        "table_id": table_id,
        "begin_snapshot": begin,
        "end_snapshot": None,
        "data_file_id": data_file_id,
        "path": new.path,
        "path_is_relative": new.path_is_relative,
        "format": "parquet",
        "delete_count": new.delete_count,
        "file_size_bytes": new.file_size_bytes,
        "footer_size": new.footer_size,
        "encryption_key": new.encryption_key,
        "partial_max": partial_max,
    }
