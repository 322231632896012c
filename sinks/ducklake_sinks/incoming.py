"""The schema of a frame as a lake has it. Runs on the driver."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from pyspark.sql import types as T  # noqa: N812 # Spark's own convention

from ducklake_sinks.spark_types import lake_schema, void_columns


@dataclass(frozen=True, slots=True)
class Incoming:
    """Spark's schema, DuckLake's type texts by column, and the columns that have no type."""

    spark: T.StructType = field(compare=False)
    types: Mapping[str, str]
    voids: tuple[str, ...] = ()

    @classmethod
    def of(cls, schema: T.StructType) -> Incoming:
        """Refuse, all at once, the columns whose type cannot be stored."""
        return cls(schema, lake_schema(schema, ignore_void=True), tuple(void_columns(schema)))

    def without(self, column: str) -> Incoming:
        """Return the schema that the table gets when a column only says which table that is."""
        if column not in self.types:
            return self
        return replace(self, types={name: text for name, text in self.types.items() if name != column})
