"""The schema of a frame as a lake has it. Runs on the driver."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from pyspark.sql import DataFrame
from pyspark.sql import types as T  # noqa: N812 # Spark's own convention

from ducklake_sinks.arrow_collector import ArrowCollector
from ducklake_sinks.native_columns import NativeColumns
from ducklake_sinks.spark_types import lake_schema, void_columns


@dataclass(frozen=True, slots=True)
class FrameSchema:
    """Spark's schema, DuckLake's type texts by column, and the columns that have no type.

    `spark_json`: the schema as the JVM spells it, None over Connect. `collector`: fetches the rows of such frames.
    `native`: has what Spark's own writer needs of them.
    """

    spark: T.StructType = field(compare=False)
    types: Mapping[str, str]
    voids: tuple[str, ...] = ()
    spark_json: str | None = field(default=None, compare=False, repr=False)
    collector: ArrowCollector = field(default_factory=ArrowCollector, compare=False, repr=False)
    native: NativeColumns = field(default_factory=NativeColumns, compare=False, repr=False)

    @classmethod
    def of(cls, schema: T.StructType, spark_json: str | None = None) -> FrameSchema:
        """Refuse, all at once, the columns whose type cannot be stored."""
        types, voids = lake_schema(schema, ignore_void=True), tuple(void_columns(schema))
        return cls(schema, types, voids, spark_json)

    def is_of(self, frame: DataFrame, spark_json: str | None) -> bool:
        """Tell whether a frame has this schema; to parse one takes longer than to spell it."""
        if spark_json is not None and spark_json == self.spark_json:
            return True
        return self.spark == frame.schema

    def without(self, *columns: str) -> FrameSchema:
        """Return the schema that the table gets when some columns only say which table that is, or whose the row is."""
        if not any(column in self.types for column in columns):
            return self
        return replace(self, types={name: text for name, text in self.types.items() if name not in columns})

    def with_columns(self, columns: Mapping[str, str]) -> FrameSchema:
        """Return the schema that the table gets when it has some columns that the frame lacks."""
        return replace(self, types={**self.types, **columns})


def json_of_schema(frame: DataFrame) -> str | None:
    """Return how the JVM spells a frame's schema; None over Connect, where there is no JVM."""
    java_frame = getattr(frame, "_jdf", None)
    return None if java_frame is None else str(java_frame.schema().json())
