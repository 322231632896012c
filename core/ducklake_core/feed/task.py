"""What of a table changed in a range of snapshots: files and inlined rows, as one task has them. Pure.

Made on the driver, read on executors: a task has all it needs to read its changes without the catalog. Inlined rows
travel as an Arrow stream, of which both ends are here; only when there are many, the task asks the catalog for its own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import Enum
from typing import Protocol, Self, TypeAlias

import numpy as np
import pyarrow as pa

from ducklake_core.arrow_stream import from_stream, to_stream
from ducklake_core.model import Column, DataFile, RowSpan, SnapshotId, SnapshotSpan
from ducklake_core.plan.row_id_pieces import RowIdPiece, packed
from ducklake_core.spec.buffers import integers_of

# Rows, their columns called by their places, then their row ids, and the snapshots that began and ended them (0: none).
Versions: TypeAlias = tuple[pa.RecordBatch, np.ndarray, np.ndarray, np.ndarray]
VERSION_COLUMNS = ("row_id", "begin", "end")  # what stands behind the columns of inlined rows in their stream


class FeedMode(Enum):
    """What a feed tells of the rows of a table."""

    CHANGES = "every change"
    NET = "one event of each row, what became of it in the whole range"
    INSERTS = "only the rows that were inserted"
    STATE = "no change, but the rows that are there at the end of the range, as if inserted by it"


@dataclass(frozen=True, slots=True)
class ChangedFile:
    """A data file of which rows may have been inserted or deleted in a range.

    It comes with all its delete files. `inlined_deletes` are positions, each with the snapshot that deleted it.
    `span` None: all of it.
    """

    file: DataFile
    holds_new_rows: bool
    inlined_deletes: tuple[tuple[int, SnapshotId], ...] = ()
    span: RowSpan | None = None

    @property
    def rows(self) -> int:
        return self.file.record_count if self.span is None else self.span.end - self.span.first

    def may_tell_of(self, snapshots: Collection[int]) -> bool:
        """Tell whether some of these snapshots may have inserted or deleted rows of it."""
        file, last = self.file, self.file.partial_max or self.file.begin_snapshot
        if self.holds_new_rows and any(file.begin_snapshot <= i <= last for i in snapshots):
            return True
        if file.end_snapshot in snapshots or any(i in snapshots for _, i in self.inlined_deletes):
            return True
        return bool(file.delete_files) and min(d.begin_snapshot for d in file.delete_files) <= max(
            snapshots, default=-1
        )

    def within(self, span: SnapshotSpan) -> ChangedFile | None:
        """Return the file as a part of the range sees it; None when nothing can have happened to it there."""
        file = self.file
        last = file.partial_max or file.begin_snapshot
        is_new = self.holds_new_rows and file.begin_snapshot <= span.end and last > span.start
        has_ended = file.end_snapshot is not None and file.end_snapshot in span
        has_deletes = any(delete_file.begin_snapshot <= span.end for delete_file in file.delete_files)
        if is_new or has_ended or has_deletes or any(snapshot in span for _, snapshot in self.inlined_deletes):
            return replace(self, holds_new_rows=is_new)
        return None


@dataclass(frozen=True, slots=True)
class InlinedChanges:
    """Inlined row versions that a range began or ended, as an Arrow stream: columns, then `VERSION_COLUMNS`.

    `versions` is such a stream without the columns: all that other tasks need to know of them.
    """

    stream: bytes = field(repr=False)
    versions: bytes = field(repr=False)
    rows: int

    @classmethod
    def encode(cls, rows: pa.Table, row_ids: np.ndarray, begins: np.ndarray, ends: np.ndarray) -> Self:
        """Return versions of rows on their way to a task. `ends`: 0 for those that have not ended."""
        numbers = [pa.array(found) for found in (row_ids, begins, ends)]
        # By place, not by name: a column may have any name.
        places = [str(i) for i in range(rows.num_columns)]
        table = pa.table([*rows.columns, *numbers], names=[*places, *VERSION_COLUMNS])
        table = table.combine_chunks()
        return cls(to_stream(table), to_stream(table.select(list(VERSION_COLUMNS))), table.num_rows)

    def decode(self) -> Iterator[Versions]:
        """Yield the row versions."""
        for found in from_stream(self.stream):
            numbers = (integers_of(found.column(name)) for name in VERSION_COLUMNS)
            yield found.select(list(range(found.num_columns - len(VERSION_COLUMNS)))), *numbers

    def without_columns(self) -> Self:
        return replace(self, stream=self.versions)


class InlinedSource(Protocol):
    """Where inlined rows are that no task carries. It pickles, and shows no password."""

    def read(self, piece: RowIdPiece, *, with_columns: bool) -> Iterator[Versions]:
        """Yield the row versions of a piece; raise TransientError when they are not all there any more."""
        ...


@dataclass(frozen=True, slots=True)
class CatalogChanges:
    """Inlined row versions that a range began or ended, too many to travel: who has the task reads them itself.

    A piece has all versions of the row ids that it has, so two of them never tell of one row.
    """

    source: InlinedSource
    pieces: tuple[RowIdPiece, ...]
    with_columns: bool = True

    @property
    def rows(self) -> int:
        return sum(piece.rows for piece in self.pieces)

    def decode(self) -> Iterator[Versions]:
        """Yield the row versions, read now."""
        for piece in packed(self.pieces, self.rows):
            yield from self.source.read(piece, with_columns=self.with_columns)

    def without_columns(self) -> Self:
        return replace(self, with_columns=False)

    def split(self, rows: int) -> Iterator[Self]:
        """Yield parts of about so many rows."""
        for piece in packed(self.pieces, rows):
            yield replace(self, pieces=(piece,))


InlinedPart: TypeAlias = InlinedChanges | CatalogChanges


@dataclass(frozen=True, slots=True)
class ChangeTask:
    """Some changes of one table, to be read by one task.

    `update_snapshots` are those in which rows may have been updated; the counterparts have what else happened in these,
    in other tasks: their row ids tell which deletes and inserts are halves of an update. Net changes need that of all
    snapshots. Of `rewrites`, which only move rows, and of those `passed_over` no insert is told. When it `has_gap`,
    only the snapshots of `times` are left: events of others are not told, though some may be there.
    """

    table: str
    columns: tuple[Column, ...]
    table_columns: tuple[Column, ...]
    span: SnapshotSpan
    times: tuple[tuple[SnapshotId, datetime], ...]
    rewrites: frozenset[int]
    update_snapshots: frozenset[int]
    files: tuple[ChangedFile, ...] = ()
    inlined: tuple[InlinedPart, ...] = ()
    counterpart_files: tuple[ChangedFile, ...] = ()
    counterpart_inlined: tuple[InlinedPart, ...] = ()
    mode: FeedMode = FeedMode.CHANGES
    passed_over: frozenset[int] = frozenset()
    has_gap: bool = False
    weights: tuple[tuple[int, float], ...] = ()  # about how many rows of files each snapshot has changed
    needs_counterparts: bool = field(init=False, repr=False, compare=False)  # what an event is depends on others
    # The snapshots of which no insert is told, though they have written rows.
    silent_inserts: frozenset[int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        silent = self.rewrites | self.passed_over if self.passed_over else self.rewrites
        object.__setattr__(self, "needs_counterparts", self.mode is FeedMode.NET or bool(self.update_snapshots))
        object.__setattr__(self, "silent_inserts", silent)

    def only_inserts(self, passed_over: frozenset[int]) -> ChangeTask:
        """Return the task without what changes rows, and without all that some snapshots did."""
        return replace(
            self,
            mode=FeedMode.INSERTS,
            files=tuple(f for f in self.files if f.holds_new_rows),
            update_snapshots=frozenset(),
            passed_over=passed_over,
        )

    def tells_of_inserts(self, snapshot: SnapshotId) -> bool:
        """Tell whether rows that a snapshot wrote are inserts of this range."""
        if snapshot not in self.span or snapshot in self.silent_inserts:
            return False
        return not self.has_gap or any(retained == snapshot for retained, _ in self.times)

    @property
    def rows(self) -> int:
        """How many rows there may be to look at, at most."""
        return sum(f.rows for f in self.files) + sum(i.rows for i in self.inlined)
