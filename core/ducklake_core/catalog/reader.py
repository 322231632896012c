"""Reads what a lake is at a snapshot: rows of the catalog become values here, and nowhere else.

A row that breaks the format becomes `CorruptCatalog`, naming the table and the row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from datetime import UTC, datetime
from operator import index
from typing import Any

from ducklake_core.catalog import file_queries, queries
from ducklake_core.catalog.inlined_tables import SYSTEM_COLUMNS, inlined_table
from ducklake_core.catalog.query import Query
from ducklake_core.catalog.session import Session, Statement
from ducklake_core.catalog.stored_tables import stored_columns
from ducklake_core.catalog.table_definition import DefinitionRows, columns_at, definition_of, identity_of
from ducklake_core.errors import CorruptCatalog, InvalidInput, ObjectNotFound
from ducklake_core.model import (
    ColumnId,
    ColumnsVersion,
    InlinedTable,
    SchemaVersion,
    Snapshot,
    SnapshotId,
    TableColumnStats,
    TableId,
    TableStats,
    TableVersion,
)
from ducklake_core.spec.names import fold, join_table_name
from ducklake_core.spec.rows import InlinedTotalsRow, SnapshotRow, TableRow, TableStatsRow, ToldSnapshotRow

_OLDEST_TIME = datetime(1, 1, 2, tzinfo=UTC)  # a time that every database takes, whatever its zone is


def read_head(session: Session) -> Snapshot:
    """Return the newest snapshot."""
    return head_of(queries.head(session.tables).ask(session))


def head_of(rows: Sequence[SnapshotRow]) -> Snapshot:
    """Return the newest snapshot from what `queries.head` finds."""
    if not rows:
        raise CorruptCatalog("the catalog has no snapshot: 'ducklake_snapshot' is empty")
    return snapshot_of(rows[0])


def head_and_base_of(rows: Sequence[SnapshotRow]) -> list[Snapshot]:
    """Return the newest snapshot, and the base where that is another, from what `queries.head_and_base` finds."""
    return [head_of(rows), *map(snapshot_of, rows[1:])]


def read_snapshot(session: Session, at: int | datetime | None) -> Snapshot:
    """Return the snapshot with an id, the last one not after a time (in UTC without a zone), or the head for None."""
    if at is None:
        return read_head(session)
    if isinstance(at, datetime):
        moment = at if at.tzinfo else at.replace(tzinfo=UTC)
        rows = queries.snapshot_at_time(session.tables).ask(session, time=moment)
    else:
        rows = queries.snapshot_by_id(session.tables).ask(session, snapshot=checked_id(at))
    if not rows:
        raise _no_snapshot(session, f"there is no snapshot at '{at}'", at)
    return snapshot_of(rows[0])


def read_first_snapshot(session: Session, since: datetime) -> SnapshotId:
    """Return the first snapshot that is not before a time (in UTC without a zone)."""
    moment = since if since.tzinfo else since.replace(tzinfo=UTC)
    rows = queries.snapshot_since_time(session.tables).ask(session, time=moment)
    if not rows:
        raise _no_snapshot(session, f"there is no snapshot at or after '{since}'", since)
    return snapshot_of(rows[0]).snapshot_id


def _no_snapshot(session: Session, found: str, at: int | datetime) -> ObjectNotFound:
    """Return the error for a snapshot that is not there, with the range of those that are."""
    oldest, head = snapshot_of(queries.oldest(session.tables).ask(session)[0]), read_head(session)
    first, last = (f"{one.snapshot_id} of {one.snapshot_time:%Y-%m-%d %H:%M:%S.%f} UTC" for one in (oldest, head))
    reason = "it never was, or it has expired" if _is_before(at, head) else "that is still to come"
    return ObjectNotFound(
        f"{found}: {reason}; the oldest that can be read is {first}, the newest {last}",
        at=at,
        oldest=oldest.snapshot_id,
        head=head.snapshot_id,
    )


def _is_before(at: int | datetime, head: Snapshot) -> bool:
    if isinstance(at, datetime):
        return (at if at.tzinfo else at.replace(tzinfo=UTC)) <= head.snapshot_time
    return int(at) <= head.snapshot_id


def checked_id(at: int) -> int:
    """Return what users give for the id of a snapshot; raise InvalidInput for what cannot be one."""
    try:
        if isinstance(at, bool):
            raise TypeError  # noqa: TRY301 # it would be 0 or 1
        return index(at)
    except TypeError:
        raise InvalidInput(f"{at!r} is no snapshot: give its id, a datetime, or None for the newest", at=at) from None


def read_snapshots(session: Session, since: datetime | None = None, limit: int | None = None) -> list[Snapshot]:
    """Return every snapshot, or those not before a time (in UTC without a zone), and of these the newest `limit`."""
    moment = _OLDEST_TIME if since is None else since if since.tzinfo else since.replace(tzinfo=UTC)
    if limit is not None:
        found = queries.newest_snapshots(session.tables).ask(session, time=moment, limit=limit)[::-1]
    elif since is None:
        found = queries.snapshots(session.tables).ask(session)
    else:
        found = queries.snapshots_since(session.tables).ask(session, time=moment)
    return [told_snapshot_of(row) for row in found]


def snapshot_of(row: SnapshotRow) -> Snapshot:
    if None in row:
        raise CorruptCatalog(f"'ducklake_snapshot' has a row with nulls: {tuple(row)}")
    return Snapshot(*row)  # whose fields are those of the row


def told_snapshot_of(row: ToldSnapshotRow) -> Snapshot:
    """Return a snapshot with what it tells of itself."""
    own = SnapshotRow(row.snapshot_id, row.snapshot_time, row.schema_version, row.next_catalog_id, row.next_file_id)
    return replace(
        snapshot_of(own),
        changes=row.changes_made,
        author=row.author,
        message=row.commit_message,
        extra_info=row.commit_extra_info,
    )


def read_schemas(session: Session, snapshot: SnapshotId) -> list[SchemaVersion]:
    """Return the schemas live at a snapshot."""
    rows = queries.schemas(session.tables).ask(session, snapshot=snapshot)
    return [
        SchemaVersion(r.schema_id, r.schema_uuid, r.schema_name, r.path or "", r.path_is_relative is not False)
        for r in rows
    ]


def read_schemas_at(session: Session, at: int | datetime | None) -> list[SchemaVersion]:
    """Return the schemas live at what `read_snapshot` takes."""
    return read_schemas(session, read_snapshot(session, at).snapshot_id)


def find_table(session: Session, name: tuple[str, str], snapshot: SnapshotId, data_path: str) -> TableVersion | None:
    """Return the table of a (schema, table) name at a snapshot, None when there is none."""
    schema_name, table_name = name
    names = {
        "schema_name": schema_name,
        "folded_schema_name": fold(schema_name),
        "lower_schema_name": schema_name.lower(),
        "table_name": table_name,
        "folded_table_name": fold(table_name),
        "lower_table_name": table_name.lower(),
    }
    found = queries.table_named(session.tables).ask(session, snapshot=snapshot, **names)
    rows = [r for r in found if (fold(r.schema_name), fold(r.table_name)) == (fold(schema_name), fold(table_name))]
    return _load(session, rows[0], snapshot, data_path) if rows else None


def find_table_by_id(session: Session, table_id: TableId, snapshot: SnapshotId, data_path: str) -> TableVersion | None:
    """Return the table with an id at a snapshot, None when it is not live there."""
    rows = queries.table_numbered(session.tables).ask(session, snapshot=snapshot, table_id=table_id)
    return _load(session, rows[0], snapshot, data_path) if rows else None


def read_columns_versions(session: Session, table_id: TableId, table_name: str) -> list[ColumnsVersion]:
    """Return all columns that a table has ever had, oldest first: no expiry removes them while the table lives."""
    rows = queries.columns(session.tables).ask(session, table_id=table_id)
    bounds = {bound for row in rows for bound in (row.begin_snapshot, row.end_snapshot) if bound is not None}
    return [ColumnsVersion(b, columns_at(rows, b, table_name)) for b in sorted(bounds)]


def read_tables(session: Session, snapshot: SnapshotId, data_path: str) -> list[TableVersion]:
    """Return every table live at a snapshot."""
    rows = queries.tables_with_schema(session.tables).ask(session, snapshot=snapshot)
    return [_load(session, row, snapshot, data_path) for row in rows]


def read_table_names(session: Session, snapshot: SnapshotId) -> dict[TableId, str]:
    """Return the names of the tables live at a snapshot, without reading how they are defined."""
    rows = queries.tables_with_schema(session.tables).ask(session, snapshot=snapshot)
    found = [identity_of(row, "") for row in rows]
    return {table.table_id: join_table_name(table.schema_name, table.name) for table in found}


def read_tables_at(session: Session, at: int | datetime | None, data_path: str) -> tuple[Snapshot, list[TableVersion]]:
    """Return the snapshot at what `read_snapshot` takes, and every table live there."""
    snapshot = read_snapshot(session, at)
    return snapshot, read_tables(session, snapshot.snapshot_id, data_path)


def recover_table_stats(session: Session, table_id: TableId) -> TableStats | None:
    """Compute the statistics of a table that has rows but no statistics row; None when it never had a row.

    Another writer forgot it (format §10.3). Columns get no entry: the reference would take an empty one for "no value
    so far" and narrow it to the next rows it adds. Row ids inside of files that a compaction wrote are not seen here.
    """
    totals, registered = file_queries.file_totals(session.tables), queries.inlined_tables(session.tables)
    parameters = {"table_id": table_id}
    of_files, names = session.run([Statement(totals.select, parameters), Statement(registered.select, parameters)])
    [files] = totals.named(of_files)
    inlined = _inlined_totals(session, [row.table_name for row in registered.named(names)])
    count = files.record_count + sum(row.row_count for row in inlined)
    if not count:
        return None
    next_row_id = max([files.next_row_id, *(row.next_row_id for row in inlined)])
    return TableStats(count, next_row_id, files.file_size_bytes, is_recovered=True)


def _inlined_totals(session: Session, names: Sequence[str]) -> list[InlinedTotalsRow]:
    schema = session.database.url.metadata_schema
    tables = [inlined_table(name, (), session.dialect.inlined_rules, schema) for name in names]
    totals = [queries.inlined_totals(table) for table in tables]
    found = session.run([Statement(query.select) for query in totals]) if totals else []
    return [row for query, rows in zip(totals, found, strict=True) for row in query.named(rows)]


def table_stats_of(rows: Sequence[TableStatsRow]) -> TableStats | None:
    """Return the statistics of a table from what `queries.table_stats` finds, None when it has none or a broken row."""
    if not rows:
        return None
    of_table = rows[0]  # the same in each
    if of_table.record_count is None or of_table.next_row_id is None or of_table.file_size_bytes is None:
        return None
    columns = {row.column_id: _column_stats_of(row, row.column_id) for row in rows if row.column_id is not None}
    return TableStats(of_table.record_count, of_table.next_row_id, of_table.file_size_bytes, columns)


def _column_stats_of(row: TableStatsRow, column_id: ColumnId) -> TableColumnStats:
    return TableColumnStats(
        column_id, row.contains_null, row.contains_nan, row.min_value, row.max_value, row.extra_stats
    )


def _load(session: Session, row: TableRow, snapshot: SnapshotId, data_path: str) -> TableVersion:
    table = definition_of(row, _read_definition(session, row.table_id), snapshot, data_path)
    return replace(table, inlined_tables=_stored(session, table.inlined_tables))


def _read_definition(session: Session, table_id: TableId) -> DefinitionRows:
    """Read the rows of a definition; each query is called what they are called."""
    asked: dict[str, Query[Any]] = {f.name: getattr(queries, f.name)(session.tables) for f in fields(DefinitionRows)}
    found = session.run([Statement(query.select, {"table_id": table_id}) for query in asked.values()])
    named = {name: query.named(rows) for (name, query), rows in zip(asked.items(), found, strict=True)}
    return DefinitionRows(**named)


def _stored(session: Session, tables: tuple[InlinedTable, ...]) -> tuple[InlinedTable, ...]:
    """Return the tables with the names that the database has for their columns, after those of the system."""
    names = stored_columns(session, [t.name for t in tables])
    return tuple(replace(t, stored_names=n[len(SYSTEM_COLUMNS) :]) for t, n in zip(tables, names, strict=True))
