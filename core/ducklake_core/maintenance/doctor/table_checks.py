"""Looks at the files and inlined rows of one table after another, and compares them with the table's statistics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ducklake_core.catalog import queries, reader
from ducklake_core.catalog.checks import shown
from ducklake_core.catalog.checks.listing import find_registered, read_footer_sizes
from ducklake_core.catalog.database import Database
from ducklake_core.catalog.file_reader import read_some_data_files, read_stats_of_files
from ducklake_core.catalog.inlined_reader import read_row_versions
from ducklake_core.catalog.session import Session
from ducklake_core.errors import CatalogTableMissing, CorruptCatalog, TerminalError
from ducklake_core.files.footers import Footer
from ducklake_core.files.storage import Storage
from ducklake_core.maintenance.doctor.file_checks import check_deletes, check_footer
from ducklake_core.maintenance.doctor.measure import narrow_table_leaves
from ducklake_core.maintenance.doctor.notes import Notes
from ducklake_core.maintenance.doctor.value_checks import TableCheck, check_rows, shown_stats
from ducklake_core.model import (
    ColumnId,
    ColumnStats,
    DataFile,
    DataFileId,
    InlinedTable,
    SnapshotId,
    TableId,
    TableStats,
)
from ducklake_core.read.inlined import as_table_columns
from ducklake_core.spec.changes import ChangeKind, parse_changes
from ducklake_core.text_repair import hear_of_invalid_text

_CHUNK_BYTES = 16 * 2**20
_FIRST_OWN_ROW_ID = 10**18  # see `USED_ROW_IDS`
_MOVES = frozenset({ChangeKind.INLINE_FLUSH, ChangeKind.MERGE_ADJACENT, ChangeKind.REWRITE_DELETE})


@dataclass(slots=True)
class TableExam:
    """One table that is looked at: what is gathered of it, and the last row id inside of its files."""

    database: Database
    storage: Storage
    head: SnapshotId
    check: TableCheck
    last_row_id: int = -1
    narrow: list[ColumnStats] = field(default_factory=list)  # of all live rows, for columns whose statistics are narrow

    @property
    def table_id(self) -> TableId:
        return self.check.table.table_id

    @property
    def notes(self) -> Notes:
        return self.check.notes

    def look_at_files(self, file_ids: list[int]) -> None:
        """Look at data files with what belongs to them; one that was merged or rewritten meanwhile is left out."""
        try:
            files, stats, footers = self.database.ask(lambda session: self._read(session, file_ids))
        except CorruptCatalog as error:
            self.notes.add("unreadable-catalog", self.table_id, str(error), shown.DATA_FILES, *file_ids)
            return
        for file in files:
            self._look_at(file, stats.get(file.data_file_id, {}), footers.get(file.data_file_id))

    def _read(
        self, session: Session, file_ids: list[int]
    ) -> tuple[list[DataFile], Mapping[DataFileId, dict[ColumnId, ColumnStats]], dict[int, int | None]]:
        files = read_some_data_files(session, self.check.table, self.head, file_ids)
        return files, read_stats_of_files(session, file_ids), read_footer_sizes(session, file_ids)

    def _look_at(self, file: DataFile, stats: dict[ColumnId, ColumnStats], footer_size: int | None) -> None:
        found = Notes()
        self.check.notes, before = found, self.check.notes
        try:
            footer = check_footer(self.storage, self.table_id, file, footer_size, found)
            dropped = check_deletes(self.storage, self.table_id, file, found)
            if footer is not None and dropped is not None:
                self._keep_last_row_id(footer)
                has_row_ids = footer.has_row_ids or file.row_id_start is not None
                check_rows(self.storage, self.check, file, stats, dropped, has_row_ids=has_row_ids)
        finally:
            self.check.notes = before
        if found.is_empty or self._is_registered(file):
            before.take(found)

    def _is_registered(self, file: DataFile) -> bool:
        """Tell whether the catalog still has a file: a merge and a cleanup may have taken it away meanwhile."""
        ids = [file.data_file_id, *(one.delete_file_id for one in file.delete_files)]
        return self.database.ask(lambda session: find_registered(session, ids)) >= set(ids)

    def _keep_last_row_id(self, footer: Footer) -> None:
        last = footer.last_row_id
        if last is not None and last < _FIRST_OWN_ROW_ID:
            self.last_row_id = max(self.last_row_id, last)

    def look_at_inlined_rows(self) -> None:
        """Read all inlined rows of the table."""
        for inlined in self.check.table.inlined_tables:
            try:
                self._look_at_inlined(inlined)
            except CatalogTableMissing:
                continue  # flushed meanwhile, or missing, which is found elsewhere
            except (TerminalError, ValueError) as error:  # values that a type cannot have, whatever made them
                told = f"'{inlined.name}' cannot be read: {error}"
                self.notes.add("unreadable-catalog", self.table_id, told, shown.INLINED_TABLES, self.table_id)

    def _look_at_inlined(self, inlined: InlinedTable) -> None:
        columns = self.check.live.columns
        present = [c for c in inlined.columns if c.column_id in {one.column_id for one in columns}]
        with hear_of_invalid_text() as heard:
            for versions in read_row_versions(self.database, inlined, self.head, _CHUNK_BYTES):
                is_live = versions.ends == 0
                rows = versions.rows.select([c.name for c in present]).filter(is_live)
                live = as_table_columns(rows, int(is_live.sum()), present, columns)
                self.check.live.add(live)
                self.check.note_row_ids(
                    versions.row_ids[is_live], f"'{inlined.name}'", shown.INLINED_TABLES, self.table_id
                )
        places = {inlined.name, self.database.url.shown}
        named = {(inlined.name, column) for place, column in heard if place in places}
        self.check.note_texts(named, inlined.name, f"'{inlined.name}'", shown.INLINED_TABLES, self.table_id)

    def finish(self) -> None:
        """Note what only all rows that were read tell."""
        if self.check.shared and not self.database.ask(self._was_moved):
            for told, sql, *ids in self.check.shared:
                self.notes.add("duplicate-row-ids", self.table_id, told, sql, *ids)
        self._compare_statistics()

    def _was_moved(self, session: Session) -> bool:
        """Tell whether rows went to other files since the head: they may have been read in both."""
        rows = queries.changes_since(session.tables).ask(session, base=self.head)
        changes = [change for row in rows for change in parse_changes(row.changes_made)]
        return any(change.kind in _MOVES and change.object_id == self.table_id for change in changes)

    def _compare_statistics(self) -> None:
        """Note what the table's statistics leave out of the rows that were read; they only ever get wider meanwhile."""
        stats = self.database.ask(self._table_stats)
        if stats is None:
            return
        if stats.next_row_id <= self.last_row_id:
            told = f"next_row_id is {stats.next_row_id}, {self.last_row_id + 1} is the least that is free"
            self.notes.add("stale-next-row-id", self.table_id, told, shown.TABLE_TOTALS)
        measured = {one.column_id: one for one in self.check.live.stats()}
        for leaf in narrow_table_leaves(self.check.live, stats.columns):
            if leaf.column_id in self.check.mended:
                continue
            is_, told = shown_stats(measured[leaf.column_id]), shown_stats(stats.columns[leaf.column_id])
            example = f"column '{leaf.name}': {is_}; statistics say {told}"
            self.notes.add("narrow-table-statistics", self.table_id, example, shown.TABLE_STATISTICS, leaf.column_id)
            self.narrow.append(measured[leaf.column_id])

    def _table_stats(self, session: Session) -> TableStats | None:
        query = queries.table_stats(session.tables)
        return reader.table_stats_of(query.ask(session, table_id=self.table_id))
