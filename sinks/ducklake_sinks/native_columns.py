"""A frame's columns as Spark's own Parquet writer needs them: by the table's names, checked, with field ids.

To make them takes some ten questions to the JVM for each column; they are the same for every batch. Runs on the driver.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from functools import reduce
from typing import Any

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 # Spark's own convention
from pyspark.sql import types as T  # noqa: N812 # Spark's own convention

from ducklake_core.files.parquet_writer import FileLayout
from ducklake_core.model import Column
from ducklake_core.spec.names import fold
from ducklake_sinks.native_partitions import group_columns

NO_UTF8 = "INVALID_UTF8_STRING"  # by which the failure is known: Spark's own name of it, and ours within structs


class NativeColumns:
    """Makes the columns of frames of one schema; remembers them until the table has others, or Spark begins anew."""

    def __init__(self) -> None:
        self._made_for: tuple[Any, FileLayout] | None = None  # Any: py4j's gateway to the JVM that has them
        self._made: list[SparkColumn] = []

    def select(self, frame: DataFrame, layout: FileLayout) -> DataFrame:
        """Return the frame in the table's order and names, with the field id of every node, then `group_names`."""
        made_for = frame.sparkSession.sparkContext._gateway, layout  # noqa: SLF001 # a column is an object of its JVM
        if self._made_for != made_for:
            self._made, self._made_for = _made(frame.schema, layout), made_for
        return frame.select(self._made)


def _made(schema: T.StructType, layout: FileLayout) -> list[SparkColumn]:
    types = {fold(f.name): f.dataType for f in schema.fields}
    sources = {fold(f.name): F.col("`{}`".format(f.name.replace("`", "``"))) for f in schema.fields}
    picked = [_identified(sources[fold(c.name)], types[fold(c.name)], c) for c in layout.columns]
    return picked + group_columns(sources, layout.columns, layout.partitioning)


def _identified(source: SparkColumn, type_: T.DataType, column: Column) -> SparkColumn:
    typed = _checked(source, type_).cast(_with_ids(type_, column))
    return typed.alias(column.name, metadata={"parquet.field.id": int(column.column_id)})


def _checked(value: SparkColumn, type_: T.DataType) -> SparkColumn:
    """Return the value, of which a text that is no UTF-8 fails the write: Spark itself stores whatever bytes it has."""
    if isinstance(type_, T.StringType | T.CharType | T.VarcharType):
        return F.validate_utf8(value)
    texts = list(_texts(value, type_))
    if not texts:
        return value
    are_valid = reduce(operator.and_, (F.coalesce(F.is_valid_utf8(text), F.lit(True)) for text in texts))  # noqa: FBT003 # Spark's signature
    return F.when(are_valid, value).otherwise(F.raise_error(F.lit(NO_UTF8)))


def _texts(value: SparkColumn, type_: T.DataType) -> Iterator[SparkColumn]:
    """Yield the texts of a column and of the structs in it; what is in lists and maps is never written here."""
    if isinstance(type_, (T.StringType, T.CharType, T.VarcharType)):
        yield value
    elif isinstance(type_, T.StructType):
        for field in type_.fields:
            yield from _texts(value.getField(field.name), field.dataType)


def _with_ids(type_: T.DataType, column: Column) -> T.DataType:
    if not isinstance(type_, T.StructType):
        return type_
    fields = zip(type_.fields, column.children, strict=True)
    return T.StructType(
        [
            T.StructField(c.name, _with_ids(f.dataType, c), True, {"parquet.field.id": int(c.column_id)})  # noqa: FBT003 # Spark's signature
            for f, c in fields
        ]
    )
