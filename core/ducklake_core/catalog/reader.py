"""Reads what a lake is at a snapshot: rows of the catalog become values here, and nowhere else.

A row that breaks the format becomes `CorruptCatalog`, naming the table and the row.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from ducklake_core.catalog import queries
from ducklake_core.catalog.inlined_tables import SYSTEM_COLUMNS, inlined_table
from ducklake_core.catalog.session import Row, Session, Statement
from ducklake_core.catalog.stored_tables import stored_columns
from ducklake_core.errors import CorruptCatalog, InvalidInput, ObjectNotFound
from ducklake_core.model import (
    Column,
    ColumnId,
    ColumnsVersion,
    InlinedTable,
    Partitioning,
    PartitionKey,
    SchemaId,
    SchemaVersion,
    Snapshot,
    SnapshotId,
    SortKey,
    SortOrder,
    TableColumnStats,
    TableId,
    TableStats,
    TableVersion,
)
from ducklake_core.spec.names import fold, join_table_name
from ducklake_core.spec.paths import join_path
from ducklake_core.spec.types import stored_type

DEFINITION_TABLES = (
    "ducklake_column",
    "ducklake_column_tag",
    "ducklake_partition_info",
    "ducklake_partition_column",
    "ducklake_sort_info",
    "ducklake_sort_expression",
    "ducklake_inlined_data_tables",
    "ducklake_schema_versions",
)


def read_head(session: Session) -> Snapshot:
    """Return the newest snapshot."""
    return head_of(session.query(queries.head(session.tables)))


def head_of(rows: Sequence[Row]) -> Snapshot:
    """Return the newest snapshot from what `queries.head` finds."""
    if not rows:
        raise CorruptCatalog("the catalog has no snapshot: 'ducklake_snapshot' is empty")
    return snapshot_of(rows[0])


def read_snapshot(session: Session, at: int | datetime | None) -> Snapshot:
    """Return the snapshot with an id, the last one not after a time (in UTC without a zone), or the head for None."""
    if at is None:
        return read_head(session)
    if isinstance(at, datetime):
        moment = at if at.tzinfo else at.replace(tzinfo=UTC)
        rows = session.query(queries.snapshot_at_time(session.tables), time=moment)
    else:
        rows = session.query(queries.snapshot_by_id(session.tables), snapshot=_snapshot_id(at))
    if not rows:
        raise _no_snapshot(session, f"there is no snapshot at '{at}'", at)
    return snapshot_of(rows[0])


def read_first_snapshot(session: Session, since: int | datetime) -> int:
    """Return a snapshot id as it is, or for a time (in UTC without a zone) the first snapshot not before it."""
    if not isinstance(since, datetime):
        return _snapshot_id(since)
    moment = since if since.tzinfo else since.replace(tzinfo=UTC)
    rows = session.query(queries.snapshot_since_time(session.tables), time=moment)
    if not rows:
        raise _no_snapshot(session, f"there is no snapshot at or after '{since}'", since)
    return snapshot_of(rows[0]).snapshot_id


def _no_snapshot(session: Session, found: str, at: int | datetime) -> ObjectNotFound:
    """Return the error for a snapshot that is not there, with the range of those that are."""
    oldest, head = snapshot_of(session.query(queries.oldest(session.tables))[0]), read_head(session)
    shown = [f"{one.snapshot_id} of {one.snapshot_time:%Y-%m-%d %H:%M:%S.%f} UTC" for one in (oldest, head)]
    reason = "it never was, or it has expired" if _is_before(at, head) else "that is still to come"
    return ObjectNotFound(
        f"{found}: {reason}; the oldest that can be read is {shown[0]}, the newest {shown[1]}",
        at=at,
        oldest=oldest.snapshot_id,
        head=head.snapshot_id,
    )


def _is_before(at: int | datetime, head: Snapshot) -> bool:
    if isinstance(at, datetime):
        return (at if at.tzinfo else at.replace(tzinfo=UTC)) <= head.snapshot_time
    return int(at) <= head.snapshot_id


def _snapshot_id(at: int) -> int:
    try:
        return int(at)
    except (TypeError, ValueError):
        raise InvalidInput(f"{at!r} is no snapshot: give its id, a datetime, or None for the newest", at=at) from None


def read_snapshots(session: Session, since: datetime | None = None) -> list[Snapshot]:
    """Return every snapshot, or those not before a time (in UTC without a zone)."""
    if since is None:
        return [snapshot_of(row) for row in session.query(queries.snapshots(session.tables))]
    moment = since if since.tzinfo else since.replace(tzinfo=UTC)
    return [snapshot_of(row) for row in session.query(queries.snapshots_since(session.tables), time=moment)]


def snapshot_of(row: Row) -> Snapshot:
    if any(value is None for value in row[:5]):
        raise CorruptCatalog(f"'ducklake_snapshot' has a row with nulls: {tuple(row[:5])}")
    return Snapshot(*row)


def read_schemas(session: Session, snapshot: SnapshotId) -> list[SchemaVersion]:
    """Return the schemas live at a snapshot."""
    rows = session.query(queries.schemas(session.tables), snapshot=snapshot)
    return [SchemaVersion(r[0], r[1], r[4], r[5] or "", r[6] is not False) for r in rows]


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
    found = session.query(queries.table_named(session.tables), snapshot=snapshot, **names)
    rows = [r for r in found if (fold(r[8]), fold(r[5])) == (fold(schema_name), fold(table_name))]
    return _load(session, rows[0], snapshot, data_path) if rows else None


def find_table_by_id(session: Session, table_id: TableId, snapshot: SnapshotId, data_path: str) -> TableVersion | None:
    """Return the table with an id at a snapshot, None when it is not live there."""
    rows = session.query(queries.table_numbered(session.tables), snapshot=snapshot, table_id=table_id)
    return _load(session, rows[0], snapshot, data_path) if rows else None


def read_columns_versions(session: Session, table_id: TableId, table_name: str) -> list[ColumnsVersion]:
    """Return all columns that a table has ever had, oldest first: no expiry removes them while the table lives."""
    rows = session.query(queries.of_table(session.tables, "ducklake_column"), table_id=table_id)
    bounds = {bound for row in rows for bound in row[1:3] if bound is not None}
    return [ColumnsVersion(SnapshotId(b), columns_at(rows, b, table_name)) for b in sorted(bounds)]


def read_tables(session: Session, snapshot: SnapshotId, data_path: str) -> list[TableVersion]:
    """Return every table live at a snapshot."""
    rows = session.query(queries.tables_with_schema(session.tables), snapshot=snapshot)
    return [_load(session, row, snapshot, data_path) for row in rows]


def read_table_names(session: Session, snapshot: SnapshotId) -> dict[TableId, str]:
    """Return the names of the tables live at a snapshot, without reading how they are defined."""
    rows = session.query(queries.tables_with_schema(session.tables), snapshot=snapshot)
    found = [_identity_of(row, "") for row in rows]
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
    statements = [
        Statement(queries.file_totals(session.tables), {"table_id": table_id}),
        Statement(queries.of_table(session.tables, "ducklake_inlined_data_tables"), {"table_id": table_id}),
    ]
    [[count, next_row_id, size]], registered = session.run(statements)
    schema = session.database.url.metadata_schema
    inlined = [inlined_table(row[1], (), session.dialect.inlined_rules, schema) for row in registered]
    for [[versions, end]] in session.run([Statement(queries.inlined_totals(t)) for t in inlined]) if inlined else ():
        count, next_row_id = count + versions, max(next_row_id, end)
    if not count:
        return None
    return TableStats(count, next_row_id, size, is_recovered=True)


def table_stats_of(rows: Sequence[Row]) -> TableStats | None:
    """Return the statistics of a table from what `queries.table_stats` finds, None when it has none or a broken row."""
    if not rows or any(value is None for value in rows[0][:3]):
        return None
    columns = {row[3]: TableColumnStats(*row[3:]) for row in rows if row[3] is not None}
    record_count, next_row_id, file_size_bytes = rows[0][:3]
    return TableStats(record_count, next_row_id, file_size_bytes, columns)


# ------------------------------------------------------------------------------- a table's definition


def _load(session: Session, row: Row, snapshot: SnapshotId, data_path: str) -> TableVersion:
    table_id: TableId = row[0]
    statements = [
        Statement(queries.of_table(session.tables, name), {"table_id": table_id}) for name in DEFINITION_TABLES
    ]
    statements.append(Statement(queries.tags_of(session.tables), {"table_id": table_id}))
    *results, tags = session.run(statements)
    found = dict(zip(DEFINITION_TABLES, results, strict=True))
    table = _identity_of(row, data_path)
    columns = columns_at(found["ducklake_column"], snapshot, table.qualified_name)
    if not columns:
        raise CorruptCatalog(f"table '{table.qualified_name}' has no live column at snapshot {snapshot}")
    return replace(
        table,
        columns=_with_comments(columns, found["ducklake_column_tag"], snapshot),
        next_column_id=max(r[0] for r in found["ducklake_column"]) + 1,
        partitioning=_partitioning_at(found, snapshot),
        sort_order=_sort_order_at(found, snapshot),
        comment=next((r[4] for r in tags if r[3] == "comment" and _is_live(r[1], r[2], snapshot)), None),
        inlined_tables=_stored(session, _inlined_tables(found, row[2], table.qualified_name)),
        # Expiry removes the row of a name that the table had before, but none of its columns.
        begin_snapshot=min(r[1] for r in found["ducklake_column"]),
    )


def _stored(session: Session, tables: tuple[InlinedTable, ...]) -> tuple[InlinedTable, ...]:
    """Return the tables with the names that the database has for their columns, after those of the system."""
    names = stored_columns(session, [t.name for t in tables])
    return tuple(replace(t, stored_names=n[len(SYSTEM_COLUMNS) :]) for t, n in zip(tables, names, strict=True))


def _identity_of(row: Row, data_path: str) -> TableVersion:
    table_id, uuid, _begin, _end, schema_id, name, path, relative, schema_name, schema_path, schema_relative = row
    schema_directory = join_path(data_path, schema_path or "", is_relative=schema_relative is not False)
    return TableVersion(
        table_id=table_id,
        table_uuid=uuid,
        schema_id=SchemaId(schema_id),
        schema_name=schema_name,
        name=name,
        path=path or "",
        path_is_relative=relative is not False,
        directory=join_path(schema_directory, path or "", is_relative=relative is not False),
        columns=(),
        next_column_id=1,
    )


def columns_at(rows: Iterable[Row], snapshot: int, table_name: str) -> tuple[Column, ...]:
    """Build the column trees live at a snapshot from rows of `ducklake_column`."""
    live = [r for r in rows if _is_live(r[1], r[2], snapshot)]
    known = {r[0] for r in live}
    children: dict[int | None, list[Row]] = defaultdict(list)
    for row in sorted(live, key=lambda r: r[4] if r[4] is not None else r[0]):
        is_orphan = row[10] is not None and row[10] not in known
        if row[9] is None or row[5] is None or row[6] is None or stored_type(row[6]) is None or is_orphan:
            raise CorruptCatalog(
                f"table '{table_name}' has a broken row in 'ducklake_column': column_id {row[0]}, name '{row[5]}', "
                f"type '{row[6]}', nulls_allowed {row[9]}, parent_column {row[10]}"
            )
        children[row[10]].append(row)
    return tuple(_column_of(row, children) for row in children[None])


def _column_of(row: Row, children: Mapping[int | None, list[Row]]) -> Column:
    default = None if row[8] is None or (row[8] == "NULL" and row[11] != "expression") else row[8]
    return Column(
        column_id=ColumnId(row[0]),
        name=row[5],
        type=stored_type(row[6]) or row[6],
        nulls_allowed=bool(row[9]),
        initial_default=row[7],
        default_value=default,
        default_value_type=row[11] or "",
        children=tuple(_column_of(child, children) for child in children.get(row[0], ())),
    )


def _with_comments(columns: tuple[Column, ...], tags: Iterable[Row], snapshot: SnapshotId) -> tuple[Column, ...]:
    comments = {r[1]: r[5] for r in tags if r[4] == "comment" and _is_live(r[2], r[3], snapshot)}
    return tuple(replace(c, comment=comments.get(c.column_id)) for c in columns)


def _partitioning_at(found: Mapping[str, Sequence[Row]], snapshot: SnapshotId) -> Partitioning | None:
    live = [r for r in found["ducklake_partition_info"] if _is_live(r[2], r[3], snapshot)]
    if not live:
        return None
    partition_id = live[-1][0]
    keys = sorted((r for r in found["ducklake_partition_column"] if r[0] == partition_id), key=lambda r: r[2])
    return Partitioning(partition_id, tuple(PartitionKey(ColumnId(r[3]), r[4].lower()) for r in keys))


def _sort_order_at(found: Mapping[str, Sequence[Row]], snapshot: SnapshotId) -> SortOrder | None:
    live = [r for r in found["ducklake_sort_info"] if _is_live(r[2], r[3], snapshot)]
    if not live:
        return None
    rows = sorted((r for r in found["ducklake_sort_expression"] if r[0] == live[-1][0]), key=lambda r: r[2])
    return SortOrder(live[-1][0], tuple(SortKey(r[3], r[5] == "DESC", r[6] == "NULLS_FIRST") for r in rows))


def _inlined_tables(found: Mapping[str, Sequence[Row]], table_begin: int, name: str) -> tuple[InlinedTable, ...]:
    begins: dict[int, int] = {r[1]: r[0] for r in found["ducklake_schema_versions"]}
    tables = []
    for _table_id, inlined_name, version in sorted(found["ducklake_inlined_data_tables"], key=lambda r: r[2]):
        # A table made lazily by an insert has no schema version of its own: the definition of the newest one before it.
        begin = max((b for v, b in begins.items() if v <= version), default=table_begin)
        columns = columns_at(found["ducklake_column"], begin, name)
        partitioning = _partitioning_at(found, SnapshotId(begin))
        tables.append(InlinedTable(inlined_name, version, columns, partitioning=partitioning))
    return tuple(tables)


def _is_live(begin: int | None, end: int | None, snapshot: int) -> bool:
    return begin is not None and begin <= snapshot and (end is None or snapshot < end)
