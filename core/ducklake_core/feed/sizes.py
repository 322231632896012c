"""About how much each snapshot of a range has changed: how far a micro-batch reads, and who reads what. Pure.

The catalog does not say of every row which snapshot inserted or deleted it: a flush puts rows of many into one file,
and a delete file holds all deletes so far. All such rows are counted for the first snapshot that can have done it: so
the sum over a range, and over each range that it begins with, is never less than what its feed has. For tasks, which
want about as much each, they are shared evenly among those that can.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from ducklake_core.feed.history import History
from ducklake_core.feed.task import ChangedFile
from ducklake_core.model import DataFile, DeleteFile


@dataclass(frozen=True, slots=True)
class ChangeSize:
    """How much a snapshot has changed: with those before it, `rows` at most; else about so much."""

    rows: int = 0
    bytes: float = 0
    even_rows: float = 0


def change_sizes(
    history: History, files: Iterable[ChangedFile], inlined: Iterable[tuple[int, int]] = ()
) -> dict[int, ChangeSize]:
    """Return the sizes of the snapshots of a range that changed something.

    `files` are those that it touched; `inlined` are counts of inlined row versions, by the snapshot that began or ended
    them.
    """
    known: Counter[int] = Counter()
    for snapshot, count in inlined:
        known[snapshot] += count
    inserting = [s.snapshot_id for s in history.snapshots if s.inserts]
    new_rows, new_bytes, deleted = _Shares(inserting), _Shares(inserting), _Deletes(history)
    for changed in files:
        file = changed.file
        if changed.holds_new_rows:
            born = file.begin_snapshot, max(file.begin_snapshot, file.partial_max or 0)
            new_rows.add(file.record_count, *born)
            new_bytes.add(file.file_size_bytes, *born)
        for _, snapshot in changed.inlined_deletes:
            known[snapshot] += history.span.start < snapshot <= history.span.end
        deleted.add(file)
    rows = known + new_rows.firsts + deleted.firsts
    even_rows: defaultdict[int, float] = defaultdict(float, known)
    for snapshot, shared in (*new_rows.totals(), *deleted.totals()):
        even_rows[snapshot] += shared
    size = defaultdict(float, new_bytes.totals())
    changed_by = sorted(snapshot for snapshot in {*rows, *even_rows} if rows[snapshot] or even_rows[snapshot])
    return {i: ChangeSize(rows[i], size[i], even_rows[i]) for i in changed_by}


class _Shares:
    """Amounts that are shared evenly among those of some sorted snapshots that lie in a range.

    `firsts` has all of each amount for the first of them.
    """

    def __init__(self, snapshots: Sequence[int]) -> None:
        self.firsts: Counter[int] = Counter()
        self._snapshots = snapshots
        self._steps = [0.0] * (len(snapshots) + 1)  # what each has more than the one before

    def add(self, amount: int, first: int, last: int) -> bool:
        """Share out an amount from `first` to `last`, both included; tell whether there was one to take it."""
        start, end = bisect_left(self._snapshots, first), bisect_right(self._snapshots, last)
        if start >= end:
            return False
        self.firsts[self._snapshots[start]] += amount
        self._steps[start] += amount / (end - start)
        self._steps[end] -= amount / (end - start)
        return True

    def totals(self) -> list[tuple[int, float]]:
        return [(i, max(0.0, total)) for i, total in zip(self._snapshots, accumulate(self._steps), strict=False)]


class _Deletes:
    """Deletes from files.

    A snapshot that only flushes gets no share, as long as there is another that can have done it; but as a first one
    it counts, for it may have deleted, too.
    """

    def __init__(self, history: History) -> None:
        self._history = history
        self._any = _Shares([s.snapshot_id for s in history.snapshots if s.may_delete])
        self._certain = _Shares([s.snapshot_id for s in history.snapshots if s.deletes])
        self._possible = _Shares([s.snapshot_id for s in history.snapshots if s.may_delete and not s.deletes])
        self._ids = [s.next_file_id for s in history.snapshots]

    def add(self, file: DataFile) -> None:
        end = file.end_snapshot
        span = self._history.span
        if end is not None and span.start < end <= span.end and end not in self._history.rewrites:
            self._share(file.record_count, end, end)
        for delete_file in file.delete_files:
            if delete_file.delete_file_id >= self._history.first_new_file_id:  # else all of it happened before
                self._share(delete_file.delete_count, delete_file.begin_snapshot, self._written_by(delete_file))

    @property
    def firsts(self) -> Counter[int]:
        return self._any.firsts

    def totals(self) -> list[tuple[int, float]]:
        return [*self._certain.totals(), *self._possible.totals()]

    def _share(self, rows: int, first: int, last: int) -> None:
        self._any.add(rows, first, last)
        _ = self._certain.add(rows, first, last) or self._possible.add(rows, first, last)

    def _written_by(self, delete_file: DeleteFile) -> int:
        """Return the snapshot that wrote a delete file: it holds deletes up to there. Its row may begin long before."""
        index = bisect_right(self._ids, delete_file.delete_file_id)
        return self._history.snapshots[index].snapshot_id if index < len(self._ids) else self._history.span.end
