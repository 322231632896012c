"""The definitions of a lake at one snapshot: its schemas, tables and options. Loaded when asked for, and remembered.

A definition holds as long as the lake's schema version: `at_head` keeps it for a later snapshot of the same version.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from ducklake_core.catalog import queries, reader
from ducklake_core.catalog.database import Database
from ducklake_core.catalog.options import options_of
from ducklake_core.catalog.session import Session, Statement
from ducklake_core.errors import ObjectNotFound
from ducklake_core.model import SchemaId, SchemaVersion, Snapshot, TableId, TableVersion
from ducklake_core.spec.inlined import find_uninlinable, find_unreadable
from ducklake_core.spec.names import fold, join_table_name, nearest_name, split_table_name, table_key
from ducklake_core.spec.options import Options, TableOptions
from ducklake_core.spec.rows import MetadataRow, SnapshotRow, ViewRow


@dataclass(frozen=True, slots=True)
class KnownTable:
    """A table, and what every write asks of its definition and options: worked out once.

    `is_inlinable`: the catalog can hold its rows. `can_inline`: and DuckDB can read them there.
    """

    version: TableVersion
    options: TableOptions
    is_inlinable: bool
    can_inline: bool


class Definitions:
    """The schemas, tables and options of a lake as one snapshot has them."""

    def __init__(self, database: Database, data_path: str, snapshot: Snapshot, options: Options) -> None:
        self.database = database
        self.data_path = data_path
        self.snapshot = snapshot
        self.options = options
        self._found: dict[tuple[str, str], TableVersion] = {}
        self._schemas: list[SchemaVersion] | None = None
        self._known: dict[tuple[str, str], KnownTable] = {}
        self._table_options: dict[tuple[SchemaId, TableId], TableOptions] = {}

    @classmethod
    def at_head(cls, database: Database, data_path: str, known: Definitions | None) -> Definitions:
        """Read the head and the options; keep what is known when no definition has changed since."""
        base = -1 if known is None else known.snapshot.snapshot_id
        heads, options = database.ask(lambda session: _read_heads(session, base))
        snapshots = reader.head_and_base_of(heads)
        found = cls(database, data_path, snapshots[0], options_of(options))
        # A restored catalog counts its versions anew: the snapshot that is known must still be there, too.
        is_there = known is not None and snapshots[-1] == known.snapshot
        if known is not None and is_there and known.snapshot.schema_version == found.snapshot.schema_version:
            found._keep(known)
        return found

    def at(self, snapshot: Snapshot) -> Definitions | None:
        """Return the same for a later snapshot; None: a definition has changed since."""
        if snapshot.schema_version != self.snapshot.schema_version or snapshot.snapshot_id < self.snapshot.snapshot_id:
            return None
        found = Definitions(self.database, self.data_path, snapshot, self.options)
        found._keep(self)
        return found

    def _keep(self, known: Definitions) -> None:
        self._found, self._schemas = known._found, known._schemas  # of the same class
        if known.options == self.options:
            self._known, self._table_options = known._known, known._table_options

    def find_table(self, schema_name: str, table_name: str) -> TableVersion | None:
        """Return the table of that name, regardless of case, None when there is none."""
        key = (fold(schema_name), fold(table_name))
        if key not in self._found:
            name, at = (schema_name, table_name), self.snapshot.snapshot_id
            found = self.database.ask(lambda session: reader.find_table(session, name, at, self.data_path))
            if found is None:
                return None
            self._found[key] = found
        return self._found[key]

    def known_table(self, name: str) -> KnownTable | None:
        """Return the table of a name such as `schema.table`, with what its writers need; None when there is none."""
        key = table_key(name)
        known = self._known.get(key)
        if known is None:
            found = self.find_table(*split_table_name(name))
            known = None if found is None else self.describe(found)
            if known is not None:
                self._known[key] = known
        return known

    def describe(self, table: TableVersion) -> KnownTable:
        """Return a table, be it created already or not, with what its writers need."""
        is_inlinable = find_uninlinable(table.columns, self.database.dialect.inlined_rules) is None
        can_inline = is_inlinable and find_unreadable(table.columns) is None
        return KnownTable(table, self.options_of(table), is_inlinable, can_inline)

    def tables(self) -> list[TableVersion]:
        at = self.snapshot.snapshot_id
        return self.database.ask(lambda session: reader.read_tables(session, at, self.data_path))

    def schemas(self) -> list[SchemaVersion]:
        if self._schemas is None:
            at = self.snapshot.snapshot_id
            self._schemas = self.database.ask(lambda session: reader.read_schemas(session, at))
        return self._schemas

    @cached_property
    def lake_options(self) -> TableOptions:
        """What is in force where no table has a say."""
        return TableOptions.of_lake(self.options)

    def options_of(self, table: TableVersion) -> TableOptions:
        """Return what is in force for a table, be it created already or not."""
        key = table.schema_id, table.table_id
        if key not in self._table_options:
            self._table_options[key] = TableOptions.of_table(self.options, *key)
        return self._table_options[key]

    def view_names(self) -> list[str]:
        """Return the names of the views, which are in DuckDB's SQL."""
        schemas = {schema.schema_id: schema.name for schema in self.schemas()}
        return [join_table_name(schemas[v.schema_id], v.view_name) for v in self._views() if v.schema_id in schemas]

    def has_view(self, schema_id: SchemaId, name: str) -> bool:
        return any(v.schema_id == schema_id and fold(v.view_name) == fold(name) for v in self._views())

    def has_views(self, schema_id: SchemaId) -> bool:
        return any(v.schema_id == schema_id for v in self._views())

    def table_not_found(self, name: str) -> ObjectNotFound:
        """Return the error for a name that no table has, with the nearest one that exists."""
        names = [t.qualified_name for t in self.tables()]
        near = nearest_name(name, names) or nearest_name(f"main.{name}", names)
        hint = f"did you mean '{near}'?" if near else f"there are {', '.join(names[:10]) or 'no tables'}"
        return ObjectNotFound(f"there is no table '{name}' at snapshot {self.snapshot.snapshot_id}; {hint}", name=name)

    def _views(self) -> list[ViewRow]:
        at = self.snapshot.snapshot_id
        return self.database.ask(lambda session: queries.views(session.tables).ask(session, snapshot=at))


def _read_heads(session: Session, base: int) -> tuple[list[SnapshotRow], list[MetadataRow]]:
    """Return the head, and the base where that is another; and the options."""
    snapshots, metadata = queries.head_and_base(session.tables), queries.metadata(session.tables)
    statements = [Statement(snapshots.select, {"base": base}), Statement(metadata.select)]
    heads, options = session.run_and_end(statements)
    return snapshots.named(heads), metadata.named(options)
