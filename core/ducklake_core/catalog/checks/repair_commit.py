"""Mends counters and statistics in one commit: it makes a snapshot that changes no row.

A snapshot, because that alone is right beside other writers: whoever has read the old numbers and not committed yet
finds its id taken, and reads them again. And because DuckDB sessions keep statistics by `next_file_id`, which moves.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from sqlalchemy import text

from ducklake_core.catalog import queries, reader
from ducklake_core.catalog.checks.inventory import union_of_rows
from ducklake_core.catalog.checks.lake_questions import USED_CATALOG_IDS, USED_FILE_IDS, USED_ROW_IDS
from ducklake_core.catalog.checks.question import filled
from ducklake_core.catalog.database import Database
from ducklake_core.catalog.session import Session, Statement
from ducklake_core.catalog.statements import share_version, statements_of_all
from ducklake_core.catalog.stored_tables import table_exists
from ducklake_core.model import Column, ColumnStats, DataFileId, Snapshot, SnapshotId, TableColumnStats, TableId
from ducklake_core.plan.statistics import changed_stats, merge_table_stats
from ducklake_core.plan.writes import DeleteRows, InsertRows, UpdateRows, Write


@dataclass(frozen=True, slots=True)
class TableRepair:
    """What is to be mended of one table.

    `least_row_id`: the next row id must not be below it. `narrow`: statistics of all live rows, for columns of which
    the table's leave some out. `files`: those of all rows of some files, likewise.
    """

    table_id: TableId
    columns: tuple[Column, ...]
    least_row_id: int = 0
    narrow: tuple[ColumnStats, ...] = ()
    files: Mapping[DataFileId, Sequence[ColumnStats]] | None = None


def commit_repairs(database: Database, now: datetime, tables: Sequence[TableRepair]) -> Snapshot:
    """Raise the counters of the lake and of these tables to what is free, widen statistics, and return the snapshot."""

    def mend(session: Session) -> Snapshot:
        head = reader.read_head(session)
        made = _next_snapshot(session, head, now)
        writes: list[Write] = [InsertRows("ducklake_snapshot", (_snapshot_row(made),))]
        writes += [write for table in tables for write in _table_writes(session, table)]
        writes.append(InsertRows("ducklake_snapshot_changes", (_changes_row(made.snapshot_id),)))
        session.write_and_commit([*statements_of_all(session, writes), share_version(session)])
        return made

    return database.write_alone("repair", mend)


def _next_snapshot(session: Session, head: Snapshot, now: datetime) -> Snapshot:
    catalog_id, file_id = (_largest(session, sql) for sql in (USED_CATALOG_IDS, USED_FILE_IDS))
    return replace(
        head,
        snapshot_id=SnapshotId(head.snapshot_id + 1),
        snapshot_time=max(now, head.snapshot_time),
        next_catalog_id=max(head.next_catalog_id, catalog_id),
        next_file_id=max(head.next_file_id, file_id) + 1,
    )


def _largest(session: Session, sql: str) -> int:
    found = session.query(text(filled(session.database, f"SELECT max(needed) FROM ({sql}) AS used")))  # noqa: S608 # SQL of ours
    return int(found[0][0] or 0)


def _table_writes(session: Session, table: TableRepair) -> Iterator[Write]:
    query = queries.table_stats(session.tables)
    old = reader.table_stats_of(query.ask(session, table_id=table.table_id))
    needed = max(table.least_row_id, _least_row_id(session, table.table_id))
    key = {"table_id": table.table_id}
    if old is None:
        found = reader.recover_table_stats(session, table.table_id)
        if found is not None:  # what remains of them is not to be trusted
            yield from (DeleteRows(name, (key,)) for name in ("ducklake_table_stats", "ducklake_table_column_stats"))
            totals = {"record_count": found.record_count, "file_size_bytes": found.file_size_bytes}
            row = {**key, **totals, "next_row_id": max(needed, found.next_row_id)}
            yield InsertRows("ducklake_table_stats", (row,))
    elif old.next_row_id < needed:
        yield UpdateRows("ducklake_table_stats", ("table_id",), ({**key, "next_row_id": needed},))
    if old is not None and table.narrow:
        wider = changed_stats(old, merge_table_stats(old, table.narrow, table.columns))
        yield from (_widened(table.table_id, stats) for stats in wider)
    for file_id, exact in (table.files or {}).items():
        rows = tuple(_file_row(file_id, stats) for stats in exact)
        yield UpdateRows("ducklake_file_column_stats", ("data_file_id", "column_id"), rows)


def _least_row_id(session: Session, table_id: TableId) -> int:
    of_files = f"SELECT max(needed) FROM ({USED_ROW_IDS}) AS used WHERE table_id = {table_id}"  # noqa: S608 # a number
    registered = queries.inlined_tables(session.tables).ask(session, table_id=table_id)
    names = [row.table_name for row in registered if table_exists(session, row.table_name)]
    rows = union_of_rows(session.database, names)
    of_rows = f"SELECT max(row_id) + 1 FROM ({rows}) AS r WHERE row_id < 1000000000000000000"  # noqa: S608 # SQL of ours
    asked = [of_files, *([of_rows] if names else [])]
    found = session.run([Statement(text(filled(session.database, sql))) for sql in asked])
    return max(int(needed or 0) for [[needed]] in found)


def _widened(table_id: TableId, stats: TableColumnStats) -> Write:
    """Return the write of wider bounds. Unknown ones go: DuckDB takes empty ones for those of no value."""
    key = {"table_id": table_id, "column_id": stats.column_id}
    if stats.min_value is None and stats.max_value is None:
        return DeleteRows("ducklake_table_column_stats", (key,))
    bounds = {name: getattr(stats, name) for name in ("contains_null", "contains_nan", "min_value", "max_value")}
    return UpdateRows("ducklake_table_column_stats", ("table_id", "column_id"), ({**key, **bounds},))


def _file_row(file_id: DataFileId, stats: ColumnStats) -> dict[str, object]:
    names = ("column_id", "value_count", "null_count", "min_value", "max_value", "contains_nan")
    return {"data_file_id": file_id, **{name: getattr(stats, name) for name in names}}


def _snapshot_row(made: Snapshot) -> dict[str, object]:
    return {name: getattr(made, name) for name in queries.HEAD_COLUMNS}


def _changes_row(snapshot_id: SnapshotId) -> dict[str, object]:
    message = "repaired by the doctor of ducklake-streaming"
    told = {"changes_made": "", "author": None, "commit_message": message, "commit_extra_info": None}
    return {"snapshot_id": snapshot_id, **told}
