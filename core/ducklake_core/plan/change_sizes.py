"""About how much each snapshot of a range has changed: how far a micro-batch reads, and who reads what. Pure.

The catalog does not say of every row which snapshot inserted or deleted it: a flush puts rows of many into one file,
and a delete file holds all deletes so far. Such rows are shared among the snapshots that can have done it. The sum over
a range is never less than what its feed has.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from ducklake_core.model import DataFile, DeleteFile
from ducklake_core.plan.change_slices import ChangedFile
from ducklake_core.plan.feed import History


@dataclass(frozen=True, slots=True)
class ChangeSize:
    """About how many rows a snapshot has changed, and about how many bytes it has added in files."""

    rows: float = 0
    bytes: float = 0


def change_sizes(
    history: History, files: Iterable[ChangedFile], inlined: Iterable[tuple[int, int]] = ()
) -> dict[int, ChangeSize]:
    """Return the sizes of the snapshots of a range that changed something.

    `files` are those that it touched; `inlined` are counts of inlined row versions, by the snapshot that began or ended
    them.
    """
    rows: defaultdict[int, float] = defaultdict(float)
    for snapshot, count in inlined:
        rows[snapshot] += count
    inserting = [s.snapshot_id for s in history.snapshots if s.inserts]
    new_rows, new_bytes, deleted = _Shares(inserting), _Shares(inserting), _Deletes(history)
    for changed in files:
        file = changed.file
        if changed.holds_new_rows:
            born = file.begin_snapshot, max(file.begin_snapshot, file.partial_max or 0)
            new_rows.add(file.record_count, *born)
            new_bytes.add(file.file_size_bytes, *born)
        for _, snapshot in changed.inlined_deletes:
            rows[snapshot] += snapshot in history.span
        deleted.add(file)
    size = dict(new_bytes.totals())
    for snapshot, shared in (*new_rows.totals(), *deleted.totals()):
        rows[snapshot] += shared
    return {snapshot: ChangeSize(count, size.get(snapshot, 0)) for snapshot, count in sorted(rows.items()) if count}


class _Shares:
    """Amounts that are shared evenly among those of some sorted snapshots that lie in a range."""

    def __init__(self, snapshots: Sequence[int]) -> None:
        self._snapshots = snapshots
        self._steps = [0.0] * (len(snapshots) + 1)  # what each has more than the one before

    def add(self, amount: float, first: int, last: int) -> bool:
        """Share out an amount from `first` to `last`, both included; tell whether there was one to take it."""
        start, end = bisect_left(self._snapshots, first), bisect_right(self._snapshots, last)
        if start >= end:
            return False
        self._steps[start] += amount / (end - start)
        self._steps[end] -= amount / (end - start)
        return True

    def totals(self) -> list[tuple[int, float]]:
        return [(i, max(0.0, total)) for i, total in zip(self._snapshots, accumulate(self._steps), strict=False)]


class _Deletes:
    """Deletes from files. A snapshot that only flushes gets none, as long as there is another that can have done it."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._certain = _Shares([s.snapshot_id for s in history.snapshots if s.deletes])
        self._possible = _Shares([s.snapshot_id for s in history.snapshots if s.may_delete and not s.deletes])
        self._ids = [s.next_file_id for s in history.snapshots]

    def add(self, file: DataFile) -> None:
        end = file.end_snapshot
        if end is not None and end in self._history.span and end not in self._history.rewrites:
            self._share(file.record_count, end, end)
        for delete_file in file.delete_files:
            if delete_file.delete_file_id >= self._history.first_new_file_id:  # else all of it happened before
                self._share(delete_file.delete_count, delete_file.begin_snapshot, self._written_by(delete_file))

    def totals(self) -> list[tuple[int, float]]:
        return [*self._certain.totals(), *self._possible.totals()]

    def _share(self, rows: int, first: int, last: int) -> None:
        _ = self._certain.add(rows, first, last) or self._possible.add(rows, first, last)

    def _written_by(self, delete_file: DeleteFile) -> int:
        """Return the snapshot that wrote a delete file: it holds deletes up to there. Its row may begin long before."""
        index = bisect_right(self._ids, delete_file.delete_file_id)
        return self._history.snapshots[index].snapshot_id if index < len(self._ids) else self._history.span.end
