"""Whether the database lets us do what a commit does, or make a lake: it is done to no row, and undone."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from uuid import uuid4

from sqlalchemy import Column, Integer, MetaData, Table, delete, false, insert, select, update
from sqlalchemy.schema import CreateTable

from ducklake_core.catalog.database import Database
from ducklake_core.catalog.lake_setup import bootstrap_statements, normalize_data_path
from ducklake_core.catalog.ledger import ledger_tables
from ducklake_core.catalog.session import Statement
from ducklake_core.catalog.stored_tables import table_exists
from ducklake_core.errors import CatalogForbidden

# What a sink does to tables of the catalog beside inserts; deploy/postgres/roles.sql grants it.
SINK_UPDATES = frozenset(
    f"ducklake_{name}"
    for name in ("metadata", "table_stats", "table_column_stats", "column", "data_file", "delete_file")
) | {"ducklake_streaming_epochs", "ducklake_streaming_consumers"}
SINK_DELETES = frozenset({"ducklake_inlined_data_tables", "ducklake_delete_file"})


def check_rights(database: Database, *, maintains: bool = False) -> None:
    """Raise CatalogForbidden where a sink may not write to a table of the catalog, or make none.

    `maintains`: also where maintenance may not.
    """
    ledger = ledger_tables(database.url.metadata_schema, database.dialect.values)
    with database.write("write to") as session:
        own = [table for table in (ledger.epochs, ledger.consumers) if table_exists(session, table.name)]
        tables = [*database.tables.metadata.tables.values(), *own]
        writes = [one for table in tables for one in _writes(table, maintains=maintains)]
        session.run([_probe(database), *writes])


def check_can_create(database: Database, data_path: str, now: datetime) -> None:
    """Raise CatalogForbidden where no lake can be made."""
    if database.dialect.is_file:  # to connect would make the file
        _check_folder(Path(database.url.url.database or "").absolute().parent, database.url.shown)
        return
    statements = bootstrap_statements(database, normalize_data_path(data_path), uuid4(), now)
    with database.write("create a lake in", checks_version=False) as session:
        session.run(statements)


def _check_folder(folder: Path, shown: str) -> None:
    """Write a file that has no name to the folder, or to the first one above it that is there."""
    there = next(one for one in (folder, *folder.parents) if one.exists())
    try:
        tempfile.TemporaryFile(dir=there).close()
    except OSError as error:
        raise CatalogForbidden(f"may not create a lake in '{shown}': {error.strerror}: '{there}'") from error


def _probe(database: Database) -> Statement:
    name = f"ducklake_probe_{uuid4().hex}"
    table = Table(name, MetaData(schema=database.url.metadata_schema), Column("probe", Integer))
    return Statement(CreateTable(table))


def _writes(table: Table, *, maintains: bool) -> Iterator[Statement]:
    """Yield what asks for the rights to write a table, and writes nothing."""
    first = next(iter(table.columns))
    yield Statement(insert(table).from_select([first.name], select(first).where(false())))
    if table.name in SINK_UPDATES:
        yield Statement(update(table).values({first.name: first}).where(false()))
    if maintains or table.name in SINK_DELETES:
        yield Statement(delete(table).where(false()))
