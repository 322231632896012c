"""What can be seen in the catalog alone: its format, snapshots, definitions, tables of inlined rows, delete marks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ducklake_core.catalog import reader
from ducklake_core.catalog.checks import shown
from ducklake_core.catalog.checks.answers import ask_inlined, ask_lake, read_versions
from ducklake_core.catalog.checks.changes import read_changes
from ducklake_core.catalog.checks.inventory import Inventory, count_rows
from ducklake_core.catalog.checks.question import Answer
from ducklake_core.catalog.database import Database
from ducklake_core.errors import CatalogTableMissing, CorruptCatalog
from ducklake_core.maintenance.doctor.notes import Notes
from ducklake_core.model import SnapshotId, TableId, TableVersion
from ducklake_core.spec.changes import parse_changes

_LEDGER = "ducklake_streaming_epochs"
_SHOWN_CHANGES = 200  # characters


def find_other_format(database: Database) -> Answer | None:
    """Return what is wrong with what the catalog says of its format."""
    versions = read_versions(database)
    if versions == [database.version.text]:
        return None
    told = ", ".join(f"'{version}'" for version in versions) or "nothing"
    example = f"it says {told}, and was opened as '{database.version.text}'"
    return Answer("format-changed", None, max(1, len(versions)), (example,), shown.shown_sql(database, shown.VERSION))


def check_layout(database: Database, inventory: Inventory, notes: Notes) -> None:
    """Note tables that have the columns of another format: what a migration leaves when a writer of before goes on."""
    expected = {table.name: [c.name for c in table.columns] for table in database.tables.metadata.tables.values()}
    for name in inventory.other_layout(expected):
        found = ", ".join(inventory.stored.get(name, ())) or "none: it is not there"
        notes.add("format-changed", None, f"table '{name}' has other columns than the format's: {found}", shown.VERSION)
    for name, table_id in inventory.registered.items():
        if name in inventory.stored and not inventory.has_system_columns(name):
            first = ", ".join(inventory.stored[name][:3])
            example = f"table '{name}' begins with the columns {first}"
            notes.add("format-changed", table_id, example, shown.INLINED_TABLES, table_id)


def check_questions(database: Database, inventory: Inventory) -> Iterator[Answer]:
    """Yield what the questions to the catalog find."""
    yield from ask_lake(database, has_ledger=_LEDGER in inventory.stored)
    yield from ask_inlined(database, inventory)


def check_changes(database: Database, notes: Notes) -> None:
    """Note snapshots whose changes nobody can parse."""
    for snapshot_id, changes in read_changes(database):
        try:
            parse_changes(changes)
        except CorruptCatalog:
            told = f"snapshot {snapshot_id}: '{(changes or '')[:_SHOWN_CHANGES]}'"
            notes.add("unknown-change", None, told, shown.CHANGES, snapshot_id)


def check_inlined_tables(database: Database, inventory: Inventory) -> Iterator[Answer]:
    """Yield tables of inlined rows that are missing, that nobody reads, and those of tables that are gone."""
    for name, table_id in inventory.registered.items():
        if name not in inventory.stored and table_id in inventory.known_ids:
            sql = shown.shown_sql(database, shown.INLINED_TABLES, [table_id])
            yield Answer("missing-inlined-table", table_id, 1, (f"'{name}'",), sql)
    for name, table_id, is_deletes in inventory.inlined:
        is_orphan = table_id not in inventory.known_ids
        is_unknown = not is_deletes and name not in inventory.registered
        if not is_orphan and not is_unknown:
            continue
        # Empty ones wait until nobody can know them any more: a flush drops them later.
        count = _count(database, name)
        if count and is_orphan:
            yield Answer(
                "orphan-inlined-table", None, 1, (f"'{name}' with {count} rows",), shown.count_sql(database, name)
            )
        elif count:
            sql = shown.count_sql(database, name)
            yield Answer("unregistered-inlined-table", table_id, 1, (f"'{name}' with {count} rows",), sql)


def _count(database: Database, name: str) -> int:
    try:
        return sum(database.ask(lambda session: count_rows(session, [name])))
    except CatalogTableMissing:  # dropped meanwhile
        return 0


def read_definitions(
    database: Database, data_path: str, head: SnapshotId, table_ids: Iterable[int], notes: Notes
) -> dict[TableId, TableVersion]:
    """Return those of some tables that the head has; note those that nobody can make sense of."""
    found: dict[TableId, TableVersion] = {}
    for table_id in map(TableId, sorted(table_ids)):
        try:
            table = database.ask(
                lambda session, table_id=table_id: reader.find_table_by_id(session, table_id, head, data_path)  # type: ignore[misc] # it is called at once
            )
        except CorruptCatalog as error:
            notes.add("unreadable-catalog", table_id, str(error), shown.COLUMNS, table_id)
        else:
            if table is not None:
                found[table_id] = table
    return found
