"""What is asked of the tables that hold inlined rows and inlined deletes: of each by its name."""

from __future__ import annotations

from ducklake_core.catalog.checks.question import Question

# {deletes} is the table of inlined deletes, {table_id} the table they are of.
DELETE_QUESTIONS = (
    Question(
        "duplicate-delete-marks",
        ("data_file_id", "position", "marks"),
        """
SELECT {table_id} AS table_id, file_id AS data_file_id, row_id AS position, count(*) AS marks
FROM {deletes} GROUP BY file_id, row_id HAVING count(*) > 1
""",
        "data file {data_file_id} has {marks} marks at position {position}",
    ),
    Question(
        "delete-marks-beyond-rows",
        ("data_file_id", "position", "record_count"),
        """
SELECT {table_id} AS table_id, m.file_id AS data_file_id, m.row_id AS position, d.record_count
FROM {deletes} m JOIN {ducklake_data_file} d ON d.data_file_id = m.file_id
WHERE m.row_id < 0 OR m.row_id >= d.record_count
""",
        "data file {data_file_id} has {record_count} rows and a mark at position {position}",
    ),
    # An expiry removes files that had ended, with every snapshot that saw them: where the one of the mark is still
    # there, somebody took the file away from under it. Or rewrote it, without the mark.
    Question(
        "lost-delete-marks",
        ("data_file_id", "position", "snapshot_id"),
        """
SELECT {table_id} AS table_id, m.file_id AS data_file_id, m.row_id AS position, m.begin_snapshot AS snapshot_id
FROM {deletes} m LEFT JOIN {ducklake_data_file} d ON d.data_file_id = m.file_id
LEFT JOIN {ducklake_snapshot_changes} c ON c.snapshot_id = d.end_snapshot
WHERE d.data_file_id IS NULL AND m.begin_snapshot IN (SELECT snapshot_id FROM {ducklake_snapshot})
OR d.end_snapshot <= m.begin_snapshot AND ',' || c.changes_made || ',' LIKE '%,rewrite_delete:{table_id},%'
""",
        "position {position} of data file {data_file_id}, deleted in snapshot {snapshot_id}",
    ),
)
# {rows} are the row ids of all tables of inlined rows of one table, with the snapshots that began and ended each.
ROW_QUESTIONS = (
    Question(
        "stale-next-row-id",
        ("next_row_id", "needed"),
        """
SELECT s.table_id, s.next_row_id, used.needed FROM {ducklake_table_stats} s,
(SELECT max(row_id) + 1 AS needed FROM ({rows}) AS r WHERE row_id < 1000000000000000000) AS used
WHERE s.table_id = {table_id} AND s.next_row_id < used.needed
""",
        "next_row_id is {next_row_id}, {needed} is the least that is free",
    ),
    Question(
        "missing-table-stats",
        ("inlined_rows",),
        """
SELECT {table_id} AS table_id, count(*) AS inlined_rows FROM ({rows}) AS r
WHERE NOT EXISTS (SELECT 1 FROM {ducklake_table_stats} s WHERE s.table_id = {table_id}) HAVING count(*) > 0
""",
        "{inlined_rows} inlined rows",
    ),
    Question(
        "duplicate-row-ids",
        ("row_id", "versions"),
        """
SELECT {table_id} AS table_id, row_id, count(*) AS versions FROM ({rows}) AS r
WHERE end_snapshot IS NULL GROUP BY row_id HAVING count(*) > 1
""",
        "{versions} inlined rows have row id {row_id}",
    ),
)
