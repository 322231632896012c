"""Reads what all tables of a lake hold, in a constant number of round trips where the database runs several at once.

Only tables of inlined rows must be named one by one: some hundred of them are one statement.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeAlias

from sqlalchemy import BigInteger, ColumnElement, MetaData, String, Table
from sqlalchemy import Column as SqlColumn

from ducklake_core.catalog import queries, reader, total_queries
from ducklake_core.catalog.database import Database
from ducklake_core.catalog.inlined_tables import SYSTEM_COLUMNS
from ducklake_core.catalog.session import Session, Statement
from ducklake_core.catalog.stored_tables import inlined_columns
from ducklake_core.errors import CatalogTableMissing
from ducklake_core.model import InlinedState, LakeTotals, SnapshotId, TableId, TableTotals
from ducklake_core.spec.names import join_table_name
from ducklake_core.spec.rows import TableDeleteFilesRow, TableFilesRow, TableInlinedRow, TableRow

_ATTEMPTS = 3
_MAX_TABLES = 200  # in one statement; SQLite takes 500: https://www.sqlite.org/limits.html
_MAX_COLUMNS = 5_000  # likewise, each a bound value or two, of which SQLite takes 32,766
_Measured: TypeAlias = tuple[TableId, Table, ColumnElement[Any]]  # Any: see `InlinedStore.row_size`
_NUMBERS = frozenset({*SYSTEM_COLUMNS, "file_id"})


def read_totals(database: Database, small_bytes: int) -> LakeTotals:
    """Return the totals at the head. A flush may drop a table between two questions: then it asks again."""
    for _ in range(_ATTEMPTS - 1):
        with suppress(CatalogTableMissing):
            return database.ask(lambda session: _read_totals(session, small_bytes))
    return database.ask(lambda session: _read_totals(session, small_bytes))


def read_object_names(session: Session) -> dict[int, str]:
    """Return the last name of each schema, table and view."""
    rows = total_queries.object_names(session.tables).ask(session)
    return {
        r.object_id: join_table_name(r.schema_name, r.object_name) if r.schema_name else r.object_name for r in rows
    }


def find_tables_with_columns(session: Session, names: Sequence[str]) -> set[TableId]:
    """Return the tables that have all these columns at the head."""
    head = reader.read_head(session).snapshot_id
    found = total_queries.tables_with_columns(session.tables, tuple(names)).ask(session, snapshot=head)
    return {row.table_id for row in found}


@dataclass(frozen=True, slots=True)
class _Found:
    """What was found of all tables, by their ids."""

    files: Mapping[int, TableFilesRow]
    delete_files: Mapping[int, TableDeleteFilesRow]
    inlined: Mapping[int, Sequence[TableInlinedRow]]


def _read_totals(session: Session, small_bytes: int) -> LakeTotals:
    t = session.tables
    asked = queries.head(t), queries.oldest(t), total_queries.snapshot_count(t)
    heads, oldest, [[count]] = session.run([Statement(query.select) for query in asked])
    head = reader.head_of(asked[0].named(heads))
    tables = _read_tables(session, head.snapshot_id, small_bytes)
    return LakeTotals(head, reader.snapshot_of(asked[1].named(oldest)[0]), count, tuple(tables))


def _read_tables(session: Session, head: SnapshotId, small_bytes: int) -> list[TableTotals]:
    t = session.tables
    tables, files = queries.tables_with_schema(t), total_queries.files_by_table(t)
    delete_files, registered = total_queries.delete_files_by_table(t), total_queries.inlined_tables(t)
    parameters = {"snapshot": head, "small_bytes": small_bytes}
    asked = Statement(tables.select, parameters), Statement(files.select, parameters)
    answers = session.run([*asked, Statement(delete_files.select, parameters), Statement(registered.select)])
    rows, names = tables.named(answers[0]), registered.named(answers[3])
    found = _Found(
        {row.table_id: row for row in files.named(answers[1])},
        {row.table_id: row for row in delete_files.named(answers[2])},
        _read_inlined(session, {row.table_id for row in rows}, {row.table_name: row.table_id for row in names}),
    )
    return [_totals_of(row, found) for row in rows]


def _read_inlined(
    session: Session, table_ids: Iterable[TableId], registered: Mapping[str, TableId]
) -> Mapping[int, Sequence[TableInlinedRow]]:
    """Measure the tables of inlined rows and deletes of some tables."""
    owners = {**registered, **{f"ducklake_inlined_delete_{table_id}": table_id for table_id in table_ids}}
    wanted, stored = set(table_ids), inlined_columns(session)
    tables = [(owners[name], _sql_table(session, name, columns)) for name, columns in stored.items() if name in owners]
    measured = [(owner, table, session.dialect.inlined.row_size(table)) for owner, table in tables if owner in wanted]
    asked = [total_queries.inlined_rows_by_table(session.tables, chunk) for chunk in _chunks(measured)]
    answers = session.run([Statement(query.select) for query in asked]) if asked else []
    found = defaultdict[int, list[TableInlinedRow]](list)
    for query, rows in zip(asked, answers, strict=True):
        for row in query.named(rows):
            found[row.table_id].append(row)
    return found


def _sql_table(session: Session, name: str, columns: Sequence[str]) -> Table:
    """Return a table by what the database calls its columns; their types do not matter to be measured."""
    typed = [SqlColumn(column, BigInteger if column in _NUMBERS else String) for column in columns]
    return Table(name, MetaData(schema=session.database.url.metadata_schema), *typed)


def _chunks(measured: Sequence[_Measured]) -> Iterator[list[_Measured]]:
    """Yield as many tables at once as every database takes in one statement."""
    chunk, columns = list[_Measured](), 0
    for one in measured:
        columns += len(one[1].columns)
        if chunk and (len(chunk) == _MAX_TABLES or columns > _MAX_COLUMNS):
            yield chunk
            chunk, columns = [], len(one[1].columns)
        chunk.append(one)
    if chunk:
        yield chunk


def _totals_of(row: TableRow, found: _Found) -> TableTotals:
    files = found.files.get(row.table_id, TableFilesRow(row.table_id, 0, 0, 0, 0))
    delete_files = found.delete_files.get(row.table_id, TableDeleteFilesRow(row.table_id, 0, 0))
    inlined = found.inlined.get(row.table_id, ())
    rows, deletes = ([one for one in inlined if bool(one.is_deletes) is wanted] for wanted in (False, True))
    deleted = delete_files.delete_count + sum(one.live_rows for one in deletes)
    return TableTotals(
        table_id=row.table_id,
        table_uuid=row.table_uuid,
        name=join_table_name(row.schema_name, row.table_name),
        rows=files.record_count - deleted + sum(one.live_rows for one in rows),
        files=files.files,
        small_files=files.small_files,
        file_bytes=files.file_size_bytes,
        delete_files=delete_files.delete_files,
        deleted_rows=deleted,
        inlined=InlinedState(
            rows=sum(one.row_count for one in rows),
            ended_rows=sum(one.ended_rows for one in rows),
            file_deletes=sum(one.row_count for one in deletes),
            size_bytes=sum(one.size_bytes for one in inlined),
            oldest=min((one.oldest for one in inlined if one.oldest is not None), default=None),
        ),
    )
