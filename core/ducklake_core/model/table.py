"""Definitions as one snapshot sees them: schemas, tables, columns, and how files are laid out. Values only."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from uuid import UUID

from ducklake_core.model.ids import ColumnId, SchemaId, SnapshotId, TableId
from ducklake_core.spec.kinds import NESTED, Kind, kind_of
from ducklake_core.spec.names import fold

_FIRST_SNAPSHOT = SnapshotId(0)


@dataclass(frozen=True, slots=True)
class SchemaVersion:
    """A schema as one snapshot sees it. `schema_id` is negative until the commit numbers it."""

    schema_id: SchemaId
    schema_uuid: UUID
    name: str
    path: str
    path_is_relative: bool = True


@dataclass(frozen=True, slots=True)
class Column:
    """A node of a table's type tree: a column, a struct field, a list element, a map key or value.

    `type` is DuckLake's type text; `struct`, `list` and `map` have children (`element`; `key`, `value`).
    """

    column_id: ColumnId
    name: str
    type: str
    nulls_allowed: bool = True
    initial_default: str | None = None
    default_value: str | None = None  # None: no default (the catalog's text 'NULL')
    default_value_type: str = "literal"  # 'literal' or 'expression'
    children: tuple[Column, ...] = ()
    comment: str | None = None
    kind: Kind = field(init=False, repr=False, compare=False)  # of the type
    is_nested: bool = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "kind", kind_of(self.type))
        object.__setattr__(self, "is_nested", self.kind in NESTED)

    def walk(self) -> Iterator[Column]:
        """Yield this node, then its descendants, depth first."""
        yield self
        for child in self.children:
            yield from child.walk()

    def leaves(self) -> Iterator[Column]:
        """Yield the descendants that hold values: those with statistics."""
        return (node for node in self.walk() if not node.is_nested)

    def child(self, name: str) -> Column | None:
        """Find a child by name, regardless of case."""
        return next((c for c in self.children if fold(c.name) == fold(name)), None)


def nodes_of(columns: Iterable[Column]) -> list[Column]:
    """Return every node of some columns: each column, then its descendants, depth first."""
    return [node for column in columns for node in column.walk()]


@dataclass(frozen=True, slots=True)
class PartitionKey:
    """One key of a partitioning: `transform` is identity, year, month, day, hour or bucket(N)."""

    column_id: ColumnId
    transform: str


@dataclass(frozen=True, slots=True)
class Partitioning:
    """A live partitioning of a table. `partition_id` is negative until the commit numbers it."""

    partition_id: int
    keys: tuple[PartitionKey, ...]


@dataclass(frozen=True, slots=True)
class SortKey:
    """One sort expression, in DuckDB's SQL."""

    expression: str
    descending: bool = False
    nulls_first: bool = False


@dataclass(frozen=True, slots=True)
class SortOrder:
    """A live sort order of a table. `sort_id` is negative until the commit numbers it."""

    sort_id: int
    keys: tuple[SortKey, ...]


@dataclass(frozen=True, slots=True)
class InlinedTable:
    """A registered table of inlined rows, and the columns (of that schema version) that it has.

    `stored_names`: what the database calls them, where that may differ; the reference leaves names unquoted, so that
    PostgreSQL has them in lower case. `partitioning`: how files of that schema version are partitioned.
    """

    name: str
    schema_version: int
    columns: tuple[Column, ...]
    stored_names: tuple[str, ...] = ()
    partitioning: Partitioning | None = None


@dataclass(frozen=True, slots=True)
class TableVersion:
    """A table as one snapshot sees it. `table_id` is negative until the commit numbers it."""

    table_id: TableId
    table_uuid: UUID
    schema_id: SchemaId
    schema_name: str
    name: str
    path: str
    path_is_relative: bool
    directory: str  # full path, with a trailing slash
    columns: tuple[Column, ...]
    next_column_id: int
    partitioning: Partitioning | None = None
    sort_order: SortOrder | None = None
    comment: str | None = None
    inlined_tables: tuple[InlinedTable, ...] = ()
    begin_snapshot: SnapshotId = _FIRST_SNAPSHOT  # the one that created the table, whatever its name was
    qualified_name: str = field(init=False, repr=False, compare=False)
    newest_inlined_table: InlinedTable | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        newest = max(self.inlined_tables, key=lambda t: t.schema_version, default=None)
        object.__setattr__(self, "qualified_name", f"{self.schema_name}.{self.name}")
        object.__setattr__(self, "newest_inlined_table", newest)

    def column(self, name: str) -> Column | None:
        """Find a top-level column by name, regardless of case."""
        return next((c for c in self.columns if fold(c.name) == fold(name)), None)

    def nodes(self) -> dict[ColumnId, Column]:
        """Return every node of every column by its id."""
        return {node.column_id: node for node in nodes_of(self.columns)}

    def with_columns(self, columns: tuple[Column, ...], next_column_id: int | None = None) -> TableVersion:
        return replace(self, columns=columns, next_column_id=next_column_id or self.next_column_id)


@dataclass(frozen=True, slots=True)
class ColumnsVersion:
    """The columns that a table has had since a snapshot."""

    since: SnapshotId
    columns: tuple[Column, ...]
