"""Whether rows that others have added meanwhile have a key of an upsert. Runs on the driver, while it commits.

Without this, whoever adds rows of other keys often enough would keep an upsert from ever committing. Inlined rows are
looked at, and so are few and small data files of which statistics do not tell that they have none of the keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from ducklake_core.catalog.file_reader import read_stats_of_files, read_touched_files
from ducklake_core.catalog.inlined_reader import read_inlined_changes
from ducklake_core.catalog.reader import find_table_by_id
from ducklake_core.catalog.session import Session
from ducklake_core.errors import UnreadableFile
from ducklake_core.files.parquet_reader import ReadRequest, iterate_data_file
from ducklake_core.files.storage import Storage
from ducklake_core.model import Column, DataFile, InlinedTable, Snapshot, SnapshotId, SnapshotSpan, TableVersion
from ducklake_core.pending import LookedFor, PendingTable
from ducklake_core.spec.changes import ChangeKind
from ducklake_core.upsert.candidates import Candidates

_FEW_FILES = 8
_FEW_ROWS = 100_000


@dataclass(slots=True)
class TablesApart:
    """Which tables of one commit have new rows since its base, and none with a key that was looked for.

    What was looked at by an attempt that lost its snapshot's id to another is not looked at again.
    """

    storage: Storage
    data_path: str
    base: Snapshot
    _seen: tuple[SnapshotId, frozenset[int]] | None = None  # up to a snapshot

    def find(self, session: Session, head: SnapshotId, tables: Iterable[PendingTable]) -> frozenset[int]:
        """Look at what has come up to a snapshot."""
        start, apart = self._seen or (self.base.snapshot_id, None)
        newcomers = Newcomers(session, self.storage, SnapshotSpan(start, head), self.base.next_file_id)
        found = newcomers.tables_apart(tables, self.data_path)
        found = found if apart is None else found & apart
        self._seen = head, found
        return found


@dataclass(frozen=True, slots=True)
class Newcomers:
    """What some snapshots have added. `first_file_id`: every data file of theirs has this id or a later one."""

    session: Session
    storage: Storage
    span: SnapshotSpan
    first_file_id: int

    def tables_apart(self, tables: Iterable[PendingTable], data_path: str) -> frozenset[int]:
        """Return the tables whose new rows have none of the keys that were looked for."""
        searched = (p for p in tables if p.looked_for and not p.rests_on_all_rows)
        return frozenset(p.table.table_id for p in searched if self._is_apart(p, data_path))

    def _is_apart(self, pending: PendingTable, data_path: str) -> bool:
        now = find_table_by_id(self.session, pending.table.table_id, self.span.end, data_path)
        if now is None:
            return False
        wanted = pending.looked_for
        is_inlined = any(self._may_have(inlined, one) for inlined in now.inlined_tables for one in wanted)
        return not is_inlined and not self._may_be_in_files(now, wanted)

    def _may_have(self, inlined: InlinedTable, wanted: LookedFor) -> bool:
        columns = _stored_as(wanted.keys, inlined.columns)
        if columns is None:
            return True
        versions = read_inlined_changes(self.session, inlined, columns, self.span)
        new = versions.rows.filter(pa.array(versions.begins > self.span.start))
        return bool(new.num_rows) and len(wanted.index.find(new.columns)[0]) > 0

    def _may_be_in_files(self, table: TableVersion, wanted: Sequence[LookedFor]) -> bool:
        inserts = frozenset({ChangeKind.INSERTED_INTO_TABLE})
        touched = read_touched_files(self.session, table, self.span, self.first_file_id, inserts)
        if not touched:
            return False
        stats = read_stats_of_files(self.session, [found.file.data_file_id for found in touched])
        for one in wanted:
            keys = _stored_as(one.keys, table.columns)
            if keys is None:
                return True
            candidates = Candidates(table, keys, one.index)
            files = [t.file for t in touched if candidates.may_hold(t.file, stats.get(t.file.data_file_id, {}))]
            if not _are_few(files) or any(self._is_in(file, table, keys, one) for file in files):
                return True
        return False

    def _is_in(self, file: DataFile, table: TableVersion, keys: Sequence[Column], wanted: LookedFor) -> bool:
        """Look for the keys in a file, also among rows that are deleted."""
        request = ReadRequest(tuple(keys), None, table_columns=table.columns, with_threads=False)
        try:
            read = iterate_data_file(self.storage, file, request)
            return any(len(wanted.index.find([rows.column(key.name) for key in keys])[0]) for rows in read)
        except UnreadableFile:  # it may be gone by now, and who looks again will see
            return True


def _are_few(files: Sequence[DataFile]) -> bool:
    """Tell whether files are read in a moment: others wait for the commit, or take its snapshot's id."""
    return len(files) <= _FEW_FILES and sum(file.record_count for file in files) <= _FEW_ROWS


def _stored_as(keys: Sequence[Column], columns: Sequence[Column]) -> list[Column] | None:
    """Return the key columns as they are among some columns, None when they are there otherwise."""
    known = {c.column_id: c for c in columns}
    found = [known[key.column_id] for key in keys if key.column_id in known]
    return found if [c.type for c in found] == [key.type for key in keys] else None
