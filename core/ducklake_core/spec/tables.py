"""The 28 catalog tables of format 1.0 as SQLAlchemy tables, in the reference's physical column order.

The reference inserts by position: names, order and declared types here are a contract with every other client. Those of
another format are asked for by the same names: `spec/versions.py` tells what is called otherwise there, or is missing.
Values are bool, aware datetime (UTC) and UUID in Python, whatever the database stores. Pure; no connection is made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import Any
from typing import cast as typing_cast
from uuid import UUID

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    DateTime,
    Dialect,
    MetaData,
    String,
    Table,
    Uuid,
    cast,
    false,
    literal,
    select,
)
from sqlalchemy.types import TypeDecorator, TypeEngine

from ducklake_core.spec.versions import CURRENT, FormatVersion, Layout

# b BIGINT, v VARCHAR, ? BOOLEAN, ts TIMESTAMPTZ, u UUID; `*` primary key, `!` not null.
LAYOUT = """
ducklake_metadata: key v!, value v!, scope v, scope_id b
ducklake_snapshot: snapshot_id b*, snapshot_time ts, schema_version b, next_catalog_id b, next_file_id b
ducklake_snapshot_changes: snapshot_id b*, changes_made v, author v, commit_message v, commit_extra_info v
ducklake_schema: schema_id b*, schema_uuid u, begin_snapshot b, end_snapshot b, schema_name v, path v,
    path_is_relative ?
ducklake_table: table_id b, table_uuid u, begin_snapshot b, end_snapshot b, schema_id b, table_name v, path v,
    path_is_relative ?
ducklake_view: view_id b, view_uuid u, begin_snapshot b, end_snapshot b, schema_id b, view_name v, dialect v, sql v,
    column_aliases v
ducklake_tag: object_id b, begin_snapshot b, end_snapshot b, key v, value v
ducklake_column_tag: table_id b, column_id b, begin_snapshot b, end_snapshot b, key v, value v
ducklake_data_file: data_file_id b*, table_id b, begin_snapshot b, end_snapshot b, file_order b, path v,
    path_is_relative ?, file_format v, record_count b, file_size_bytes b, footer_size b, row_id_start b,
    partition_id b, encryption_key v, mapping_id b, partial_max b
ducklake_file_column_stats: data_file_id b, table_id b, column_id b, column_size_bytes b, value_count b,
    null_count b, min_value v, max_value v, contains_nan ?, extra_stats v
ducklake_file_variant_stats: data_file_id b, table_id b, column_id b, variant_path v, shredded_type v,
    column_size_bytes b, value_count b, null_count b, min_value v, max_value v, contains_nan ?, extra_stats v
ducklake_delete_file: delete_file_id b*, table_id b, begin_snapshot b, end_snapshot b, data_file_id b, path v,
    path_is_relative ?, format v, delete_count b, file_size_bytes b, footer_size b, encryption_key v, partial_max b
ducklake_column: column_id b, begin_snapshot b, end_snapshot b, table_id b, column_order b, column_name v,
    column_type v, initial_default v, default_value v, nulls_allowed ?, parent_column b, default_value_type v,
    default_value_dialect v
ducklake_table_stats: table_id b, record_count b, next_row_id b, file_size_bytes b
ducklake_table_column_stats: table_id b, column_id b, contains_null ?, contains_nan ?, min_value v, max_value v,
    extra_stats v
ducklake_partition_info: partition_id b, table_id b, begin_snapshot b, end_snapshot b
ducklake_partition_column: partition_id b, table_id b, partition_key_index b, column_id b, transform v
ducklake_file_partition_value: data_file_id b, table_id b, partition_key_index b, partition_value v
ducklake_files_scheduled_for_deletion: data_file_id b, path v, path_is_relative ?, schedule_start ts
ducklake_inlined_data_tables: table_id b, table_name v, schema_version b
ducklake_column_mapping: mapping_id b, table_id b, type v
ducklake_name_mapping: mapping_id b, column_id b, source_name v, target_field_id b, parent_column b, is_partition ?
ducklake_schema_versions: begin_snapshot b, schema_version b, table_id b
ducklake_macro: schema_id b, macro_id b, macro_name v, begin_snapshot b, end_snapshot b
ducklake_macro_impl: macro_id b, impl_id b, dialect v, sql v, type v
ducklake_macro_parameters: macro_id b, impl_id b, column_id b, parameter_name v, parameter_type v, default_value v,
    default_value_type v
ducklake_sort_info: sort_id b, table_id b, begin_snapshot b, end_snapshot b
ducklake_sort_expression: sort_id b, table_id b, sort_key_index b, expression v, dialect v, sort_direction v,
    null_order v
"""


@dataclass(frozen=True, slots=True, eq=False)  # compared by identity: there is one of each
class CatalogTables:
    """The catalog's tables in one database schema, by the names of 1.0.

    Of a format that lacks something, a table may be a query that fills it in, which can only be read.
    """

    metadata: MetaData
    ducklake_metadata: Table
    ducklake_snapshot: Table
    ducklake_snapshot_changes: Table
    ducklake_schema: Table
    ducklake_table: Table
    ducklake_view: Table
    ducklake_tag: Table
    ducklake_column_tag: Table
    ducklake_data_file: Table
    ducklake_file_column_stats: Table
    ducklake_file_variant_stats: Table
    ducklake_delete_file: Table
    ducklake_column: Table
    ducklake_table_stats: Table
    ducklake_table_column_stats: Table
    ducklake_partition_info: Table
    ducklake_partition_column: Table
    ducklake_file_partition_value: Table
    ducklake_files_scheduled_for_deletion: Table
    ducklake_inlined_data_tables: Table
    ducklake_column_mapping: Table
    ducklake_name_mapping: Table
    ducklake_schema_versions: Table
    ducklake_macro: Table
    ducklake_macro_impl: Table
    ducklake_macro_parameters: Table
    ducklake_sort_info: Table
    ducklake_sort_expression: Table


@dataclass(frozen=True, slots=True, eq=False)
class ValueTypes:
    """How a catalog database has booleans, times and UUIDs, as the reference declares them there."""

    flag: type[TypeEngine[Any]]
    time: type[TypeEngine[Any]]
    uuid: type[TypeEngine[Any]]


@cache
def catalog_tables(schema: str | None, values: ValueTypes, version: FormatVersion = CURRENT) -> CatalogTables:
    """Return the catalog's tables in a format; `schema` None means the connection's default schema."""
    types = {"b": BigInteger, "v": String, "?": values.flag, "ts": values.time, "u": values.uuid}
    metadata, layout = MetaData(schema=schema), version.layout
    tables = {}
    for line in LAYOUT.replace(",\n    ", ", ").strip().splitlines():
        name, texts = line.split(": ")
        columns = [_column(name, text, types, layout) for text in texts.split(", ")]
        tables[name] = _table(name, metadata, columns, layout)
    return CatalogTables(metadata=metadata, **tables)


def _table(name: str, metadata: MetaData, columns: Sequence[Column[Any]], layout: Layout) -> Table:
    is_there, missing = name not in layout.lacks, {c.key for c in columns if f"{name}.{c.key}" in layout.lacks}
    there = [c for c in columns if is_there and c.key not in missing]
    found = Table(layout.names.get(name, name), metadata, *there) if there else None
    if found is not None and not missing:
        return found
    literals = {c.key: cast(literal(layout.lacks.get(f"{name}.{c.key}"), c.type), c.type) for c in columns}
    filled = [c.label(c.key) if c in there else literals[c.key].label(c.key) for c in columns]
    query = select(*filled) if is_there else select(*filled).where(false())
    return typing_cast("Table", query.subquery(name))  # it has the same columns


def _column(
    table: str, text: str, types: Mapping[str, type[TypeEngine[Any]]], layout: Layout
) -> Column[Any]:  # Any: one Python type per entry
    name, kind = text.split(" ")
    return Column(
        layout.names.get(f"{table}.{name}", name),
        types[kind.rstrip("*!")](),
        key=name,
        primary_key=kind.endswith("*"),
        # A key is nullable: the reference's SQLite keys are, and PostgreSQL's never can be.
        nullable=not kind.endswith("!"),
        # True would make a BIGINT key a BIGSERIAL.
        autoincrement=False,
    )


# --------------------------------------------------------------- databases that have such types themselves


class UtcTime(TypeDecorator[datetime]):
    """A point in time, aware and in UTC."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002 # SQLAlchemy's signature
        return None if value is None else _aware(value)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002 # SQLAlchemy's signature
        return None if value is None else value.astimezone(UTC)


NATIVE_VALUES = ValueTypes(flag=Boolean, time=UtcTime, uuid=Uuid)


# ----------------------------------------------------------------------- databases of numbers and texts


class FlagNumber(TypeDecorator[bool]):
    """A boolean as a BIGINT of 0 or 1."""

    impl = BigInteger
    cache_ok = True

    def process_bind_param(self, value: bool | None, dialect: Dialect) -> int | None:  # noqa: FBT001, ARG002 # SQLAlchemy's signature
        return None if value is None else int(value)

    def process_result_value(self, value: int | None, dialect: Dialect) -> bool | None:  # noqa: ARG002 # SQLAlchemy's signature
        return None if value is None else bool(value)


class TimeText(TypeDecorator[datetime]):
    """A point in time as the reference's text `2026-11-16 01:38:20.82936+00`."""

    impl = String
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> str | None:  # noqa: ARG002 # SQLAlchemy's signature
        return None if value is None else format_time(_aware(value))

    def process_result_value(self, value: str | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002 # SQLAlchemy's signature
        return None if value is None else parse_time(value)


class UuidText(TypeDecorator[UUID]):
    """A UUID as its lower-case text."""

    impl = String
    cache_ok = True

    def process_bind_param(self, value: UUID | None, dialect: Dialect) -> str | None:  # noqa: ARG002 # SQLAlchemy's signature
        return None if value is None else str(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> UUID | None:  # noqa: ARG002 # SQLAlchemy's signature
        return None if value is None else UUID(value)


PLAIN_VALUES = ValueTypes(flag=FlagNumber, time=TimeText, uuid=UuidText)


def _aware(time: datetime) -> datetime:
    if time.tzinfo is None:
        raise ValueError(f"time '{time}' has no time zone")
    return time


def format_time(time: datetime) -> str:
    """Return the text of a time as the reference stores it: in UTC, without trailing zeros of the fraction."""
    text = time.astimezone(UTC).strftime("%H:%M:%S.%f").rstrip("0").rstrip(".")
    return f"{time.astimezone(UTC).date().isoformat()} {text}+00"


def parse_time(text: str) -> datetime:
    """Parse a stored time; one without an offset is in UTC."""
    time = datetime.fromisoformat(text)
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
