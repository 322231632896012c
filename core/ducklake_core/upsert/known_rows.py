"""What a table has at a snapshot that one of our own commits has made: its files, and all rows that it has inlined.

Whoever commits knows what became of the rows by it, so that a stream of small upserts need not ask the catalog again
and again. It holds only as long as nobody else commits: a base is compared with the snapshot, and the commit checks
that nothing has changed since its base, as it always does. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from ducklake_core.model import Column, DataFile, DataFileId, InlinedTable, Snapshot, TableId
from ducklake_core.plan.commit_plan import MadeCommit
from ducklake_core.plan.file_facts import FieldFacts
from ducklake_core.plan.staged import StagedTable
from ducklake_core.plan.writes import InsertInlined
from ducklake_core.spec.arrays import single
from ducklake_core.upsert.key_index import KeyIndex
from ducklake_core.upsert.sorted_keys import SortedKeys, integers_of

_MERGE_FACTOR = 4  # a segment that is not so many times as large as the next one becomes one with it
_SMALL_BYTES = 2**18
_FILE_BYTES = 1_000  # of one in the catalog's words, roughly
_MOST_ABSENT, _ABSENT_BYTES = 50_000, 100  # of one key, roughly
_NONE = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Segment:
    """Rows of one inlined table, no two of the same id; `is_live`: which have not ended since."""

    inlined: InlinedTable
    rows: pa.Table
    row_ids: np.ndarray
    is_live: np.ndarray
    ids: SortedKeys
    keys: SortedKeys | None  # of tables with one key column, of integers
    size_bytes: int

    @classmethod
    def of(cls, inlined: InlinedTable, rows: pa.Table, row_ids: np.ndarray, keys: Sequence[Column]) -> Segment:
        integers = integers_of(rows.column(keys[0].name)) if len(keys) == 1 else None
        sorted_keys = None if integers is None else SortedKeys.of(integers)
        size, is_live = rows.get_total_buffer_size() + 48 * len(row_ids), np.ones(len(row_ids), bool)
        return cls(inlined, rows, row_ids, is_live, SortedKeys.of(row_ids), sorted_keys, size)

    def find(self, index: KeyIndex, keys: Sequence[Column]) -> tuple[np.ndarray, np.ndarray]:
        """Return which live rows have a key, in their order, and its number."""
        wanted = index.integers
        if wanted is None or self.keys is None or self.keys.values.dtype != wanted.values.dtype:
            places, numbers = index.find([self.rows.column(c.name) for c in keys])
        else:
            places, numbers = self.keys.find(wanted)
        live = self.is_live[places]
        return (places, numbers) if live.all() else (places[live], numbers[live])

    def without(self, ended: np.ndarray) -> Segment:
        """Return the segment when rows of some ids, which are sorted, have ended."""
        values = self.ids.values
        found = np.minimum(values.searchsorted(ended), len(values) - 1)
        found = found[values[found] == ended]
        if not len(found):
            return self
        is_live = self.is_live.copy()
        is_live[found if self.ids.places is None else self.ids.places[found]] = False
        return replace(self, is_live=is_live)


@dataclass(frozen=True, slots=True, eq=False)
class KnownRows:
    """One table. `gone`: the positions of files that inlined deletes have deleted, sorted.

    `is_certain`: a commit of ours followed on the snapshot, so that all of it was read from one state of the catalog.
    `of_delete_files`: what delete files delete, as far as it was asked for; these do not change as long as it holds.
    `absent`: keys of one column of integers of which no file has a row that is not deleted. No file comes, and what is
    deleted stays so, as long as it holds: keys that change again and again are not looked for in files each time.
    """

    keys: tuple[Column, ...]
    columns: tuple[Column, ...]
    snapshot: Snapshot
    files: Mapping[DataFileId, DataFile]
    facts: Mapping[DataFileId, tuple[FieldFacts, ...]]
    gone: Mapping[DataFileId, np.ndarray]
    segments: tuple[Segment, ...]
    is_certain: bool = False
    of_delete_files: dict[DataFileId, np.ndarray] = field(default_factory=dict)
    absent: set[int] = field(default_factory=set)

    @property
    def size_bytes(self) -> int:
        deleted = sum(found.nbytes for found in (*self.gone.values(), *[*self.of_delete_files.values()]))
        deleted += _ABSENT_BYTES * len(self.absent)
        return deleted + _FILE_BYTES * len(self.files) + sum(segment.size_bytes for segment in self.segments)

    def after(self, made: MadeCommit, table_id: TableId) -> KnownRows | None:
        """Return the same when a commit has followed; None: it has changed more than rows of the catalog."""
        if made.head != self.snapshot or made.plan.snapshot.snapshot_time <= made.head.snapshot_time:
            return None  # a time that is no later than that of the head may be another's, too
        changed = self
        for table in made.staged.tables:
            if table.newest.table_id == table_id:
                found = self._with_changes(table, made.plan.rows) if self._is_followed(table) else None
                if found is None:
                    return None
                changed = found
        return replace(changed, snapshot=replace(made.plan.snapshot, changes=None), is_certain=True)

    def has_none_in_files(self, index: KeyIndex) -> bool:
        """Tell whether it is known that no file has a row of any of some keys."""
        return index.integers is not None and self.absent.issuperset(index.integers.values.tolist())

    def note_absent(self, index: KeyIndex, found: Sequence[np.ndarray]) -> None:
        """Note that no file has other keys of some than those that were found in files, by their numbers."""
        if index.integers is None:
            return
        is_absent = np.ones(index.count, bool)
        for numbers in found:
            is_absent[numbers] = False
        if len(self.absent) > _MOST_ABSENT:
            self.absent.clear()
        self.absent.update(index.integers.values[is_absent[index.integers.numbers]].tolist())

    def deleted(self, file: DataFile, read_deletes: Callable[[], np.ndarray]) -> list[np.ndarray]:
        """Return the positions of a file that are deleted: each array is sorted, and may be empty."""
        found = [self.gone.get(file.data_file_id, _NONE)]
        if file.delete_files:
            if file.data_file_id not in self.of_delete_files:
                self.of_delete_files[file.data_file_id] = read_deletes()
            found.append(self.of_delete_files[file.data_file_id])
        return found

    def _is_followed(self, table: StagedTable) -> bool:
        writes = table.writes
        of_files = writes.files or writes.delete_files or writes.ended_files or writes.moved is not None
        is_same = not table.changes_definition and not table.rewritten_bounds and table.newest.columns == self.columns
        return is_same and not of_files

    def _with_changes(self, table: StagedTable, made: Iterable[object]) -> KnownRows | None:
        segments, writes = list(self.segments), table.writes
        for end in writes.inlined_ends:  # before the new versions, which have the same ids
            ended = np.asarray(end.row_ids, np.int64)
            segments = [s.without(ended) if s.inlined.name == end.inlined_table else s for s in segments]
            segments = [segment for segment in segments if segment.is_live.any()]
        inlined = table.newest.newest_inlined_table
        sources = {id(rows) for rows in writes.inlined}
        for rows in (w for w in made if isinstance(w, InsertInlined) and id(w.source) in sources):
            if inlined is None or rows.name != inlined.name or rows.source.columns != self.columns:
                return None
            segments.append(Segment.of(inlined, _compact(rows.source.rows, self.columns), rows.row_ids, self.keys))
        gone, files = dict(self.gone), dict(self.files)
        for deletes in writes.inlined_file_deletes:
            file_id, positions = deletes.data_file_id, np.asarray(deletes.positions, np.int64)
            gone[file_id] = np.sort(np.concatenate([gone.get(file_id, _NONE), positions]))
            files[file_id] = replace(files[file_id], inlined_deletes=tuple(gone[file_id].tolist()))
        return replace(self, segments=tuple(_merged(segments, self.keys)), gone=gone, files=files)


def _merged(segments: list[Segment], keys: Sequence[Column]) -> list[Segment]:
    """Return few segments: each is many times as large as the next one, so that a row is copied a few times at most."""
    while len(segments) > 1 and len(segments[-2].row_ids) <= _MERGE_FACTOR * len(segments[-1].row_ids):
        last, other = segments.pop(), segments.pop()
        is_alike = last.inlined.name == other.inlined.name and last.rows.schema.types == other.rows.schema.types
        if not is_alike:
            return [*segments, other, last]
        segments.append(_joined(other, last, keys))
    return segments


def _joined(one: Segment, other: Segment, keys: Sequence[Column]) -> Segment:
    names = one.rows.column_names
    arrays = [
        pa.concat_arrays([_live(segment, segment.rows.column(name)) for segment in (one, other)]) for name in names
    ]
    row_ids = np.concatenate([segment.row_ids[segment.is_live] for segment in (one, other)])
    return Segment.of(one.inlined, pa.Table.from_arrays(arrays, names=names), row_ids, keys)


def _compact(rows: pa.Table, columns: Sequence[Column]) -> pa.Table:
    """Return rows that hold no more memory than they need: a few may be a piece of a large table."""
    is_small = rows.get_total_buffer_size() < _SMALL_BYTES
    found = rows.combine_chunks() if is_small else rows.take(pa.array(np.arange(rows.num_rows)))
    return pa.Table.from_arrays(found.columns, names=[c.name for c in columns])


def _live(segment: Segment, column: pa.ChunkedArray) -> pa.Array:
    array = single(column)
    return array if segment.is_live.all() else array.filter(pa.array(segment.is_live))
