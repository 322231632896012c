"""SQL that shows what was found by looking at files and tables, and not by a question: the catalog's side of it."""

from __future__ import annotations

from collections.abc import Collection

from ducklake_core.catalog.checks.question import filled, sql_name
from ducklake_core.catalog.database import Database

_SHOWN_IDS = 100
VERSION = "SELECT * FROM {ducklake_metadata} WHERE key = 'version'"
SNAPSHOTS = "SELECT * FROM {ducklake_snapshot} ORDER BY snapshot_id DESC LIMIT 10"
CHANGES = "SELECT snapshot_id, changes_made FROM {ducklake_snapshot_changes} WHERE snapshot_id IN ({ids})"
COLUMNS = "SELECT * FROM {ducklake_column} WHERE table_id IN ({ids}) ORDER BY column_id, begin_snapshot"
INLINED_TABLES = "SELECT * FROM {ducklake_inlined_data_tables} WHERE table_id IN ({ids})"
DATA_FILES = """
SELECT data_file_id, begin_snapshot, end_snapshot, path, record_count, file_size_bytes, footer_size, row_id_start,
  partition_id, mapping_id, partial_max
FROM {ducklake_data_file} WHERE data_file_id IN ({ids})
"""
DELETE_FILES = """
SELECT delete_file_id, data_file_id, begin_snapshot, end_snapshot, path, delete_count, file_size_bytes, footer_size
FROM {ducklake_delete_file} WHERE delete_file_id IN ({ids})
"""
FILES = """
SELECT data_file_id AS file_id, path, file_size_bytes, footer_size FROM {ducklake_data_file}
WHERE data_file_id IN ({ids})
UNION ALL SELECT delete_file_id, path, file_size_bytes, footer_size FROM {ducklake_delete_file}
WHERE delete_file_id IN ({ids})
"""
FILE_STATISTICS = "SELECT * FROM {ducklake_file_column_stats} WHERE data_file_id IN ({ids})"
PARTITION_VALUES = "SELECT * FROM {ducklake_file_partition_value} WHERE data_file_id IN ({ids})"
TABLE_STATISTICS = "SELECT * FROM {ducklake_table_column_stats} WHERE table_id = {table_id} AND column_id IN ({ids})"
TABLE_TOTALS = "SELECT * FROM {ducklake_table_stats} WHERE table_id = {table_id}"


def shown_sql(database: Database, sql: str, ids: Collection[int] = (), table_id: int | None = None) -> str:
    """Return SQL that runs as it stands, for the first of some ids."""
    numbers = sorted(set(ids))[:_SHOWN_IDS]
    return filled(database, sql, ids=", ".join(map(str, numbers)) or "NULL", table_id=table_id)


def count_sql(database: Database, name: str) -> str:
    """Return SQL that counts the rows of a table of inlined rows or deletes."""
    return f"SELECT count(*) FROM {sql_name(database, name)}"  # noqa: S608 # a name of the catalog
