"""The schemas and tables of a lake as a transaction sees them: those of its base, and its own changes of them.

Runs on the driver. What the transaction creates has provisional ids, negative ones, until its commit gives them out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import pyarrow as pa
from uuid6 import uuid7

from ducklake_core.definitions import Definitions, KnownTable
from ducklake_core.errors import InvalidInput, ObjectExists, ObjectNotFound
from ducklake_core.files.storage import Storage
from ducklake_core.files.written import WrittenFiles
from ducklake_core.model import SchemaId, SchemaVersion, SortKey, TableId, TableVersion
from ducklake_core.partition_advice import warn_of_repeats
from ducklake_core.pending import PendingTable
from ducklake_core.plan import definition
from ducklake_core.spec.names import check_name, fold, split_table_name, table_key
from ducklake_core.spec.paths import directory_name, join_path
from ducklake_core.spec.types import build_columns

TableSchema: TypeAlias = pa.Schema | Mapping[str, str | pa.DataType]


@dataclass(slots=True)
class PendingDefinitions:
    """What a transaction finds and defines. `tables`: those that it has touched, by their ids; dropped ones, too."""

    base: Definitions
    storage: Storage
    tables: dict[TableId, PendingTable] = field(default_factory=dict)
    created_schemas: list[SchemaVersion] = field(default_factory=list)
    dropped_schemas: list[SchemaVersion] = field(default_factory=list)
    _names: dict[tuple[str, str], TableId] = field(default_factory=dict)
    _last_id: int = -1

    def next_id(self) -> int:
        """Return a provisional id."""
        self._last_id -= 1
        return self._last_id

    # ---- schemas

    def schema(self, name: str) -> SchemaVersion:
        schema = self.find_schema(name)
        if schema is None:
            raise ObjectNotFound(f"there is no schema '{name}': create it with create_schema('{name}')", name=name)
        return schema

    def find_schema(self, name: str) -> SchemaVersion | None:
        stored = [s for s in self.base.schemas() if s not in self.dropped_schemas]
        return next((s for s in [*stored, *self.created_schemas] if fold(s.name) == fold(name)), None)

    def create_schema(self, name: str) -> None:
        check_name(name, "schema")
        if self.find_schema(name) is not None:
            raise ObjectExists(f"schema '{name}' exists already", name=name)
        uuid = uuid7()
        self.created_schemas.append(SchemaVersion(SchemaId(self.next_id()), uuid, name, directory_name(name, uuid)))

    def drop_schema(self, name: str, *, cascade: bool = False) -> None:
        """Drop a schema; one that has tables only with `cascade`."""
        schema = self.schema(name)
        inside = [t for t in self._live_tables() if t.schema_id == schema.schema_id]
        if self.base.has_views(schema.schema_id):
            raise InvalidInput(f"schema '{name}' has views: drop it with DuckDB, which wrote them")
        if inside and not cascade:
            raise InvalidInput(
                f"schema '{name}' has tables, such as '{inside[0].name}': drop them first, or use cascade"
            )
        for table in inside:
            self._drop(self._load(table))
        if schema in self.created_schemas:
            self.created_schemas.remove(schema)
        else:
            self.dropped_schemas.append(schema)

    # ---- tables

    def table(self, name: str) -> PendingTable:
        """Return a table as the transaction sees it; raise ObjectNotFound."""
        key = table_key(name)
        table_id = self._names.get(key)
        if table_id is not None:
            pending = self.tables[table_id]
            if pending.after is None:
                raise ObjectNotFound(f"table '{name}' was dropped in this transaction", name=name)
            return pending
        known = self.base.known_table(name)
        if known is None or known.version.table_id in self.tables:
            raise self.base.table_not_found(name)
        return self._register(key, known, known.version)

    def create_table(
        self,
        name: str,
        schema: TableSchema,
        *,
        partition_by: Sequence[str],
        sorted_by: Sequence[str | SortKey],
        comment: str | None,
        defaults: Mapping[str, object],
    ) -> None:
        schema_name, table_name = split_table_name(name)
        check_name(table_name, "table")
        owner = self.schema(schema_name)
        self._refuse_taken(owner, table_name)
        table = self._new_table(owner, table_name, schema, defaults)
        if partition_by:
            table = self.partitioned(table, partition_by)
        if sorted_by:
            table = definition.set_sort_order(table, sorted_by, self.next_id())
        self._register(table_key(name), self.base.describe(definition.set_comment(table, comment)), None)

    def drop_table(self, name: str) -> None:
        self._drop(self.table(name))

    def rename_table(self, name: str, new_name: str) -> None:
        """Rename a table within its schema."""
        check_name(new_name, "table")
        pending = self.table(name)
        table = pending.table
        if fold(table.name) != fold(new_name):
            self._refuse_taken(self.schema(table.schema_name), new_name)
        pending.after = replace(table, name=new_name)
        self._names.pop(_key(table.schema_name, table.name), None)
        self._names[_key(table.schema_name, new_name)] = table.table_id

    def alter_table(self, name: str, change: Callable[[TableVersion], TableVersion]) -> None:
        """Give a table another definition; none that has got rows by now."""
        pending = self.table(name)
        if pending.added or pending.files:
            raise InvalidInput(
                f"cannot alter '{name}' after adding rows to it in the same transaction: alter it first, then add"
            )
        pending.after = change(pending.table)
        known = self.base.describe(pending.after)
        pending.is_inlinable, pending.can_inline = known.is_inlinable, known.can_inline

    def partitioned(self, table: TableVersion, partition_by: Sequence[str]) -> TableVersion:
        partitioned = definition.set_partitioning(table, partition_by, self.next_id())
        warn_of_repeats(partitioned)
        return partitioned

    def _load(self, table: TableVersion) -> PendingTable:
        pending = self.tables.get(table.table_id)
        return pending or self._register(_key(table.schema_name, table.name), self.base.describe(table), table)

    def _register(self, key: tuple[str, str], known: KnownTable, before: TableVersion | None) -> PendingTable:
        table = known.version
        pending = PendingTable(before, table, known.options, known.is_inlinable, known.can_inline)
        self.tables[table.table_id] = pending
        self._names[key] = table.table_id
        return pending

    def _drop(self, pending: PendingTable) -> None:
        WrittenFiles(self.storage, pending.written_paths()).remove()
        table = pending.table
        if pending.before is None:
            del self.tables[table.table_id]
            del self._names[_key(table.schema_name, table.name)]
        else:
            self.tables[table.table_id] = PendingTable(pending.before, None, pending.options)

    def _new_table(
        self, owner: SchemaVersion, name: str, schema: TableSchema, defaults: Mapping[str, object]
    ) -> TableVersion:
        columns = build_columns(schema)
        definition.check_table_columns(columns, name)
        uuid = uuid7()
        path = directory_name(name, uuid)
        table = TableVersion(
            table_id=TableId(self.next_id()),
            table_uuid=uuid,
            schema_id=owner.schema_id,
            schema_name=owner.name,
            name=name,
            path=path,
            path_is_relative=True,
            directory=join_path(self.base.data_path, owner.path, is_relative=owner.path_is_relative) + path,
            columns=columns,
            next_column_id=1 + sum(1 for c in columns for _ in c.walk()),
        )
        for column_name, default in defaults.items():
            column = definition.find_column(table, [column_name])
            filled = definition.with_default(column, default, is_new=True)
            table = table.with_columns(tuple(filled if c is column else c for c in table.columns))
        return table

    def _refuse_taken(self, owner: SchemaVersion, name: str) -> None:
        known = self._names.get(_key(owner.name, name))
        is_live = known is not None and self.tables[known].after is not None
        stored = self.base.find_table(owner.name, name) if known is None and owner.schema_id >= 0 else None
        if is_live or (stored is not None and stored.table_id not in self.tables):
            raise ObjectExists(f"table '{owner.name}.{name}' exists already", name=name)
        if owner.schema_id >= 0 and self.base.has_view(owner.schema_id, name):
            raise ObjectExists(f"'{owner.name}.{name}' is a view", name=name)

    def _live_tables(self) -> list[TableVersion]:
        stored = [t for t in self.base.tables() if t.table_id not in self.tables]
        return stored + [p.after for p in self.tables.values() if p.after is not None]


def _key(schema_name: str, table_name: str) -> tuple[str, str]:
    return fold(schema_name), fold(table_name)
