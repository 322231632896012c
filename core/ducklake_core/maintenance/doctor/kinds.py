"""Every kind of thing that the doctor finds: how bad it is, what it is, what helps. The docs have the same table."""

from __future__ import annotations

from dataclasses import dataclass

from ducklake_core.maintenance.doctor.finding import Severity


@dataclass(frozen=True, slots=True)
class Kind:
    """What findings of one code have in common."""

    code: str
    severity: Severity
    what: str
    helps: str
    can_repair: bool = False


_REPAIR = "Run the doctor with --repair."
_RESTORE = "Restore the file from a backup of the storage."

_ALL = (
    # ---- the catalog as a whole
    Kind(
        "format-changed",
        Severity.ERROR,
        "the catalog is not of the format that it was opened as",
        "Somebody migrated the lake while writers were open. Restart every writer and reader with a release that knows"
        " the new format; nothing else was checked.",
    ),
    Kind(
        "unreadable-catalog",
        Severity.ERROR,
        "rows of the catalog that break the format",
        "Correct the rows, or restore the catalog from a backup.",
    ),
    Kind(
        "snapshot-without-changes",
        Severity.WARNING,
        "snapshots that have no row in ducklake_snapshot_changes",
        "Change feeds take them for snapshots that changed nothing. Insert the rows, if you know what they did.",
    ),
    Kind(
        "unknown-change",
        Severity.ERROR,
        "snapshots whose changes are not of the format's grammar",
        "No client can resolve a conflict, or list snapshots, while they are there. Correct their text.",
    ),
    Kind(
        "stale-next-file-id",
        Severity.ERROR,
        "next_file_id of the newest snapshot is in use",
        f"The next commit of a file fails, or DuckDB sessions keep old statistics. {_REPAIR}",
        can_repair=True,
    ),
    Kind(
        "stale-next-catalog-id",
        Severity.ERROR,
        "next_catalog_id of the newest snapshot is in use",
        f"The next table gets the id of another one. {_REPAIR}",
        can_repair=True,
    ),
    Kind(
        "ledger-ahead",
        Severity.ERROR,
        "streams whose last batch is in a snapshot that the lake does not have",
        "The lake was set back without its ledger, and batches are lost. Restore both together, or forget the stream"
        " (ducklake-stream streams forget) and let it begin anew.",
    ),
    # ---- definitions
    Kind(
        "overlapping-column-versions",
        Severity.ERROR,
        "columns with two versions at the same snapshot",
        "Readers take either of them. End the older one where the newer begins.",
    ),
    Kind(
        "overlapping-table-versions",
        Severity.ERROR,
        "tables with two versions at the same snapshot",
        "Readers take either of them. End the older one where the newer begins.",
    ),
    Kind(
        "duplicate-table-name",
        Severity.ERROR,
        "several live tables of one name in one schema",
        "Readers take either of them. Give one of them another table_name.",
    ),
    # ---- tables of inlined rows
    Kind(
        "missing-inlined-table",
        Severity.ERROR,
        "tables of inlined rows that are registered, and not there",
        "The table cannot be read. Restore the catalog; or remove the row from ducklake_inlined_data_tables, if nothing"
        " was inlined there.",
    ),
    Kind(
        "unregistered-inlined-table",
        Severity.ERROR,
        "tables of inlined rows that nobody reads, because they are not registered",
        "Insert them into ducklake_inlined_data_tables, if their rows belong to the table.",
    ),
    Kind(
        "orphan-inlined-table",
        Severity.INFO,
        "tables of inlined rows of a table that the lake does not have any more",
        "They only take space. Lake.expire_snapshots removes them.",
    ),
    # ---- deletes
    Kind(
        "two-delete-files",
        Severity.ERROR,
        "data files with two live delete files",
        "DuckDB shows every row of such a file twice. Rewrite the table: Lake.rewrite_data_files with"
        " delete_threshold=0.",
    ),
    Kind(
        "duplicate-delete-marks",
        Severity.ERROR,
        "rows of data files that are deleted twice by catalog rows",
        "DuckDB shows deleted rows again and hides others. Flush the table: Lake.flush_inlined.",
    ),
    Kind(
        "overlapping-delete-marks",
        Severity.ERROR,
        "rows that are deleted by a delete file and by a catalog row",
        "DuckDB shows deleted rows again and hides others. Flush the table: Lake.flush_inlined.",
    ),
    Kind(
        "delete-marks-beyond-rows",
        Severity.ERROR,
        "delete marks at positions that their data file does not have",
        "Counts are wrong and change feeds fail. Remove the marks of the catalog; a delete file must be written anew.",
    ),
    Kind(
        "lost-delete-marks",
        Severity.ERROR,
        "rows that were deleted while their file was merged or rewritten: they are back",
        "Delete these rows again. Merge and rewrite here, not by DuckDB.",
    ),
    Kind(
        "wrong-delete-count",
        Severity.ERROR,
        "delete files with another number of rows than the catalog says",
        "DuckDB counts rows by it. Set delete_count to what the file has.",
    ),
    Kind(
        "bad-delete-file",
        Severity.ERROR,
        "delete files that cannot be read, or whose positions do not increase",
        f"The table cannot be read. {_RESTORE}",
    ),
    # ---- files
    Kind("missing-file", Severity.ERROR, "files that are not in the storage", f"Their rows cannot be read. {_RESTORE}"),
    Kind(
        "wrong-file-size",
        Severity.ERROR,
        "files of another size than the catalog says",
        f"Readers of object stores fail. Somebody changed the file: {_RESTORE[0].lower()}{_RESTORE[1:]}",
    ),
    Kind("unreadable-file", Severity.ERROR, "data files that cannot be read", f"Their rows are not there. {_RESTORE}"),
    Kind(
        "wrong-footer-size",
        Severity.ERROR,
        "files with another footer than the catalog says",
        "DuckDB cannot read them. Set footer_size to null.",
    ),
    Kind(
        "wrong-record-count",
        Severity.ERROR,
        "data files with another number of rows than the catalog says",
        "DuckDB counts rows by it. Set record_count to what the file has.",
    ),
    Kind(
        "missing-snapshot-ids",
        Severity.ERROR,
        "data files of several snapshots that do not say which row is of which",
        "Older snapshots cannot be read. Set partial_max to null, if all rows are of begin_snapshot.",
    ),
    # ---- row ids
    Kind(
        "missing-row-ids",
        Severity.ERROR,
        "data files without row ids",
        "Their rows can be read, and not be updated, deleted or followed. Give them a row_id_start that is free.",
    ),
    Kind(
        "stale-next-row-id",
        Severity.ERROR,
        "next_row_id of a table is in use",
        f"New rows get the ids of others. {_REPAIR}",
        can_repair=True,
    ),
    Kind(
        "missing-table-stats",
        Severity.ERROR,
        "tables with rows and without a row in ducklake_table_stats",
        f"DuckDB's next insert begins at row id 0 again, with statistics of its own rows only. {_REPAIR}",
        can_repair=True,
    ),
    Kind(
        "duplicate-row-ids",
        Severity.ERROR,
        "live rows that share a row id",
        "Updates, deletes and change feeds take them for one row. Write the rows of one of the files anew.",
    ),
    # ---- values
    Kind(
        "narrow-file-statistics",
        Severity.ERROR,
        "statistics of data files that leave out values of the file",
        f"Filters miss rows. {_REPAIR}",
        can_repair=True,
    ),
    Kind(
        "narrow-table-statistics",
        Severity.ERROR,
        "statistics of tables that leave out values of the table",
        f"DuckDB returns wrong values. {_REPAIR}",
        can_repair=True,
    ),
    Kind(
        "bad-partition-values",
        Severity.ERROR,
        "partition values that are missing, or not those of the rows",
        "Filters miss rows, and files of different partitions are merged. Correct the values, or write the rows anew.",
    ),
    Kind(
        "invalid-text",
        Severity.WARNING,
        "texts that are no UTF-8",
        "DuckDB cannot read them; here they are read with U+FFFD for the bytes that are no text. Flush inlined rows;"
        " update the rows of files.",
    ),
)
KINDS = {kind.code: kind for kind in _ALL}
