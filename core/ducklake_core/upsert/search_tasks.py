"""The search of data files as tasks: what one does with a file, and when there is enough to read for them.

Runs on driver and executors. A task gets a file, the keys of the batch and, where old values are compared, its rows;
it gives back the rows that have a key. Neither of them grows with the table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import pyarrow as pa

from ducklake_core.model import Column, DataFile, SnapshotId
from ducklake_core.upsert.file_search import FileSearch
from ducklake_core.upsert.hits import AllHits, Hits
from ducklake_core.upsert.memory import SearchMemory
from ducklake_core.upsert.old_values import OldValues

# So many rows of files that may hold a key, and whose keys are not kept, are left to tasks, where somebody does them.
# More than the process can keep the keys of, so that it would read them again for each batch.
LARGE_ROWS = 20_000_000


class Afterwards(Protocol):
    """What a task does with the rows that it has found; pickles, and can be compared with another."""

    def __call__(self, hits: Hits, old: OldValues) -> Hits: ...


@dataclass(frozen=True, slots=True, eq=False)
class Compare:
    """Tells of rows that were found whether the last event of their key changes them. `row_of`: -1 for a delete."""

    rows: pa.Table
    row_of: np.ndarray

    def __call__(self, hits: Hits, old: OldValues) -> Hits:
        places = self.row_of[hits.numbers]
        is_changed, is_asked = np.zeros(len(places), bool), places >= 0
        if is_asked.any():
            rows = self.rows.take(pa.array(places[is_asked]))
            is_changed[is_asked] = old.changed(AllHits.of([hits.only(is_asked)]), rows)
        return replace(hits, is_changed=is_changed)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Compare):
            return NotImplemented
        return bool(self.rows.equals(other.rows)) and np.array_equal(self.row_of, other.row_of)

    __hash__ = None  # type: ignore[assignment] # it is compared, and no key of anything


@dataclass(frozen=True, slots=True)
class ReadRows:
    """Reads columns of rows that were found."""

    columns: tuple[Column, ...]

    def __call__(self, hits: Hits, old: OldValues) -> Hits:
        return replace(hits, values=old.read(hits, self.columns))


@dataclass(frozen=True, slots=True)
class SearchTask:
    """Searches one file. `afterwards` None: nothing but the keys is read."""

    search: FileSearch
    table_columns: tuple[Column, ...]
    snapshot: SnapshotId
    afterwards: Afterwards | None

    def __call__(self, file: DataFile) -> Hits | None:
        hits = self.search.find(file)
        if hits is None or self.afterwards is None:
            return hits
        old = OldValues(self.search.storage, self.table_columns, self.snapshot, SearchMemory())
        return self.afterwards(hits, old)


def is_large(files: Sequence[DataFile]) -> bool:
    """Tell whether the keys of some files are worth tasks."""
    return bool(files) and sum(file.record_count for file in files) >= LARGE_ROWS
