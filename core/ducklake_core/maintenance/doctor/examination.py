"""Looks a lake over. It only reads; what it cannot read is a finding."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import groupby
from typing import TypeAlias

from ducklake_core.catalog import reader
from ducklake_core.catalog.checks import shown
from ducklake_core.catalog.checks.inventory import Inventory, read_inventory
from ducklake_core.catalog.checks.listing import find_with_both, live_pages, registered_pages
from ducklake_core.catalog.checks.question import Answer
from ducklake_core.catalog.database import Database
from ducklake_core.errors import CorruptCatalog
from ducklake_core.files.storage import Storage
from ducklake_core.maintenance.doctor import catalog_checks
from ducklake_core.maintenance.doctor.file_checks import look_up
from ducklake_core.maintenance.doctor.notes import Notes
from ducklake_core.maintenance.doctor.table_checks import TableExam
from ducklake_core.maintenance.doctor.value_checks import TableCheck
from ducklake_core.model import SnapshotId, TableId, TableVersion

# What is looked at unless all is: files whose size is asked for, files that are opened, rows that are read of each.
LOOKED_UP_FILES = 1_000
OPENED_FILES = 64
READ_ROWS = 100_000

Progress: TypeAlias = Callable[[str, int], None]  # what is done now, and how much of it


def no_progress(step: str, done: int) -> None:
    """Tell nobody."""


@dataclass(slots=True)
class Examination:
    """What is looked at, and what was found so far."""

    database: Database
    storage: Storage
    data_path: str
    full: bool
    progress: Progress
    notes: Notes = field(default_factory=Notes)

    def run(self) -> list[Answer]:
        """Look at everything; what two looks find of one table is told once."""
        other = catalog_checks.find_other_format(self.database)
        if other is not None:
            return [other]
        self.progress("reading the catalog", 0)
        inventory = self.database.ask(read_inventory)
        catalog_checks.check_layout(self.database, inventory, self.notes)
        found = [*catalog_checks.check_questions(self.database, inventory)]
        found += catalog_checks.check_inlined_tables(self.database, inventory)
        catalog_checks.check_changes(self.database, self.notes)
        self._look_at_tables(inventory)
        return _each_once([*found, *self.notes.answers(self.database)])

    def _look_at_tables(self, inventory: Inventory) -> None:
        try:
            head = self.database.ask(reader.read_head).snapshot_id
        except CorruptCatalog as error:
            self.notes.add("unreadable-catalog", None, str(error), shown.SNAPSHOTS)
            return
        tables = catalog_checks.read_definitions(self.database, self.data_path, head, inventory.live_ids, self.notes)
        self._look_up_files()
        done = 0
        for table_id, pages in groupby(self._pages(inventory), key=lambda page: page[0]):
            table = tables.pop(TableId(table_id), None)
            if table is None:
                continue  # dropped, or nobody can make sense of it
            exam = self.exam_of(table, head)
            for _, file_ids in pages:
                self.progress("reading files", done)
                exam.look_at_files(file_ids)
                done += len(file_ids)
            self._finish(exam)
        for table in tables.values():  # without files
            self._finish(self.exam_of(table, head))

    def _look_up_files(self) -> None:
        done = 0
        for files in registered_pages(self.database, self.data_path, None if self.full else LOOKED_UP_FILES):
            self.progress("looking for files", done)
            look_up(self.database, self.storage, files, self.notes)
            done += len(files)

    def _pages(self, inventory: Inventory) -> Iterator[tuple[int, list[int]]]:
        """Yield the data files to be opened: those of one table follow each other."""
        both: dict[int, list[int]] = {}
        if not self.full:  # where deletes of both kinds may overlap
            deletes = list(inventory.deletes_by_table.items())
            both = self.database.ask(lambda session: find_with_both(session, deletes, OPENED_FILES))
        for table_id, file_ids in live_pages(self.database, None if self.full else OPENED_FILES):
            yield table_id, sorted({*file_ids, *both.pop(table_id, ())})
        yield from ((table_id, file_ids) for table_id, file_ids in both.items() if file_ids)

    def exam_of(self, table: TableVersion, head: SnapshotId) -> TableExam:
        """Begin to look at a table."""
        check = TableCheck.of(table, self.notes, full=self.full, row_limit=None if self.full else READ_ROWS)
        return TableExam(self.database, self.storage, head, check)

    def _finish(self, exam: TableExam) -> None:
        if self.full:
            self.progress(f"reading inlined rows of {exam.check.table.qualified_name}", 0)
            exam.look_at_inlined_rows()
        exam.finish()


def _each_once(found: list[Answer]) -> list[Answer]:
    """Return the first answer of each kind for each table; of the lake as a whole all of them."""
    first: dict[tuple[str, int | str], Answer] = {}
    for answer in found:
        key = answer.sql if answer.table_id is None else answer.table_id
        first.setdefault((answer.code, key), answer)
    return list(first.values())
