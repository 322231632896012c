"""What a batch read by `format("ducklake")` becomes: a reader of a table, of changes or of metadata.

Runs in Python processes that Spark's driver starts to plan a query; none of them has a Spark session. Each serves one
step of a query, and is new in a new session: what only some reads need is imported by those.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping

from pyspark.sql.datasource import DataSourceReader
from pyspark.sql.types import StructType

from ducklake_core import Table
from ducklake_core.lake_reader import LakeReader
from ducklake_core.model import Column
from ducklake_core.plan.definition import find_column
from ducklake_core.plan.predicates import Predicate
from ducklake_sources.feed_schema import check_schema, is_feed, schema_of_feed
from ducklake_sources.options import (
    SourceOptions,
    check_change_read,
    check_metadata_read,
    check_table_read,
    parse_options,
)
from ducklake_sources.source_feed import open_lake
from ducklake_sources.spark_schema import spark_schema

_PUSHDOWN_WORKER = "pyspark.sql.worker.data_source_pushdown_filters"


def find_schema(given: Mapping[str, str]) -> tuple[StructType, Table | None]:
    """Return the schema of a read, and the table at the snapshot that is read; a feed has none."""
    options = parse_options(given)
    if options.metadata is not None:
        from ducklake_core.metadata_tables import find_metadata  # noqa: PLC0415 # see the top

        check_metadata_read(options)
        return spark_schema(find_metadata(options.metadata).columns), None
    if is_feed(options):
        return schema_of_feed(options), None
    table = open_table(options)
    chosen_rows(options, table)  # a mistake in the filter is told at once
    return spark_schema(chosen_columns(options, table)), table


def make_reader(given: Mapping[str, str], table: Table | None, schema: StructType) -> DataSourceReader:
    """Return a reader of the table at a snapshot, or of its changes; without a table, the user has given a schema."""
    options = parse_options(given)
    if options.metadata is not None:
        from ducklake_sources.metadata_reader import MetadataReader  # noqa: PLC0415 # see the top

        return MetadataReader(options)
    if options.read_change_feed:
        from ducklake_sources.change_reader import ChangeReader  # noqa: PLC0415 # see the top

        check_change_read(options)
        return ChangeReader(options, schema)
    from ducklake_sources.table_reader import FilteringTableReader, TableReader  # noqa: PLC0415 # see the top

    check_table_read(options)
    table = table or open_table(options)
    check_schema(schema, spark_schema(chosen_columns(options, table)), table.name)
    kind = FilteringTableReader if options.filter_pushdown and _can_push_filters() else TableReader
    return kind(table, chosen_columns(options, table), chosen_rows(options, table))


def open_table(options: SourceOptions) -> Table:
    """Open the table at the snapshot that the options name, at the head without one."""
    at = options.timestamp_as_of if options.version_as_of is None else options.version_as_of
    with open_lake(options, LakeReader) as lake:
        return lake.table(options.table, at)


def chosen_columns(options: SourceOptions, table: Table) -> tuple[Column, ...]:
    """Return the columns to be read, in the order asked for."""
    if options.columns is None:
        return table.version.columns
    return tuple(find_column(table.version, [name]) for name in options.columns)


def chosen_rows(options: SourceOptions, table: Table) -> Predicate | None:
    """Return the filter that the rows to be read pass, None for all rows."""
    if options.filter is None:
        return None
    from ducklake_core.plan.filter_sql import parse_filter  # noqa: PLC0415 # see the top

    return parse_filter(options.filter, table.version.columns)


def _can_push_filters() -> bool:
    """Tell whether this is the process that Spark starts to push filters down, if its session allows that.

    Spark refuses a reader that takes filters anywhere else.
    """
    main = getattr(sys.modules.get("__main__"), "__spec__", None)
    return _PUSHDOWN_WORKER in sys.modules or (main is not None and main.name == _PUSHDOWN_WORKER)
