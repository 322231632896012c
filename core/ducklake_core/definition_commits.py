"""Changes of definitions that are commits of their own, one snapshot each: these methods are part of `Lake`.

Runs on the driver. Each does what the method of `Transaction` with the same name does.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from ducklake_core.model import Snapshot, SortKey
from ducklake_core.pending_definitions import TableSchema

if TYPE_CHECKING:
    from ducklake_core.transaction import Transaction


class DefinitionCommits(ABC):
    """Creates, alters and drops schemas and tables. Each method returns the snapshot it made."""

    @abstractmethod
    def _in_own_transaction(self, operation: Callable[[Transaction], object]) -> Snapshot | None:
        """Do something in a transaction of its own."""

    def create_schema(self, name: str) -> Snapshot | None:
        return self._in_own_transaction(lambda tx: tx.create_schema(name))

    def drop_schema(self, name: str, *, cascade: bool = False) -> Snapshot | None:
        """Drop a schema; one that has tables only with `cascade`."""
        return self._in_own_transaction(lambda tx: tx.drop_schema(name, cascade=cascade))

    def create_table(
        self,
        name: str,
        schema: TableSchema,
        *,
        partition_by: Sequence[str] = (),
        sorted_by: Sequence[str | SortKey] = (),
        comment: str | None = None,
        defaults: Mapping[str, object] | None = None,
    ) -> Snapshot | None:
        """Create a table from an Arrow schema, or from names and type texts such as `{"id": "int64"}`.

        `partition_by` has expressions such as `id`, `date(ts)` or `bucket(16, id)`, `sorted_by` such as `ts DESC`.
        """
        return self._in_own_transaction(
            lambda tx: tx.create_table(
                name, schema, partition_by=partition_by, sorted_by=sorted_by, comment=comment, defaults=defaults
            )
        )

    def drop_table(self, name: str) -> Snapshot | None:
        return self._in_own_transaction(lambda tx: tx.drop_table(name))

    def rename_table(self, name: str, new_name: str) -> Snapshot | None:
        """Rename a table within its schema; `new_name` is a plain name, taken as it is."""
        return self._in_own_transaction(lambda tx: tx.rename_table(name, new_name))

    def add_column(
        self, table: str, column: str, type_: str | pa.DataType, default: object = None, *, nulls_allowed: bool = True
    ) -> Snapshot | None:
        """Add a column or a struct field; rows of before have `default` there."""
        return self._in_own_transaction(
            lambda tx: tx.add_column(table, column, type_, default, nulls_allowed=nulls_allowed)
        )

    def drop_column(self, table: str, column: str) -> Snapshot | None:
        return self._in_own_transaction(lambda tx: tx.drop_column(table, column))

    def rename_column(self, table: str, column: str, new_name: str) -> Snapshot | None:
        return self._in_own_transaction(lambda tx: tx.rename_column(table, column, new_name))

    def promote_column(self, table: str, column: str, type_: str | pa.DataType) -> Snapshot | None:
        """Change the type of a column or field to one that holds all its values."""
        return self._in_own_transaction(lambda tx: tx.promote_column(table, column, type_))

    def merge_schema(self, table: str, schema: TableSchema) -> Snapshot | None:
        """Add the columns and fields that a schema has and the table lacks, and promote types that are narrower."""
        return self._in_own_transaction(lambda tx: tx.merge_schema(table, schema))

    def set_default(self, table: str, column: str, default: object) -> Snapshot | None:
        """Set the default of rows to come; None removes it."""
        return self._in_own_transaction(lambda tx: tx.set_default(table, column, default))

    def set_not_null(self, table: str, column: str) -> Snapshot | None:
        """Forbid nulls in a column that has none."""
        return self._in_own_transaction(lambda tx: tx.set_not_null(table, column))

    def drop_not_null(self, table: str, column: str) -> Snapshot | None:
        return self._in_own_transaction(lambda tx: tx.drop_not_null(table, column))

    def set_comment(self, table: str, comment: str | None, column: str | None = None) -> Snapshot | None:
        """Set the comment of a table or of one of its columns; None removes it."""
        return self._in_own_transaction(lambda tx: tx.set_comment(table, comment, column))

    def set_partitioning(self, table: str, partition_by: Sequence[str]) -> Snapshot | None:
        """Partition rows to come; existing files stay as they are. An empty list ends partitioning."""
        return self._in_own_transaction(lambda tx: tx.set_partitioning(table, partition_by))

    def set_sort_order(self, table: str, sorted_by: Sequence[str | SortKey]) -> Snapshot | None:
        """Sort rows to come within each file; an empty list ends sorting."""
        return self._in_own_transaction(lambda tx: tx.set_sort_order(table, sorted_by))
