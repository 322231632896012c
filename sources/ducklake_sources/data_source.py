"""The data source behind `format("ducklake")`: it dispatches to the readers of tables, change feeds and streams.

Runs in Python processes that Spark's driver starts to plan a query; none of them has a Spark session. Spark pickles the
source after `schema` was asked, so the snapshot that a DataFrame reads is fixed when the DataFrame is made.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StructType

from ducklake_core import Lake, Table
from ducklake_core.errors import InvalidInput, TerminalError
from ducklake_core.model import Column
from ducklake_core.plan.definition import find_column
from ducklake_core.plan.filter_sql import parse_filter
from ducklake_core.plan.predicates import Predicate
from ducklake_sources.options import SourceOptions, check_stream, check_table_read, parse_options
from ducklake_sources.spark_schema import spark_schema
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
        self._table = open_table(options)
        chosen_rows(options, self._table)  # a mistake in the filter is told at once
        return self._schema_of(options, self._table)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a reader of the table at the fixed snapshot, or of its changes."""
        options = parse_options(self.options)
        table = self._table or open_table(options)  # without one, the user has given a schema
        self._check_schema(schema, options, table)
        if options.read_change_feed:
            reader: DataSourceReader = _other_reader("change_reader").ChangeReader(options, table)
            return reader
        check_table_read(options)
        kind = FilteringTableReader if options.filter_pushdown and _can_push_filters() else TableReader
        return kind(table, chosen_columns(options, table), chosen_rows(options, table))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 # Spark's name
        """Return a reader of a stream."""
        options = parse_options(self.options)
        check_stream(options)
        table = self._table or open_table(options)
        self._check_schema(schema, options, table)
        reader: DataSourceStreamReader = _other_reader("stream_reader").StreamReader(options, table)
        return reader

    def _check_schema(self, schema: StructType, options: SourceOptions, table: Table) -> None:
        own = self._schema_of(options, table)
        if schema.jsonValue() != own.jsonValue():
            raise InvalidInput(
                f"the schema given for table '{table.name}' is not its own: leave '.schema(…)' out, and choose columns"
                f" with the option 'columns'; given was {schema.simpleString()}, the table has {own.simpleString()}"
            )

    @staticmethod
    def _schema_of(options: SourceOptions, table: Table) -> StructType:
        columns = chosen_columns(options, table)
        if not options.read_change_feed:
            return spark_schema(columns)
        schema: StructType = _other_reader("change_reader").change_schema(columns)
        return schema


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


def _other_reader(name: str) -> ModuleType:
    """Import the module that reads changes only when they are asked for."""
    try:
        return import_module(f"ducklake_sources.{name}")
    except ModuleNotFoundError as error:
        raise TerminalError("this release reads tables as batches only: leave 'readChangeFeed' out") from error


def _can_push_filters() -> bool:
    """Tell whether this is the process that Spark starts to push filters down, if its session allows that.

    Spark refuses a reader that takes filters anywhere else.
    """
    main = getattr(sys.modules.get("__main__"), "__spec__", None)
    return _PUSHDOWN_WORKER in sys.modules or (main is not None and main.name == _PUSHDOWN_WORKER)
