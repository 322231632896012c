"""Give Spark the name it discovers by itself, so that `format("ducklake")` needs no registration.

Spark imports every module called `pyspark_…` when it looks for a format, and takes the `DefaultSource` in it. It reads
by `ducklake_sources` and writes by `ducklake_sinks`, which do not know each other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ducklake_sources.data_source import DuckLakeDataSource

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceStreamWriter, DataSourceWriter
    from pyspark.sql.types import StructType

__all__ = ["DefaultSource"]


class DefaultSource(DuckLakeDataSource):
    """`format("ducklake")`, to read and to write."""

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:  # noqa: FBT001 # Spark's signature
        """Return a writer of `df.write` and of INSERT into a temporary view."""
        from ducklake_sinks.format.writer import make_writer  # noqa: PLC0415 # only those who write need it

        return make_writer(self.options, schema, overwrites=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: FBT001, N802 # Spark's
        """Return a writer of `df.writeStream`."""
        from ducklake_sinks.format.writer import make_stream_writer  # noqa: PLC0415 # only those who write need it

        return make_stream_writer(self.options, schema, overwrites=overwrite)
