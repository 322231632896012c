"""Mends what cannot lose data: counters are raised, statistics are widened. One snapshot, in which no row changes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime

from ducklake_core.catalog import reader
from ducklake_core.catalog.checks.listing import pages_of_table
from ducklake_core.catalog.checks.question import Answer
from ducklake_core.catalog.checks.repair_commit import TableRepair, commit_repairs
from ducklake_core.maintenance.doctor.catalog_checks import read_definitions
from ducklake_core.maintenance.doctor.examination import Examination
from ducklake_core.maintenance.doctor.kinds import KINDS
from ducklake_core.maintenance.doctor.notes import Notes
from ducklake_core.model import TableId

_DONE = {
    "stale-next-file-id": "raised next_file_id above every id in use",
    "stale-next-catalog-id": "raised next_catalog_id above every id in use",
    "stale-next-row-id": "raised next_row_id above every row id in use",
    "missing-table-stats": "wrote the row from what files and inlined rows have",
    "narrow-file-statistics": "set the statistics to what all rows of the files have",
    "narrow-table-statistics": "widened the statistics by all live rows of the table",
}


def repair(answers: Iterable[Answer], examination: Examination, now: datetime) -> dict[tuple[str, int | None], str]:
    """Mend what can be, and return what was done, by code and table."""
    found = [answer for answer in answers if KINDS[answer.code].can_repair]
    if not found:
        return {}
    table_ids = {TableId(answer.table_id) for answer in found if answer.table_id is not None}
    tables = list(_tables(sorted(table_ids), examination))
    made = commit_repairs(examination.database, now, tables)
    mended = {None, *(table.table_id for table in tables)}
    return {
        (answer.code, answer.table_id): f"{_DONE[answer.code]}, in snapshot {made.snapshot_id}"
        for answer in found
        if answer.table_id in mended
    }


def _tables(table_ids: Iterable[TableId], examination: Examination) -> Iterator[TableRepair]:
    """Read all rows of the tables to be mended: statistics that are widened by a sample may still be too narrow."""
    database = examination.database
    head = database.ask(reader.read_head).snapshot_id
    for table in read_definitions(database, examination.data_path, head, table_ids, Notes()).values():
        exam = examination.exam_of(table, head)
        for file_ids in pages_of_table(database, table.table_id):
            exam.look_at_files(file_ids)
        exam.look_at_inlined_rows()
        exam.finish()
        yield TableRepair(table.table_id, table.columns, exam.last_row_id + 1, tuple(exam.narrow), exam.check.exact)
