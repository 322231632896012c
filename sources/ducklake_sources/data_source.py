"""The half of `format("ducklake")` that reads; `pyspark_ducklake` has both.

Spark imports this module whenever it looks for a format that it does not know: what reads is imported when it is used.
Spark pickles the source after `schema` was asked, so the snapshot that a DataFrame reads is fixed when the DataFrame is
made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader
    from pyspark.sql.types import StructType

    from ducklake_core import Table


class DuckLakeDataSource(DataSource):
    """`spark.read.format("ducklake")` and `spark.readStream.format("ducklake")`.

    The options are explained in `docs/read-tables.md` and `docs/change-feed.md`.
    """

    _table: Table | None = None  # travels with the source

    @classmethod
    def name(cls) -> str:
        return "ducklake"

    def schema(self) -> StructType:
        """Return the schema of the table, or of its change feed, and fix the snapshot that is read."""
        from ducklake_sources.dispatch import find_schema  # noqa: PLC0415 # see the top

        schema, self._table = find_schema(self.options)
        return schema

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a reader of the table at the fixed snapshot, or of its changes."""
        from ducklake_sources.dispatch import make_reader  # noqa: PLC0415 # see the top

        return make_reader(self.options, self._table, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 # Spark's name
        """Return a reader of a stream."""
        from ducklake_sources.stream_reader import DuckLakeStreamReader  # noqa: PLC0415 # see the top

        return DuckLakeStreamReader(self.options, schema)
