"""The data source behind `format("ducklake")`: it dispatches to the readers of tables, change feeds and streams.

Runs in Python processes that Spark's driver starts to plan a query; none of them has a Spark session. Spark pickles the
source after `schema` was asked, so the snapshot that a DataFrame reads is fixed when the DataFrame is made.
"""

from __future__ import annotations

import sys

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StructType

from ducklake_core import Lake, Table
from ducklake_core.model import Column
from ducklake_core.plan.definition import find_column
from ducklake_core.plan.filter_sql import parse_filter
from ducklake_core.plan.predicates import Predicate
from ducklake_sources.change_reader import ChangeReader
from ducklake_sources.feed_schema import check_schema, is_feed, schema_of_feed
from ducklake_sources.options import SourceOptions, check_stream, check_table_read, parse_options
from ducklake_sources.spark_schema import spark_schema
from ducklake_sources.stream_reader import DuckLakeStreamReader
from ducklake_sources.table_reader import FilteringTableReader, TableReader

_PUSHDOWN_WORKER = "pyspark.sql.worker.data_source_pushdown_filters"


class DuckLakeDataSource(DataSource):
    """`spark.read.format("ducklake")` and `spark.readStream.format("ducklake")`; the options are in `docs/read.md`."""

    _table: Table | None = None  # travels with the source

    @classmethod
    def name(cls) -> str:
        return "ducklake"

    def schema(self) -> StructType:
        """Return the schema of the table, or of its change feed, and fix the snapshot that is read."""
        options = parse_options(self.options)
        if is_feed(options):
            return schema_of_feed(options)
        self._table = open_table(options)
        chosen_rows(options, self._table)  # a mistake in the filter is told at once
        return spark_schema(chosen_columns(options, self._table))

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a reader of the table at the fixed snapshot, or of its changes."""
        options = parse_options(self.options)
        if options.read_change_feed:
            return ChangeReader(options, schema)
        check_table_read(options)
        table = self._table or open_table(options)  # without one, the user has given a schema
        check_schema(schema, spark_schema(chosen_columns(options, table)), table.name)
        kind = FilteringTableReader if options.filter_pushdown and _can_push_filters() else TableReader
        return kind(table, chosen_columns(options, table), chosen_rows(options, table))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 # Spark's name
        """Return a reader of a stream."""
        options = parse_options(self.options)
        check_stream(options)
        return DuckLakeStreamReader(options, schema)


def open_table(options: SourceOptions) -> Table:
    """Open the table at the snapshot that the options name, at the head without one."""
    at = options.timestamp_as_of if options.version_as_of is None else options.version_as_of
    with Lake.open(options.catalog, data_path=options.data_path, metadata_schema=options.metadata_schema) as lake:
        return lake.table(options.table, at)


def chosen_columns(options: SourceOptions, table: Table) -> tuple[Column, ...]:
    """Return the columns to be read, in the order asked for."""
    if options.columns is None:
        return table.version.columns
    return tuple(find_column(table.version, [name]) for name in options.columns)


def chosen_rows(options: SourceOptions, table: Table) -> Predicate | None:
    """Return the filter that the rows to be read pass, None for all rows."""
    return None if options.filter is None else parse_filter(options.filter, table.version.columns)


def _can_push_filters() -> bool:
    """Tell whether this is the process that Spark starts to push filters down, if its session allows that.

    Spark refuses a reader that takes filters anywhere else.
    """
    main = getattr(sys.modules.get("__main__"), "__spec__", None)
    return _PUSHDOWN_WORKER in sys.modules or (main is not None and main.name == _PUSHDOWN_WORKER)
