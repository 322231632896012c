"""What is asked of a whole lake at once, of snapshots, definitions and files: never of one file at a time."""

from __future__ import annotations

from ducklake_core.catalog.checks.question import Question

# Ids that commits have given out, each with the one after it.
USED_FILE_IDS = """
SELECT max(data_file_id) + 1 AS needed FROM {ducklake_data_file}
UNION ALL SELECT max(delete_file_id) + 1 FROM {ducklake_delete_file}
UNION ALL SELECT max(mapping_id) + 1 FROM {ducklake_column_mapping}
UNION ALL SELECT max(next_file_id) FROM {ducklake_snapshot}
"""
USED_CATALOG_IDS = """
SELECT max(schema_id) + 1 AS needed FROM {ducklake_schema}
UNION ALL SELECT max(table_id) + 1 FROM {ducklake_table}
UNION ALL SELECT max(view_id) + 1 FROM {ducklake_view}
UNION ALL SELECT max(macro_id) + 1 FROM {ducklake_macro}
UNION ALL SELECT max(partition_id) + 1 FROM {ducklake_partition_info}
UNION ALL SELECT max(sort_id) + 1 FROM {ducklake_sort_info}
UNION ALL SELECT max(next_catalog_id) FROM {ducklake_snapshot}
"""
# Of flushed and merged files, which have row ids inside, the catalog does not tell the last. From 10^18 on the
# reference numbers rows within a transaction, and may leave them so (format §8).
USED_ROW_IDS = """
SELECT table_id, max(row_id_start + record_count) AS needed FROM {ducklake_data_file}
WHERE partial_max IS NULL AND row_id_start < 1000000000000000000 GROUP BY table_id
"""


def _stale_counter(name: str, used: str) -> Question:
    sql = (
        f"SELECT CAST(NULL AS BIGINT) AS table_id, snapshot_id, {name}, needed FROM {{ducklake_snapshot}},\n"  # noqa: S608 # names of ours
        f"(SELECT max(needed) AS needed FROM ({used}) AS used) AS least\n"
        f"WHERE snapshot_id = (SELECT max(snapshot_id) FROM {{ducklake_snapshot}}) AND {name} < needed"
    )
    example = f"snapshot {{snapshot_id}} has {{{name}}}, {{needed}} is the least that is free"
    return Question(f"stale-{name.replace('_', '-')}", ("snapshot_id", name, "needed"), sql, example)


def _overlapping(code: str, table: str, key: str, example: str, owner: str = "table_id") -> Question:
    """Ask for versions of one thing that begin before an earlier one has ended."""
    ends = "coalesce(end_snapshot, 9223372036854775807)"
    sql = (
        f"SELECT {owner} AS table_id, {key}, begin_snapshot FROM (\n"  # noqa: S608 # names of ours
        f"  SELECT {owner}, {key}, begin_snapshot, end_snapshot, max({ends}) OVER (\n"
        f"    PARTITION BY {owner}, {key} ORDER BY begin_snapshot, {ends}\n"
        f"    ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS earlier_end\n"
        f"  FROM {{{table}}}) AS versions\n"
        f"WHERE earlier_end > begin_snapshot AND coalesce(end_snapshot, begin_snapshot + 1) > begin_snapshot"
    )
    return Question(code, (key, "begin_snapshot"), sql, example)


SNAPSHOT_WITHOUT_CHANGES = Question(
    "snapshot-without-changes",
    ("snapshot_id",),
    """
SELECT CAST(NULL AS BIGINT) AS table_id, s.snapshot_id FROM {ducklake_snapshot} s
LEFT JOIN {ducklake_snapshot_changes} c ON c.snapshot_id = s.snapshot_id WHERE c.snapshot_id IS NULL
""",
    "snapshot {snapshot_id}",
)
STALE_NEXT_ROW_ID = Question(
    "stale-next-row-id",
    ("next_row_id", "needed"),
    f"""
SELECT s.table_id, s.next_row_id, used.needed FROM {{ducklake_table_stats}} s
JOIN ({USED_ROW_IDS}) AS used ON used.table_id = s.table_id WHERE s.next_row_id < used.needed
AND s.table_id IN (SELECT table_id FROM {{ducklake_table}} WHERE end_snapshot IS NULL)
""",  # noqa: S608 # SQL of ours
    "next_row_id is {next_row_id}, {needed} is the least that is free",
)
MISSING_TABLE_STATS = Question(
    "missing-table-stats",
    ("files",),
    """
SELECT d.table_id, count(*) AS files FROM {ducklake_data_file} d
JOIN {ducklake_table} t ON t.table_id = d.table_id AND t.end_snapshot IS NULL
LEFT JOIN {ducklake_table_stats} s ON s.table_id = d.table_id
WHERE s.next_row_id IS NULL OR s.record_count IS NULL OR s.file_size_bytes IS NULL GROUP BY d.table_id
""",
    "{files} data files",
)
# Files with row ids inside have none of their own to share, and flushed ones begin with the least of theirs.
DUPLICATE_ROW_IDS = Question(
    "duplicate-row-ids",
    ("data_file_id", "row_id_start"),
    """
SELECT table_id, data_file_id, row_id_start FROM (
  SELECT table_id, data_file_id, row_id_start, max(row_id_start + record_count) OVER (
    PARTITION BY table_id ORDER BY row_id_start, data_file_id
    ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS earlier_end
  FROM {ducklake_data_file} WHERE end_snapshot IS NULL AND partial_max IS NULL AND record_count > 0) AS files
WHERE earlier_end > row_id_start
""",
    "data file {data_file_id} begins at row id {row_id_start}, which an earlier file has",
)
BAD_PARTITION_VALUES = Question(
    "bad-partition-values",
    ("data_file_id", "stored_values", "partition_keys"),
    """
SELECT d.table_id, d.data_file_id, count(v.data_file_id) AS stored_values,
  coalesce(k.partition_keys, 0) AS partition_keys
FROM {ducklake_data_file} d
LEFT JOIN {ducklake_file_partition_value} v ON v.data_file_id = d.data_file_id
LEFT JOIN (SELECT partition_id, count(*) AS partition_keys FROM {ducklake_partition_column} GROUP BY partition_id) AS k
ON k.partition_id = d.partition_id
WHERE d.end_snapshot IS NULL GROUP BY d.table_id, d.data_file_id, k.partition_keys
HAVING count(v.data_file_id) <> coalesce(k.partition_keys, 0)
OR count(DISTINCT v.partition_key_index) <> coalesce(k.partition_keys, 0)
OR coalesce(max(v.partition_key_index), -1) >= coalesce(k.partition_keys, 0)
""",
    "data file {data_file_id} has {stored_values} values for {partition_keys} keys",
)
DUPLICATE_TABLE_NAME = Question(
    "duplicate-table-name",
    ("table_name", "live_tables"),
    """
SELECT max(table_id) AS table_id, table_name, count(*) AS live_tables FROM {ducklake_table}
WHERE end_snapshot IS NULL GROUP BY schema_id, table_name HAVING count(DISTINCT table_id) > 1
""",
    "{live_tables} live tables are called '{table_name}'",
)
WRONG_DELETE_COUNT = Question(
    "wrong-delete-count",
    ("delete_file_id", "delete_count", "record_count"),
    """
SELECT x.table_id, x.delete_file_id, x.delete_count, d.record_count FROM {ducklake_delete_file} x
JOIN {ducklake_data_file} d ON d.data_file_id = x.data_file_id
WHERE x.delete_count < 0 OR x.delete_count > d.record_count
""",
    "delete file {delete_file_id} deletes {delete_count} rows of a file with {record_count}",
)
LAKE_QUESTIONS = (
    SNAPSHOT_WITHOUT_CHANGES,
    _stale_counter("next_file_id", USED_FILE_IDS),
    _stale_counter("next_catalog_id", USED_CATALOG_IDS),
    _overlapping(
        "overlapping-column-versions",
        "ducklake_column",
        "column_id",
        "column {column_id} begins again in snapshot {begin_snapshot}",
    ),
    _overlapping(
        "overlapping-table-versions",
        "ducklake_table",
        "table_uuid",
        "it begins again in snapshot {begin_snapshot}",
    ),
    _overlapping(
        "two-delete-files",
        "ducklake_delete_file",
        "data_file_id",
        "data file {data_file_id}, the second from snapshot {begin_snapshot} on",
    ),
    DUPLICATE_TABLE_NAME,
    STALE_NEXT_ROW_ID,
    MISSING_TABLE_STATS,
    DUPLICATE_ROW_IDS,
    BAD_PARTITION_VALUES,
    WRONG_DELETE_COUNT,
)
LEDGER_AHEAD = Question(
    "ledger-ahead",
    ("stream", "batch_id", "snapshot_id"),
    """
SELECT CAST(NULL AS BIGINT) AS table_id, stream, batch_id, snapshot_id FROM {ducklake_streaming_epochs}
WHERE snapshot_id > (SELECT max(snapshot_id) FROM {ducklake_snapshot})
""",
    "stream '{stream}' has batch {batch_id} in snapshot {snapshot_id}",
)
