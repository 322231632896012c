"""Inlined rows of a feed that stay in the catalog until a task reads them. Listed on the driver, read anywhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from ducklake_core.catalog.database import Database
from ducklake_core.catalog.inlined_reader import RowIdRange, read_inlined_changes
from ducklake_core.catalog.row_versions import RowVersions
from ducklake_core.catalog.session import Session
from ducklake_core.errors import CatalogTableMissing, TransientError
from ducklake_core.feed.task import Versions
from ducklake_core.model import Column, InlinedTable, SnapshotSpan
from ducklake_core.plan.row_id_pieces import RowIdPiece
from ducklake_core.read.inlined import as_table_columns


@dataclass(frozen=True, slots=True)
class CatalogRows:
    """The versions of a table's inlined rows that a range began or ended. Its `database` knows a password: not shown.

    What later commits do to them is after the range and changes nothing, but for a flush, which moves them to a file:
    then there are fewer than were counted, and the read must begin again.
    """

    database: Database = field(repr=False)
    tables: tuple[InlinedTable, ...]
    columns: tuple[Column, ...]
    span: SnapshotSpan

    def read(self, piece: RowIdPiece, *, with_columns: bool) -> Iterator[Versions]:
        """Yield the row versions of a piece, all of them or none."""
        columns = self.columns if with_columns else ()
        row_ids = RowIdRange(piece.first, piece.end)
        counted = [(table, count) for table, count in zip(self.tables, piece.counts, strict=True) if count]

        def ask(session: Session) -> list[RowVersions]:
            return [changes_of(session, table, columns, self.span, row_ids=row_ids) for table, _ in counted]

        found = self._ask(ask)
        if found is None or [len(versions) for versions in found] != [count for _, count in counted]:
            raise TransientError(
                "inlined rows have been flushed since the changes were listed: begin the read again; a stream goes on "
                "where it was when it is restarted"
            )
        for versions in found:
            yield from _record_batches(versions)

    def _ask(self, ask: Callable[[Session], list[RowVersions]]) -> list[RowVersions] | None:
        """Ask by a connection of this read alone: the next task may run in another process."""
        try:
            return self.database.ask(ask)
        except CatalogTableMissing:
            return None  # a flush has dropped it
        finally:
            self.database.close()


def changes_of(
    session: Session,
    inlined: InlinedTable,
    columns: Sequence[Column],
    span: SnapshotSpan,
    *,
    row_ids: RowIdRange | None = None,
    limit: int | None = None,
) -> RowVersions:
    """Return the versions of an inlined table that a range began or ended, in the columns that the feed has."""
    wanted = {column.column_id for column in columns}
    present = [column for column in inlined.columns if column.column_id in wanted]
    found = read_inlined_changes(session, inlined, present, span, row_ids=row_ids, limit=limit)
    return replace(found, rows=as_table_columns(found.rows, len(found.row_ids), present, columns))


def _record_batches(found: RowVersions) -> Iterator[Versions]:
    if not found.rows.num_columns:  # of such, Arrow does not know how many there are
        yield pa.RecordBatch.from_arrays([], names=[]), found.row_ids, found.begins, found.ends
        return
    start = 0
    for rows in found.rows.combine_chunks().to_batches():
        part = slice(start, start + rows.num_rows)
        start = part.stop
        yield rows, found.row_ids[part], found.begins[part], found.ends[part]
